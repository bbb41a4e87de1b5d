"""All-to-all on a grid of NPUs: relayed all round a torus, direct by X-Y routes elsewhere."""

from dataclasses import dataclass

from dimsweep.engine.collective.algorithms.direct import Direct
from dimsweep.engine.collective.algorithms.on_grid import (
    Course,
    OnGrid,
    Side,
    courses_of,
    on_two_courses,
    sides_of,
)
from dimsweep.engine.collective.algorithms.relay import Relay, relayed
from dimsweep.engine.collective.rounds import MemberRounds, Shifts
from dimsweep.engine.collective.steps import PhaseSteps, Setting, Step
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.topology.block import SubgroupBandwidth

_DIRECT, _RELAY = Direct(), Relay()


@dataclass(frozen=True)
class XyDirect(OnGrid):
    """Who goes all round a row or a column of a torus relays as on a ring, both ways round, and on
    a whole torus everyone does, two parts of the bytes in opposite orders of the sides.  All others
    send to everyone by X-Y routes, as fast as the busiest link."""

    name = "xy_direct"

    def steps(self, kind: CollectiveKind, setting: Setting) -> PhaseSteps:
        if kind is not CollectiveKind.ALL_TO_ALL:
            raise self.cannot(kind)
        if setting.policy is SubgroupBandwidth.FULL:
            return _DIRECT.steps(kind, setting)
        p, stride, grid = setting.p, setting.stride, self._grid
        if self._is_torus(p):
            return self._torus_steps()
        if grid.circles(setting.n, p, stride):
            return _RELAY.steps(kind, setting)
        pairs = [(i, j) for i in range(p) for j in range(p) if i != j]
        load = grid.busiest(p, stride, pairs)
        step = Step(1, grid.farthest(p, stride), load / p, messages=load)
        return PhaseSteps((step,), 1 / grid.links(setting.n), 1.0, (p - 1) / p)

    def _torus_steps(self) -> PhaseSteps:
        """Those of the larger part, along one side and then along the other."""
        course = max(self._courses(), key=lambda course: course.part)
        steps = tuple(
            Step(1, 1, course.part * sum(s.fraction for s in shifts) / ways, messages=2 // ways)
            for n, ways, _ in course.order
            for shifts in relayed(n)
        )
        sent = sum(map(_sent, course.order))
        return PhaseSteps(steps, 1 / self._grid.links(self._grid.size), 1.0, sent)

    def _courses(self) -> tuple[Course, Course]:
        return courses_of(self._grid, lambda side: _sent(side) / side.ways)

    def _is_torus(self, p: int) -> bool:
        return self._grid.closes and p == self._grid.size

    def rounds(self, kind: CollectiveKind, p: int, circle: bool) -> MemberRounds:
        if kind is not CollectiveKind.ALL_TO_ALL:
            raise self.cannot(kind)
        if self._is_torus(p):
            return on_two_courses(self._grid, self._courses(), _along, lambda _: 1.0, reduces=False)
        return (_RELAY if circle else _DIRECT).rounds(kind, p, circle)

    def n_messages(self, kind: CollectiveKind, p: int, circle: bool) -> int:
        if self._is_torus(p):
            return sum(2 * p * 2 * (side.n // 2) for side in sides_of(self._grid))
        return (_RELAY if circle else _DIRECT).n_messages(kind, p, circle)


def _along(side: Side) -> tuple[Shifts, ...]:
    return relayed(side.n)


def _sent(side: Side) -> float:
    """What leaves an NPU along a side, of the bytes that it holds."""
    return sum(shift.fraction for shifts in relayed(side.n) for shift in shifts)
