"""Phases of collectives as consecutive steps, for the phase kernel.

A phase moves ``s`` bytes (those that a member holds on entry) among the ``p`` members of a group
inside one dimension.  Its duration is

    sum over steps of  count * (hops * latency + endpoint_delay + fixed
                                + bytes_fraction * s / (share * b)
                                + reduce_fraction * s / reduce_bandwidth)

with b the NPU's bandwidth in the dimension.  The messages that pass through one port one after
another in a step are each rounded to a picosecond, as in a simulation of single messages
(:mod:`engine.collective.rounds`).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

from dimsweep.engine.collective.rounds import MemberRounds, Round, Strand, SwitchRounds
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.network.fabric import build_network
from dimsweep.engine.network.routing import Router, Routing
from dimsweep.engine.topology.blocks import Block, LinkUse, SubgroupBandwidth
from dimsweep.engine.topology.topology import Dimension, Topology


@dataclass(frozen=True)
class Step:
    """``count`` equal steps of a phase, each of ``messages`` in sequence; see the module's formula.

    ``fixed`` is an additional time in picoseconds for each step, such as a library's protocol
    takes.
    """

    count: int
    hops: int
    bytes_fraction: float
    reduce_fraction: float = 0.0
    messages: int = 1
    fixed: int = 0


@dataclass(frozen=True)
class PhaseSteps:
    """A phase as steps for the phase kernel; they get the fraction ``share`` of an NPU's bandwidth.

    ``growth`` is the bytes held afterwards over the bytes held before; ``bytes_sent`` the bytes
    that an NPU sends, relayed ones included, over the bytes held before.
    """

    steps: tuple[Step, ...]
    share: float
    growth: float
    bytes_sent: float


@dataclass(frozen=True)
class Setting:
    """The NPUs of a phase: ``p`` members, ``stride`` apart, in a ``block`` of ``n`` NPUs."""

    block: Block
    n: int
    p: int
    stride: int
    policy: SubgroupBandwidth = SubgroupBandwidth.PHYSICAL

    @property
    def use(self) -> LinkUse:
        """The links that the members can use, with their hops and share of the bandwidth."""
        return self.block.link_use_under(self.policy, self.n, self.p, self.stride)


def backwards(scatter: tuple[Step, ...], p: int) -> tuple[Step, ...]:
    """Return an all-gather's steps from a reduce-scatter's: in reverse, ``p`` times the bytes."""
    return tuple(
        replace(step, bytes_fraction=step.bytes_fraction * p, reduce_fraction=0.0)
        for step in reversed(scatter)
    )


# --- steps measured from messages ---------------------------------------------------------------
#
# For an algorithm that defines Algorithm.rounds only.  All groups of the dimension send at once.  A
# round lasts as long as the link that carries the most bytes in it, and the latencies of the rounds
# add up along the chain of dependent messages with the most hops.


class _Load(NamedTuple):
    """The load of a round's busiest link, relative to the bytes that a member holds on entry."""

    n_bytes: float
    messages: int


def measured_steps(
    rounds: MemberRounds | SwitchRounds, kind: CollectiveKind, setting: Setting
) -> PhaseSteps:
    """Return the steps of ``rounds``, measured by sending their messages over the block's links.

    Raises :class:`DimsweepError` if members do not proceed from round to round together.
    """
    strands = _in_step(rounds)
    ways = _Ways(setting)
    n_rounds, share, p = len(strands[0]), setting.use.share, setting.p
    hops = [0] * p  # on the longest chain of messages that each member has waited for
    loads, before, steps = [_Load(0.0, 1)], 0, []
    for number in range(n_rounds):
        now = [strand[number] for strand in strands]
        sent = list(hops)
        hops = [
            max([sent[i], *(sent[j] + ways.hops(j, i, strands[j][number - 1]) for j in r.receive)])
            for i, r in enumerate(now)
        ]
        if number:
            reduced, load = max(r.reduce for r in now), loads[-1]
            n_bytes = load.n_bytes * ways.links * share
            steps.append(Step(1, max(hops) - before, n_bytes, reduced, load.messages))
        before = max(hops)
        loads.append(ways.busiest_link_load(now))
    sent_bytes = sum(m.fraction for strand in strands for r in strand for m in r.send) / p
    growth = {CollectiveKind.REDUCE_SCATTER: 1 / p, CollectiveKind.ALL_GATHER: float(p)}
    return PhaseSteps(tuple(steps), share, growth.get(kind, 1.0), sent_bytes)


def _in_step(rounds: MemberRounds | SwitchRounds) -> list[Strand]:
    """Return each member's rounds; raise :class:`DimsweepError` if their numbers differ."""
    if isinstance(rounds, MemberRounds):
        strands = [strand for member in rounds.strands for strand in member]
        if len(strands) == len(rounds.strands) and len({len(strand) for strand in strands}) == 1:
            return strands
    raise DimsweepError(
        "members do not all have the same number of rounds, one after another",
        where="collective.algorithms",
        hint="write steps() for this algorithm",
        code="unsupported",
    )


class _Ways:
    """The routes of a phase's messages over the links of its block.

    Under the policy ``FULL`` each member has one link with all of its bandwidth instead.
    """

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._full = setting.policy is SubgroupBandwidth.FULL
        self.links = 1 if self._full else setting.block.links(setting.n)
        topology = Topology((Dimension(setting.block, setting.n, 1.0, 0),))
        self._router = Router(build_network(topology), Routing.DIMENSION_ORDER)

    def hops(self, source: int, target: int, sends: Round) -> int:
        """Return the largest number of hops of messages from member ``source`` to ``target``."""
        if self._full:
            return self._setting.block.hops
        ways = [message.way for message in sends.send if message.peer == target]
        return max(
            len(self._route(members, source, target, way))
            for members in self._groups()
            for way in ways
        )

    def busiest_link_load(self, now: Sequence[Round]) -> _Load:
        """Return the busiest link's load when all members of all groups send in round ``now``."""
        n_bytes, messages = Counter[int](), Counter[int]()
        for link, fraction in self._sent(now):
            n_bytes[link] += fraction  # type: ignore[assignment]  # typed for counts of integers
            messages[link] += 1
        if not n_bytes:
            return _Load(0.0, 1)
        link = max(n_bytes, key=n_bytes.__getitem__)
        return _Load(float(n_bytes[link]), messages[link])

    def _sent(self, now: Sequence[Round]) -> Iterator[tuple[int, float]]:
        """Yield each link that a message of round ``now`` uses, and the message's byte fraction."""
        for members in self._groups():
            for i, round_ in enumerate(now):
                for peer, fraction, way in round_.send:
                    links = [i] if self._full else self._route(members, i, peer, way)
                    yield from ((link, fraction) for link in links)

    def _route(self, members: range, source: int, target: int, way: int) -> Sequence[int]:
        return self._router.route(members[source], members[target], way)

    def _groups(self) -> Iterator[range]:
        """Yield the members of each group in the dimension; under ``FULL``, of one group only."""
        s = self._setting
        span = s.p * s.stride
        firsts = (b + i for b in range(0, s.n - span + 1, span) for i in range(s.stride))
        for first in islice(firsts, 1 if self._full else None):
            yield range(first, first + span, s.stride)
