"""Trees: bytes are reduced on their way up and copied on their way down.

The levels of a tree are a pipeline: bytes stream through all of them at once, in pieces so small
that the first one's latency is only that of its links.  Ports are busy as long as the busiest
member's bytes need, and the depth of the trees is latency.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import zip_longest
from math import gcd
from typing import NamedTuple

from dimsweep.engine.collective.algorithms.algorithm import Algorithm
from dimsweep.engine.collective.algorithms.halving import AllReduceOnly
from dimsweep.engine.collective.rounds import (
    MemberRounds,
    Round,
    RoundMessage,
    Strand,
    SwitchRound,
    SwitchRounds,
)
from dimsweep.engine.collective.steps import PhaseSteps, Setting, Step
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.network.forest import Forest as Trees
from dimsweep.engine.network.forest import Tree, build_forest
from dimsweep.engine.network.graph import Network

# --- in-switch ------------------------------------------------------------------------------------


class InSwitch(Algorithm):
    """Reduction and multicast by the switch, cut through and full duplex (such as NVLS or SHARP).

    The bytes that a member holds before a phase go up once, and those that it holds afterwards come
    down once, both at the same time. So a reduce-scatter takes the time of the upward bytes, and an
    all-gather that of the downward bytes, a member's own shard included: the switch multicasts to
    the whole group. A fused all-reduce sends half of the bytes of any other algorithm.
    """

    name = "in_switch"
    fuses = True

    def steps(self, kind: CollectiveKind, setting: Setting) -> PhaseSteps:
        """Return a phase as steps for the phase kernel."""
        p, use = setting.p, setting.use
        growth = self._growth(kind, p)
        # The shards of an all-gather come down one after another.
        pieces = p if kind is CollectiveKind.ALL_GATHER else 1
        through = Step(1, use.hops, max(1.0, growth), messages=pieces)
        return PhaseSteps((through,), use.share, growth, 1.0)

    def rounds(self, kind: CollectiveKind, p: int, circle: bool) -> SwitchRounds:
        """Return a phase among ``p`` members as messages to and from the switch."""
        members, growth = tuple(range(p)), self._growth(kind, p)
        if kind is CollectiveKind.ALL_GATHER:
            return SwitchRounds(tuple(SwitchRound((i,), 1.0, members, 1.0) for i in members))
        return SwitchRounds((SwitchRound(members, 1.0, members, growth),))

    def _growth(self, kind: CollectiveKind, p: int) -> float:
        """Return the bytes that a member receives in a phase over the bytes that it sends."""
        if kind is CollectiveKind.ALL_TO_ALL:
            raise self.cannot(kind)
        growth = {CollectiveKind.REDUCE_SCATTER: 1 / p, CollectiveKind.ALL_GATHER: float(p)}
        return growth.get(kind, 1.0)

    def n_messages(self, kind: CollectiveKind, p: int, circle: bool) -> int:
        """Return the number of messages of one phase among ``p`` members."""
        return p * (p + 1) if kind is CollectiveKind.ALL_GATHER else 2 * p


# --- double binary tree ---------------------------------------------------------------------------
# Double binary tree: half of the bytes up and down each of two trees.
#
# Sanders, Speck, Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan"
# (2009).
#
# The levels of a tree are a pipeline: bytes stream through all of them at once, in pieces so small
# that the first one's way is nothing (the paper says how small).  So ports are busy for as long as
# the member with the most to send needs for its bytes, and the depth of the trees is latency.


class DoubleBinaryTree(AllReduceOnly):
    """All-reduce along two binary trees; the inner nodes of one tree are leaves of the other."""

    name = "double_binary_tree"

    def fused_steps(self, setting: Setting) -> PhaseSteps:
        """Return the all-reduce as steps: two trees, each a root over a binary tree of p - 1 nodes.

        They have 1 + floor(log2(p - 1)) levels. A node with two children sends half of the bytes up
        and twice half of them down, and, as a leaf of the other tree, half of them up. It receives
        as many bytes, and reduces its children's. Two or three members have less to do.
        """
        p, use = setting.p, setting.use
        halves, levels = min(p, 4), (p - 1).bit_length()
        busiest = Step(1, use.hops, halves / 2, min(p - 1, 2) / 2, messages=halves)
        depth = Step(2 * levels - 1, use.hops, 0.0)
        return PhaseSteps((busiest, depth), use.share, 1.0, 2 * (p - 1) / p)

    def fused_rounds(self, p: int) -> MemberRounds:
        """Return the all-reduce's messages along two trees; the second is the first, rearranged.

        It is mirrored for even p, and shifted by one for odd p. The bytes of all edges start at
        once. Behind them, an empty message reports the arrival of the last byte; it waits for the
        empty messages of the level before.
        """
        there = range(p - 1, -1, -1) if p % 2 == 0 else (*range(1, p), 0)
        trees = _Tree(range(p)), _Tree(there)
        slots = _slots(trees)
        return MemberRounds(
            tuple(
                (_stream(trees, slots, member), *(_ends(tree, member) for tree in trees))
                for member in range(p)
            )
        )

    def n_fused_messages(self, p: int) -> int:
        """Return the number of messages of an all-reduce among ``p`` members."""
        return 8 * (p - 1)  # up and down the edges of two trees, the bytes and their end


class _Edge(NamedTuple):
    """The edge between a member and its parent in one of the two trees."""

    tree: int
    child: int


class _Tree:
    """A tree of members, with their parents and children; ``there[i]`` is the member at place i."""

    def __init__(self, there: Sequence[int]) -> None:
        self.children: dict[int, tuple[int, ...]] = {
            member: tuple(there[child] for child in _children(len(there), place))
            for place, member in enumerate(there)
        }
        self.parents = {
            child: member for member, children in self.children.items() for child in children
        }


def _children(p: int, place: int) -> tuple[int, ...]:
    """Return the children of ``place`` in an in-order binary tree of 1..p-1 below the root 0.

    A place's height is its number of trailing zeros, so all odd places are leaves.
    """
    if place == 0:
        return (1 << ((p - 1).bit_length() - 1),)
    step = (place & -place) // 2
    if not step:
        return ()
    before = place - step
    while step and place + step >= p:
        step //= 2  # the right subtree is cut off: its highest place that exists
    return (before, place + step) if step else (before,)


def _slots(trees: Sequence[_Tree]) -> dict[_Edge, int]:
    """Return slot 0 or 1 for each edge; a member's two edges to children, or parents, differ.

    So each member sends to its parents one after another while it receives from its children one
    after another, and then the reverse. As at most two edges meet at either end, they form paths
    and circles of even length, along which the slots alternate.
    """
    below: dict[int, list[_Edge]] = {member: [] for member in trees[0].children}
    above: dict[int, list[_Edge]] = {member: [] for member in trees[0].children}
    for number, tree in enumerate(trees):
        for child, parent in tree.parents.items():
            below[parent].append(_Edge(number, child))
            above[child].append(_Edge(number, child))
    slots: dict[_Edge, int] = {}
    for first in (edge for edges in above.values() for edge in edges):
        found = [(first, 0)]
        while found:
            edge, slot = found.pop()
            if edge not in slots:
                slots[edge] = slot
                parent = trees[edge.tree].parents[edge.child]
                found += [(beside, 1 - slot) for beside in (*below[parent], *above[edge.child])]
    return slots


def _stream(trees: Sequence[_Tree], slots: dict[_Edge, int], member: int) -> Strand:
    """Return the rounds in which a member sends and receives all bytes of both trees.

    It reduces when all bytes have arrived.
    """
    send: list[tuple[int, RoundMessage]] = []
    receive: list[int] = []
    for number, tree in enumerate(trees):
        if member in tree.parents:
            parent = tree.parents[member]
            send.append((slots[_Edge(number, member)], RoundMessage(parent, 0.5)))
            receive.append(parent)
        for child in tree.children[member]:
            send.append((2 + slots[_Edge(number, child)], RoundMessage(child, 0.5)))
            receive.append(child)
    reduce = sum(len(tree.children[member]) for tree in trees) / 2
    in_turn = tuple(message for _, message in sorted(send))
    return Round((), 0.0, in_turn), Round(tuple(receive), reduce, ())


def _ends(tree: _Tree, member: int) -> Strand:
    """Return the rounds that pass on the last bytes: up from the children, down from the parent."""
    children = tree.children[member]
    down = tuple(RoundMessage(child, 0.0) for child in children)
    if member not in tree.parents:
        return (Round(children, 0.0, down),)
    parent = tree.parents[member]
    return Round(children, 0.0, (RoundMessage(parent, 0.0),)), Round((parent,), 0.0, down)


# --- forest ---------------------------------------------------------------------------------------
# Forest: bytes go along trees that use all that the links of a network can carry.
#
# Zhao et al., "ForestColl: Throughput-Optimal Collective Communications on Heterogeneous Network
# Fabrics" (arXiv 2402.06787); :mod:`engine.network.forest` finds the trees.
#
# As in other trees, levels are a pipeline: bytes stream through all of them at once, in pieces so
# small that the first one's way is nothing.  So the bytes of all branches set out together, in
# pieces of about the same size, which links that are shared fairly pass in as long as the
# narrowest cut needs. Behind them, along each tree, go messages without any: they wait for those
# of the level before, and are as late as the last byte.


_PIECES = 16  # that the bytes between two members by one way are cut into, in the mean, at most
_FINER = 4  # parts of a piece, where all of them are no more than
_FEW = 20_000
_KINDS = (CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_GATHER)


@dataclass(frozen=True)
class Forest(Algorithm):
    """Reduce-scatter and all-gather along trees from each member to all others, on any links."""

    name = "forest"

    @property
    def by_network(self) -> bool:
        """True: the trees depend on the links of the network."""
        return True

    def adapt_to_members(self, network: Network, ranks: Sequence[int], dim: int) -> Algorithm:
        """Return the algorithm for the members ``ranks`` of ``network``."""
        return _Among(network, tuple(ranks), dim if network.sizes else None)

    def steps(self, kind: CollectiveKind, setting: Setting) -> PhaseSteps:
        """Return a phase without steps, but with its growth in bytes: only links give the time."""
        p = setting.p
        if kind is CollectiveKind.REDUCE_SCATTER:
            return PhaseSteps((), setting.use.share, 1 / p, (p - 1) / p)
        if kind is CollectiveKind.ALL_GATHER:
            return PhaseSteps((), setting.use.share, float(p), p - 1.0)
        raise self.cannot(kind)

    def rounds(self, kind: CollectiveKind, p: int, circle: bool) -> MemberRounds:
        """Raise :class:`DimsweepError`: rounds need :meth:`adapt_to_members`."""
        if kind not in _KINDS:
            raise self.cannot(kind)
        raise DimsweepError(
            f"{self.name!r} needs the links between its members",
            where="collective.algorithms",
            hint="choose a fidelity with links: message, flow or packet",
            code="unsupported",
        )


class _Hop(NamedTuple):
    """A direct transfer from one member to another, over the links ``way``."""

    source: int
    target: int
    way: tuple[int, ...]


@dataclass(frozen=True)
class _Among(Forest):
    """:class:`Forest` for the members ``ranks`` of ``network``, or of its dimension ``dim``."""

    network: Network
    ranks: tuple[int, ...]
    dim: int | None

    def rounds(self, kind: CollectiveKind, p: int, circle: bool) -> MemberRounds:
        """Return a phase as messages."""
        if kind not in _KINDS:
            raise self.cannot(kind)
        return _rounds(self, kind)

    @cached_property
    def trees(self) -> Trees:
        """Trees from each member to all others."""
        return build_forest(self.network, self.ranks, self.dim)

    @cached_property
    def gathering(self) -> Trees:
        """Trees from all others to each member, for reduce-scatters."""
        return build_forest(self.network, self.ranks, self.dim, backwards=True)

    def made(self, kind: CollectiveKind) -> MemberRounds:
        """Return the messages of a reduce-scatter or all-gather, newly computed."""
        reduces = kind is CollectiveKind.REDUCE_SCATTER
        forest = self.gathering if reduces else self.trees
        # What a member holds on entering is its own part, or those for all.
        held = forest.k * (len(self.ranks) if reduces else 1)
        hops = Counter[_Hop]()
        for tree in forest.trees:
            for branch in tree.branches:
                hops[self._hop(*branch[:3], back=reduces)] += branch.n
        streams = self._streams(hops, held, reduces=reduces)
        ends = [self._ends(tree, back=reduces) for tree in forest.trees]
        return MemberRounds(
            tuple(
                (stream, *(end.get(member, ()) for end in ends))
                for member, stream in enumerate(streams)
            )
        )

    def _hop(self, parent: int, child: int, way: tuple[int, ...], *, back: bool) -> _Hop:
        ends = self.ranks.index(parent), self.ranks.index(child)
        return _Hop(*(ends[::-1] if back else ends), way)

    def _streams(self, hops: Counter[_Hop], held: int, *, reduces: bool) -> list[Strand]:
        """Return, for each member, the messages that carry bytes, with sizes relative to its bytes.

        ``hops`` counts the units of bytes of each transfer; a member holds ``held`` units on entry.
        """
        p, size = len(self.ranks), _piece(hops.values())
        # Whole messages wait less for one another if they are short.
        finer = _FINER if _FINER * sum(hops.values()) <= _FEW * size else 1
        sent: defaultdict[int, dict[tuple[int, int], list[RoundMessage]]] = defaultdict(dict)
        received: defaultdict[int, dict[int, list[float]]] = defaultdict(dict)
        for number, (hop, units) in enumerate(sorted(hops.items())):
            n = -(-finer * units // size)
            share, way = units / n / held, self.network.register_route(hop.way)
            turn = (hop.target - hop.source) % p, number
            sent[hop.source][turn] = [RoundMessage(hop.target, share, way)] * n
            received[hop.target].setdefault(hop.source, []).extend([share] * n)
        return [_stream_of(sent[i], received[i], reduces=reduces) for i in range(p)]

    def _ends(self, tree: Tree, *, back: bool) -> dict[int, Strand]:
        """Return, for each member, the empty messages that follow the last bytes along ``tree``."""
        waits: defaultdict[int, list[int]] = defaultdict(list)
        sends: defaultdict[int, list[RoundMessage]] = defaultdict(list)
        for branch in tree.branches:
            hop = self._hop(*branch[:3], back=back)
            waits[hop.target].append(hop.source)
            sends[hop.source].append(
                RoundMessage(hop.target, 0.0, self.network.register_route(hop.way))
            )
        return {
            member: (Round(tuple(waits[member]), 0.0, tuple(sends[member])),)
            for member in {*waits, *sends}
        }


@lru_cache(maxsize=16)
def _rounds(among: _Among, kind: CollectiveKind) -> MemberRounds:
    """Return the messages of :class:`_Among`, from a cache: they are both counted and sent."""
    return among.made(kind)


def _piece(units: Iterable[int]) -> int:
    """Return the size of the pieces into which transfers of ``units`` are cut.

    Pieces are equal if few result, else close to the smallest transfer.
    """
    amounts = list(units)
    alike = gcd(*amounts)
    if sum(amounts) <= _PIECES * len(amounts) * alike:
        return alike
    return max(min(amounts), -(-sum(amounts) // (_PIECES * len(amounts))))


def _stream_of(
    sent: dict[tuple[int, int], list[RoundMessage]],
    received: dict[int, list[float]],
    *,
    reduces: bool,
) -> Strand:
    """Return a member's rounds: send pieces to peers in turns, then receive pieces from peers.

    With ``reduces`` it reduces the received pieces.
    """
    turns = zip_longest(*(sent[turn] for turn in sorted(sent)))
    rounds = [Round((), 0.0, tuple(each for turn in turns for each in turn if each is not None))]
    for number in range(max(map(len, received.values()), default=0)):
        come = {source: parts[number] for source, parts in received.items() if number < len(parts)}
        rounds.append(Round(tuple(come), sum(come.values()) if reduces else 0.0, ()))
    return tuple(rounds)
