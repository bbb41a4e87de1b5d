"""Rings on a grid of NPUs: along rows and columns for all of it, X-Y rings for a part."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from dimsweep.engine.collective.algorithms.on_grid import (
    Course,
    OnGrid,
    Side,
    courses_of,
    on_two_courses,
    sides_of,
)
from dimsweep.engine.collective.algorithms.ring import RingAlgorithm
from dimsweep.engine.collective.rounds import MemberRounds, Shifts, all_back
from dimsweep.engine.collective.steps import PhaseSteps, Setting, Step, backwards
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.topology.block import SubgroupBandwidth

_RING = RingAlgorithm()


@dataclass(frozen=True)
class XyRings(OnGrid):
    """On a whole grid, two parts of the bytes in opposite orders: one is scattered along the rows
    and then along the columns, the other along the columns and then along the rows, at the same
    time, so that both kinds of links are busy.  A part of the grid is a logical ring, with X-Y
    routes between its members."""

    name = "xy_rings"

    def steps(self, kind: CollectiveKind, setting: Setting) -> PhaseSteps:
        """On a whole grid, those of the part that sends for longer."""
        self._check(kind)
        if setting.policy is SubgroupBandwidth.FULL:
            return _RING.steps(kind, setting)
        p, scatters = setting.p, kind is CollectiveKind.REDUCE_SCATTER
        growth, sent = (1 / p, (p - 1) / p) if scatters else (float(p), p - 1.0)
        if p == self._grid.size:
            share = 1 / self._grid.links(setting.n)
            return PhaseSteps(self._grid_steps(kind), share, growth, sent)
        steps = self._ring_steps(setting)
        steps = steps if scatters else backwards(steps, p)
        return PhaseSteps(steps, setting.use.share, growth, sent)

    def _ring_steps(self, setting: Setting) -> tuple[Step, ...]:
        """A chain of p - 1 dependent messages goes once round, but for one way to a next member:
        the shortest one, for the longest chain."""
        p = setting.p
        step = Step(1, 1, 1 / p, 1 / p, messages=setting.use.sharers)
        ways = groupby(self._grid.round_trip(p, setting.stride)[:-1])
        return tuple(replace(step, count=len(list(alike)), hops=hops) for hops, alike in ways)

    def _grid_steps(self, kind: CollectiveKind) -> tuple[Step, ...]:
        """Those of the part that sends for longer, with the reductions of the one that reduces
        more: the other one only on a torus whose sides have one link and two."""
        both = [self._course_steps(kind, course) for course in self._courses(kind)]
        longer = max(
            both, key=lambda steps: sum(step.count * step.bytes_fraction for step in steps)
        )
        reduced = [sum(s.count * s.reduce_fraction for s in steps) for steps in (longer, *both)]
        more = max(reduced) / reduced[0] if reduced[0] else 1.0
        return tuple(replace(s, reduce_fraction=s.reduce_fraction * more) for s in longer)

    def _course_steps(self, kind: CollectiveKind, course: Course) -> tuple[Step, ...]:
        """A ring along one side, then along the other."""
        held, steps = course.part, list[Step]()
        for n, ways, _ in course.order:
            if kind is CollectiveKind.REDUCE_SCATTER:
                held /= n
                step = Step(n - 1, 1, held / ways, held)
            else:
                step = Step(n - 1, 1, held / ways)
                held *= n
            if n > 2 and not self._grid.closes:  # the way back along a line
                steps.append(replace(step, count=1, hops=n - 1))
                step = replace(step, count=n - 2)
            steps.append(step)
        return tuple(steps)

    def _courses(self, kind: CollectiveKind) -> Sequence[Course]:
        def work(side: Side) -> float:
            held = side.n if kind is CollectiveKind.REDUCE_SCATTER else 1
            return (side.n - 1) / held / side.ways

        return courses_of(self._grid, work)

    def rounds(self, kind: CollectiveKind, p: int, circle: bool) -> MemberRounds:
        self._check(kind)
        if p < self._grid.size:
            return _RING.rounds(kind, p, circle)
        scatters = kind is CollectiveKind.REDUCE_SCATTER

        def along(side: Side) -> Sequence[Shifts]:
            shifts = _RING.scatter_rounds(side.n, side.ways == 2)
            return shifts if scatters else all_back(shifts, side.n)

        def growth(side: Side) -> float:
            return 1 / side.n if scatters else side.n

        courses = self._courses(kind)
        return on_two_courses(self._grid, courses, along, growth, reduces=scatters)

    def _check(self, kind: CollectiveKind) -> None:
        if kind not in (CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_GATHER):
            raise self.cannot(kind)

    def n_messages(self, kind: CollectiveKind, p: int, circle: bool) -> int:
        if p < self._grid.size:
            return _RING.n_messages(kind, p, circle)
        return sum(2 * p * (n - 1) * ways for n, ways, _ in sides_of(self._grid))
