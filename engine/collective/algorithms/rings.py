"""Rings: members pass shards to the next member, along one ring or two levels of rings."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from dimsweep.engine.collective.algorithms.algorithm import ScatterGather
from dimsweep.engine.collective.algorithms.halving import AllReduceOnly
from dimsweep.engine.collective.rounds import (
    MemberRounds,
    Round,
    RoundMessage,
    Shift,
    Shifts,
    Strand,
)
from dimsweep.engine.collective.steps import PhaseSteps, Setting, Step
from dimsweep.engine.kinds import CollectiveKind

# --- one ring -------------------------------------------------------------------------------------


class RingAlgorithm(ScatterGather):
    """Reduce-scatter in p - 1 steps to the neighbour; a circle sends half of the bytes each way."""

    name = "ring"

    def scatter_steps(self, setting: Setting) -> tuple[Step, ...]:
        """Return the reduce-scatter as steps for the phase kernel.

        On a line (part of a ring) the message of the last member back to the first crosses every
        hop. A chain of p - 1 dependent steps contains that message at most once, so the other p - 2
        steps take a neighbour's hops each.
        """
        p, use = setting.p, setting.use
        step = Step(p - 1, use.hops, 1 / p, 1 / p, messages=use.sharers)
        if use.wrap_hops == use.hops:
            return (step,)
        once = replace(step, count=1, hops=use.wrap_hops)
        return (once, replace(step, count=p - 2)) if p > 2 else (once,)

    def scatter_rounds(self, p: int, circle: bool) -> tuple[Shifts, ...]:
        """Return the reduce-scatter's messages among ``p`` members, round by round."""
        if not circle:
            return ((Shift(1, 1 / p),),) * (p - 1)
        return ((Shift(1, 0.5 / p, way=0), Shift(-1, 0.5 / p, way=1)),) * (p - 1)

    def n_messages(self, kind: CollectiveKind, p: int, circle: bool) -> int:
        """Return the number of messages of one phase among ``p`` members."""
        return p * (p - 1) * (2 if circle else 1)


# --- rings of two levels --------------------------------------------------------------------------


# Of nested rings: while one goes along the outer rings, the next has the inner ones.  As many as
# ASTRA-sim's studies cut a collective into.
PIECES = 64


@dataclass(frozen=True)
class TwoLevelRings(AllReduceOnly):
    """All-reduce of ``inner`` x ``outer`` members, which are numbered along the inner rings first.

    With ``reversed_half`` half of the bytes use the inner rings first and half the outer rings
    first, so both are busy at once, as on a mesh. Otherwise all pieces use the inner rings first. A
    group of any other size is one ring.
    """

    inner: int
    outer: int
    reversed_half: bool

    @property
    def name(self) -> str:
        """Name of the algorithm, with the sizes of both levels."""
        kind = "reversed" if self.reversed_half else "nested"
        return f"{kind}_rings_{self.inner}x{self.outer}"

    @property
    def blocks(self) -> tuple[str, ...]:
        """Names of the blocks on which the algorithm runs."""
        return ("Switch",)

    def fused_steps(self, setting: Setting) -> PhaseSteps:
        """Return the all-reduce as steps that send 2 (p - 1)/p of the bytes through an NPU's port.

        The steps are limited by ports, never by links.
        """
        p, use = setting.p, setting.use
        levels = self._levels(p)
        steps: list[Step] = []
        share = 1.0
        for n in levels:
            share /= n
            steps += [Step(n - 1, use.hops, share, share), Step(n - 1, use.hops, share)]
        return PhaseSteps(tuple(steps), use.share, 1.0, 2 * (p - 1) / p)

    def fused_rounds(self, p: int) -> MemberRounds:
        """Return the all-reduce among ``p`` members as messages."""
        levels = self._levels(p)
        if len(levels) == 1:
            return MemberRounds(tuple((self._strand(i, [(p, 1)], 1.0),) for i in range(p)))
        inner, outer = (self.inner, 1), (self.outer, self.inner)
        orders = [[inner, outer]] * PIECES
        if self.reversed_half:
            orders = [[inner, outer], [outer, inner]] * (PIECES // 2)
        return MemberRounds(
            tuple(
                tuple(self._strand(i, order, 1 / len(orders)) for order in orders) for i in range(p)
            )
        )

    def n_fused_messages(self, p: int) -> int:
        """Return the number of messages of an all-reduce among ``p`` members."""
        levels = self._levels(p)
        strands = PIECES if len(levels) > 1 else 1
        return strands * p * sum(2 * (n - 1) for n in levels)

    def _levels(self, p: int) -> tuple[int, ...]:
        return (self.inner, self.outer) if p == self.inner * self.outer else (p,)

    def _strand(self, member: int, order: list[tuple[int, int]], share: float) -> Strand:
        """Return the rounds of ``member`` for a fraction ``share`` of the bytes.

        ``order`` lists the rings in order, by number of members and stride.
        """
        done: list[Round] = []
        receive: tuple[int, ...] = ()
        reduce = 0.0
        for before, after, fraction, reduces in _hops(member, order, share):
            done.append(Round(receive, reduce, (RoundMessage(after, fraction),)))
            receive, reduce = (before,), fraction if reduces else 0.0
        return (*done, Round(receive, reduce, ()))


def _hops(
    member: int, order: list[tuple[int, int]], share: float
) -> Iterator[tuple[int, int, float, bool]]:
    """Yield, for each round: member before, member after, fraction sent, and whether to reduce."""
    down, rings = [], share
    for n, stride in order:
        rings /= n
        place = member // stride % n
        before = member + ((place - 1) % n - place) * stride
        after = member + ((place + 1) % n - place) * stride
        down.append((n, before, after, rings))
    for n, before, after, fraction in down:
        yield from [(before, after, fraction, True)] * (n - 1)
    for n, before, after, fraction in reversed(down):
        yield from [(before, after, fraction, False)] * (n - 1)
