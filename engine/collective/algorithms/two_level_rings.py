"""Rings of two levels: reduce-scatter along one level, all-reduce along the other, all-gather."""

from collections.abc import Iterator
from dataclasses import dataclass

from dimsweep.engine.collective.algorithms.halving_doubling import AllReduceOnly
from dimsweep.engine.collective.rounds import MemberRounds, Round, RoundMessage, Strand
from dimsweep.engine.collective.steps import PhaseSteps, Setting, Step

# Of nested rings: while one goes along the outer rings, the next has the inner ones.  As many as
# ASTRA-sim's studies cut a collective into.
PIECES = 64


@dataclass(frozen=True)
class TwoLevelRings(AllReduceOnly):
    """All-reduce of ``inner`` x ``outer`` members, which are numbered along the inner rings first.

    ``reversed_half``: one half of the bytes goes along the inner rings first, the other half along
    the outer rings first, so that both are busy at once, as on a mesh.  Else every piece goes along
    the inner rings first.  A group of any other number of members is one ring.
    """

    inner: int
    outer: int
    reversed_half: bool

    @property
    def name(self) -> str:
        kind = "reversed" if self.reversed_half else "nested"
        return f"{kind}_rings_{self.inner}x{self.outer}"

    @property
    def blocks(self) -> tuple[str, ...]:
        return ("Switch",)

    def fused_steps(self, setting: Setting) -> PhaseSteps:
        """2 (p - 1)/p of the bytes through an NPU's port, on links that are never in the way."""
        p, use = setting.p, setting.use
        levels = self._levels(p)
        steps: list[Step] = []
        share = 1.0
        for n in levels:
            share /= n
            steps += [Step(n - 1, use.hops, share, share), Step(n - 1, use.hops, share)]
        return PhaseSteps(tuple(steps), use.share, 1.0, 2 * (p - 1) / p)

    def fused_rounds(self, p: int) -> MemberRounds:
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
        levels = self._levels(p)
        strands = PIECES if len(levels) > 1 else 1
        return strands * p * sum(2 * (n - 1) for n in levels)

    def _levels(self, p: int) -> tuple[int, ...]:
        return (self.inner, self.outer) if p == self.inner * self.outer else (p,)

    def _strand(self, member: int, order: list[tuple[int, int]], share: float) -> Strand:
        """What ``member`` does for a ``share`` of the bytes; ``order`` has each ring's members and
        how far apart they are numbered."""
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
    """Whom it receives from and sends to in each round, of which share, and whether that is
    reduced."""
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
