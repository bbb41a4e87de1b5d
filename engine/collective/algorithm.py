"""Collective algorithms on one building block, as schedules of steps.

A phase of a collective moves ``s`` bytes (what a member holds on entering it) among the ``p``
members of a group inside one dimension.  A schedule says in which steps, so that its duration is

    sum over steps of  count * (hops * latency + endpoint_delay
                                + bytes_fraction * s / (share * b)
                                + reduce_fraction * s / reduce_bandwidth)

with b the NPU's bandwidth in the dimension.  The messages that pass through one port one after
another in a step are each rounded to a picosecond, as in a simulation of the single messages
(:mod:`engine.collective.rounds` says which they are).  Sources: Thakur, Rabenseifner, Gropp,
"Optimization of Collective Communication Operations in MPICH" (2005); Bruck et al. (1997) for
groups that are no power of two; Sanders, Speck, Traeff, "Two-tree algorithms" (2009).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from engine.cluster.blocks import Block, LinkUse, SubgroupBandwidth
from engine.errors import DimsweepError
from engine.workload.graph import CollectiveKind

AUTO = "auto"
# These define an all-reduce only; a lone reduce-scatter or all-gather falls back to
# halving-doubling, of which they are relatives.
ALL_REDUCE_ONLY = ("double_binary_tree", "rabenseifner")


@dataclass(frozen=True)
class Step:
    """``count`` equal steps, of ``messages`` one after another; see the module's formula."""

    count: int
    hops: int
    bytes_fraction: float
    reduce_fraction: float = 0.0
    messages: int = 1


@dataclass(frozen=True)
class Schedule:
    """The steps of a phase; ``share`` of the NPU's bandwidth serves them.

    ``growth`` is the bytes held afterwards over those held before; ``moved`` the bytes an NPU
    sends, relayed ones included, over those held before.
    """

    steps: tuple[Step, ...]
    share: float
    growth: float
    moved: float


@dataclass(frozen=True)
class Setting:
    """Where a phase runs: ``p`` members, ``stride`` apart, in a ``block`` of ``n`` NPUs."""

    block: Block
    n: int
    p: int
    stride: int
    policy: SubgroupBandwidth = SubgroupBandwidth.PHYSICAL


def algorithm_for(block: Block, name: str) -> str:
    """The algorithm called ``name`` on ``block`` (``auto``: the topology-aware one).

    Raises :class:`DimsweepError` when the block does not support it.
    """
    if name == AUTO:
        return block.algorithms[0]
    if name not in block.algorithms:
        raise DimsweepError(
            f"{name!r} does not run on a {block.name}",
            where="collective.algorithms",
            hint=f"{block.name}: {', '.join((AUTO, *block.algorithms))}",
        )
    return name


def schedule(kind: CollectiveKind, algorithm: str, setting: Setting) -> Schedule:
    """One phase of ``kind``; an all-reduce here is the fused one (see :func:`fuses`)."""
    p = setting.p
    use = setting.block.use_under(setting.policy, setting.n, p, setting.stride)
    if kind is CollectiveKind.ALL_TO_ALL:
        if setting.block.all_to_all == "relay" and setting.policy is SubgroupBandwidth.PHYSICAL:
            return _relay_all_to_all(p, use)
        return Schedule((_exchange(p, use, setting.block),), use.share, 1.0, (p - 1) / p)
    if kind is CollectiveKind.ALL_REDUCE:
        return _FUSED[algorithm](p, use)
    if algorithm in ALL_REDUCE_ONLY:
        algorithm = "halving_doubling"
    # An all-gather is a reduce-scatter backwards: the same messages, p times the entering bytes,
    # and nothing to reduce.
    if algorithm == "direct":
        scatter: tuple[Step, ...] = (_exchange(p, use, setting.block, reduce=(p - 1) / p),)
    else:
        scatter = _SCATTER[algorithm](p, use)
    if kind is CollectiveKind.REDUCE_SCATTER:
        moved = 1.0 if algorithm == "in_switch" else (p - 1) / p
        return Schedule(scatter, use.share, 1 / p, moved)
    if algorithm == "in_switch":
        # The switch multicasts: an NPU sends its own shard once and receives the others'.
        everything = Step(1, use.hops, p - 1.0, messages=p - 1)
        return Schedule((everything,), use.share, float(p), 1.0)
    gather = tuple(
        replace(step, bytes_fraction=step.bytes_fraction * p, reduce_fraction=0.0)
        for step in reversed(scatter)
    )
    return Schedule(gather, use.share, float(p), p - 1.0)


def fuses(algorithm: str) -> bool:
    """Whether the algorithm replaces reduce-scatter + all-gather on a chunk's last dimension."""
    return algorithm in _FUSED


def _ring(p: int, use: LinkUse) -> tuple[Step, ...]:
    """p - 1 steps to the neighbour.

    On a line (part of a ring) the message of the last member back to the first crosses every hop.
    A chain of p - 1 dependent steps meets that message at most once and never twice, so the other
    p - 2 steps take a neighbour's hops each.
    """
    reduce = 1 / p
    step = Step(p - 1, use.hops, 1 / p, reduce, messages=use.sharers)
    if use.wrap_hops == use.hops:
        return (step,)
    once = replace(step, count=1, hops=use.wrap_hops)
    return (once, replace(step, count=p - 2)) if p > 2 else (once,)


def _exchange(p: int, use: LinkUse, block: Block, reduce: float = 0.0) -> Step:
    """Everyone to everyone: one after another through a port, or side by side on own links."""
    return Step(1, use.hops, (p - 1) / p, reduce, messages=1 if block.side_by_side else p - 1)


def _halving_doubling(p: int, use: LinkUse) -> tuple[Step, ...]:
    """ceil(log2 p) steps of min(2^k, p - 2^k) shards, the largest first.

    For a power of two that is recursive halving.  For any other p it is the reduce-scatter dual to
    Bruck's all-gather: the same number of steps as the next power of two, and still exactly
    (p - 1)/p of the bytes.
    """
    shards = [min(2**k, p - 2**k) / p for k in range((p - 1).bit_length())]
    return tuple(Step(1, use.hops, shard, shard) for shard in reversed(shards))


def _in_switch(p: int, use: LinkUse) -> tuple[Step, ...]:
    """Everything up to the switch, which reduces; each member's shard comes down meanwhile."""
    return (Step(1, use.hops, 1.0),)


def _in_switch_all_reduce(p: int, use: LinkUse) -> Schedule:
    """s up and s down at the same time (full duplex, cut through in the switch)."""
    return Schedule((Step(1, use.hops, 1.0),), use.share, 1.0, 1.0)


def _double_binary_tree(p: int, use: LinkUse) -> Schedule:
    """Half of the bytes up and down each of two trees, whose inner nodes are the other's leaves.

    A tree is a root over a binary tree of p - 1 nodes: 1 + floor(log2(p - 1)) levels.  A node takes
    two children's halves through its one port, one after another.  The root has one child; and
    unless p is a power of two the node below it has one, or two of which the second comes earlier.
    """
    levels, full = (p - 1).bit_length(), p & (p - 1) == 0
    two = Step(levels - 1 if full else levels - 2, use.hops, 1.0, 1.0, messages=2)
    # The power of two below p has a second child if there are any places above it.
    lopsided = Step(0 if full else 1, use.hops, 0.5, 1.0 if p - 1 > 1 << (levels - 1) else 0.5)
    up = [step for step in (two, lopsided, Step(1, use.hops, 0.5, 0.5)) if step.count > 0]
    down = [replace(step, reduce_fraction=0.0) for step in reversed(up)]
    return Schedule((*up, *down), use.share, 1.0, 2 * (p - 1) / p)


def _rabenseifner(p: int, use: LinkUse) -> Schedule:
    """Recursive halving, then doubling, among the largest power of two q <= p.

    The p - q members left over first hand all their bytes to a partner and at the end get the
    result back.
    """
    q = 1 << (p.bit_length() - 1)
    halving = _halving_doubling(q, use)
    doubling = tuple(Step(1, step.hops, step.bytes_fraction) for step in reversed(halving))
    if p == q:
        return Schedule((*halving, *doubling), use.share, 1.0, 2 * (p - 1) / p)
    before, after = Step(1, use.hops, 1.0, 1.0), Step(1, use.hops, 1.0)
    moved = (2 * (q - 1) + 2 * (p - q)) / p
    return Schedule((before, *halving, *doubling, after), use.share, 1.0, moved)


def _relay_all_to_all(p: int, use: LinkUse) -> Schedule:
    """All-to-all on a ring pays for every hop that its bytes travel.

    Full ring: in step j each NPU relays to both neighbours the pieces of s/p that have further to
    go than j - 1 hops (for even p the opposite NPU's piece is halved between the directions), so
    floor(p^2/4)/p * s bytes leave each NPU in floor(p/2) steps.  On a line the middle link carries
    floor(p^2/4) pieces each way, and the farthest piece crosses all p - 1 hops.
    """
    if use.wrap_hops != use.hops:
        pieces = p * p // 4
        middle = Step(1, use.wrap_hops, pieces / p, messages=pieces * use.sharers)
        return Schedule((middle,), use.share, 1.0, (p * p - 1) / (3 * p))
    reach = p // 2
    weights = [1.0] * reach
    if p % 2 == 0:
        weights[-1] = 0.5
    steps = tuple(
        Step(1, use.hops, 2 * sum(weights[j:]) / p, messages=use.sharers) for j in range(reach)
    )
    return Schedule(steps, use.share, 1.0, sum(step.bytes_fraction for step in steps))


_SCATTER: dict[str, Callable[[int, LinkUse], tuple[Step, ...]]] = {
    "ring": _ring,
    "halving_doubling": _halving_doubling,
    "in_switch": _in_switch,
}
_FUSED: dict[str, Callable[[int, LinkUse], Schedule]] = {
    "in_switch": _in_switch_all_reduce,
    "double_binary_tree": _double_binary_tree,
    "rabenseifner": _rabenseifner,
}
