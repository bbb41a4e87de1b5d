"""Collectives on a mesh or torus of NPUs, as rings and exchanges along its rows and columns.

On a full grid the bytes are divided into two parts, which use the rows and the columns in opposite
orders.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import NamedTuple

from dimsweep.engine.collective.algorithms.algorithm import Algorithm
from dimsweep.engine.collective.algorithms.exchanges import Direct, Relay, relayed
from dimsweep.engine.collective.algorithms.rings import RingAlgorithm
from dimsweep.engine.collective.rounds import MemberRounds, Round, Shifts, Strand, all_back, strand
from dimsweep.engine.collective.steps import PhaseSteps, Setting, Step, backwards
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.topology.blocks import Block, Grid, SubgroupBandwidth


@dataclass(frozen=True)
class OnGrid(Algorithm):
    """Base class of algorithms that run along the rows and columns of a grid of NPUs."""

    grid: Grid | None = None  # None in the registered instance

    def adapt_to_block(self, block: Block) -> Algorithm:
        """Return the algorithm for the grid ``block``; itself for any other block."""
        return replace(self, grid=block) if isinstance(block, Grid) else self

    @property
    def _grid(self) -> Grid:
        if self.grid is None:
            raise DimsweepError(
                f"{self.name!r} runs only on grids of rows and columns",
                where="collective.algorithms",
                hint="use Mesh2D(x,y) or Torus2D(x,y)",
                code="unsupported",
            )
        return self.grid


class Side(NamedTuple):
    """The rows, or the columns, of a grid: lines of ``n`` NPUs with ``ways`` links to the next."""

    n: int
    ways: int
    along_rows: bool

    def member(self, grid: Grid, x: int, y: int, place: int) -> int:
        """Return the NPU at ``place`` of the row or column through column ``x`` and row ``y``."""
        return place + grid.columns * y if self.along_rows else x + grid.columns * place


def sides_of(grid: Grid) -> tuple[Side, Side]:
    """Return the rows and the columns of a grid."""

    def side(n: int, *, along_rows: bool) -> Side:
        return Side(n, 2 if grid.closes and n > 2 else 1, along_rows)

    return side(grid.columns, along_rows=True), side(grid.rows, along_rows=False)


class Course(NamedTuple):
    """A fraction ``part`` of the bytes, which uses rows and columns in the given ``order``."""

    part: float
    order: tuple[Side, Side]


def courses_of(grid: Grid, work: Callable[[Side], float]) -> tuple[Course, Course]:
    """Return two parts of the bytes: one goes along rows first, the other along columns first.

    ``work`` returns the time in which all bytes would occupy the links of a side. Both parts finish
    their first side at once, so that neither meets the other on its way.
    """
    rows, columns = sides_of(grid)
    both = work(rows) + work(columns)
    return (
        Course(work(columns) / both, (rows, columns)),
        Course(work(rows) / both, (columns, rows)),
    )


def on_two_courses(
    grid: Grid,
    courses: Sequence[Course],
    along: Callable[[Side], Sequence[Shifts]],
    growth: Callable[[Side], float],
    *,
    reduces: bool,
) -> MemberRounds:
    """Return the messages of all members of a grid, for both parts of the bytes.

    ``along`` returns the messages along a side, and ``growth`` the bytes held after a side over the
    bytes held before it.
    """

    def one(member: int, course: Course) -> Strand:
        (y, x), held = divmod(member, grid.columns), course.part
        done: list[Round] = []
        for side in course.order:
            name = partial(side.member, grid, x, y)
            rounds = strand(along(side), side.n, x if side.along_rows else y, reduces=reduces)
            named = [_renamed(each, name, held) for each in rounds]
            if done:  # the second side begins where the first one ends
                last = done.pop()
                named[0] = Round(last.receive, last.reduce, named[0].send)
            done += named
            held *= growth(side)
        return tuple(done)

    return MemberRounds(
        tuple(tuple(one(member, course) for course in courses) for member in range(grid.size))
    )


def _renamed(along: Round, name: Callable[[int], int], held: float) -> Round:
    """Return a round of a row or column with grid members, for a fraction ``held`` of the bytes.

    ``name`` returns the grid member at a place in the row or column.
    """
    send = tuple(
        each._replace(peer=name(each.peer), fraction=each.fraction * held) for each in along.send
    )
    return Round(tuple(map(name, along.receive)), along.reduce * held, send)


# --- reduce-scatter and all-gather ----------------------------------------------------------------


_RING = RingAlgorithm()


@dataclass(frozen=True)
class XyRings(OnGrid):
    """Reduce-scatter and all-gather as rings along the rows and columns of a grid.

    On a full grid one part of the bytes is scattered along the rows and then the columns, and the
    other along the columns and then the rows, so both kinds of links are busy. A part of a grid is
    a logical ring with X-Y routes between its members.
    """

    name = "xy_rings"

    def steps(self, kind: CollectiveKind, setting: Setting) -> PhaseSteps:
        """Return a phase as steps; on a whole grid, the steps of the part that sends for longer."""
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
        """Return p - 1 dependent steps round a logical ring, which skip its shortest hop."""
        p = setting.p
        step = Step(1, 1, 1 / p, 1 / p, messages=setting.use.sharers)
        ways = groupby(self._grid.round_trip(p, setting.stride)[:-1])
        return tuple(replace(step, count=len(list(alike)), hops=hops) for hops, alike in ways)

    def _grid_steps(self, kind: CollectiveKind) -> tuple[Step, ...]:
        """Return the steps of the part that sends for longer, with the larger reductions of both.

        The parts differ only on a torus whose sides have one link and two.
        """
        both = [self._course_steps(kind, course) for course in self._courses(kind)]
        longer = max(
            both, key=lambda steps: sum(step.count * step.bytes_fraction for step in steps)
        )
        reduced = [sum(s.count * s.reduce_fraction for s in steps) for steps in (longer, *both)]
        more = max(reduced) / reduced[0] if reduced[0] else 1.0
        return tuple(replace(s, reduce_fraction=s.reduce_fraction * more) for s in longer)

    def _course_steps(self, kind: CollectiveKind, course: Course) -> tuple[Step, ...]:
        """Return the steps of one part of the bytes: a ring along one side, then along the next."""
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
        """Return a reduce-scatter or all-gather as messages."""
        self._check(kind)
        if p < self._grid.size:
            return _RING.rounds(kind, p, circle)
        scatters = kind is CollectiveKind.REDUCE_SCATTER

        def list_shifts(side: Side) -> Sequence[Shifts]:
            shifts = _RING.scatter_rounds(side.n, side.ways == 2)
            return shifts if scatters else all_back(shifts, side.n)

        def growth(side: Side) -> float:
            return 1 / side.n if scatters else side.n

        courses = self._courses(kind)
        return on_two_courses(self._grid, courses, list_shifts, growth, reduces=scatters)

    def _check(self, kind: CollectiveKind) -> None:
        if kind not in (CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_GATHER):
            raise self.cannot(kind)

    def n_messages(self, kind: CollectiveKind, p: int, circle: bool) -> int:
        """Return the number of messages of one phase among ``p`` members."""
        if p < self._grid.size:
            return _RING.n_messages(kind, p, circle)
        return sum(2 * p * (n - 1) * ways for n, ways, _ in sides_of(self._grid))


# --- all-to-all -----------------------------------------------------------------------------------


_DIRECT, _RELAY = Direct(), Relay()


@dataclass(frozen=True)
class XyDirect(OnGrid):
    """All-to-all on a grid: relayed along rings, or sent directly on X-Y routes.

    A group that fills a row or a column of a torus relays both ways, as on a ring. On a full torus,
    two parts of the bytes are relayed along both sides, in opposite orders. All other groups send
    directly on X-Y routes, at the speed of the busiest link.
    """

    name = "xy_direct"

    def steps(self, kind: CollectiveKind, setting: Setting) -> PhaseSteps:
        """Return an all-to-all as steps."""
        if kind is not CollectiveKind.ALL_TO_ALL:
            raise self.cannot(kind)
        if setting.policy is SubgroupBandwidth.FULL:
            return _DIRECT.steps(kind, setting)
        p, stride, grid = setting.p, setting.stride, self._grid
        if self._is_torus(p):
            course = max(self._courses(), key=lambda course: course.part)
            steps = tuple(
                Step(1, 1, course.part * sum(s.fraction for s in shifts) / ways, messages=2 // ways)
                for n, ways, _ in course.order
                for shifts in relayed(n)
            )
            sent = sum(map(_sent, course.order))
            return PhaseSteps(steps, 1 / self._grid.links(self._grid.size), 1.0, sent)
        if grid.closes_ring(setting.n, p, stride):
            return _RELAY.steps(kind, setting)
        pairs = [(i, j) for i in range(p) for j in range(p) if i != j]
        load = grid.busiest_link_load(p, stride, pairs)
        step = Step(1, grid.diameter(p, stride), load / p, messages=load)
        return PhaseSteps((step,), 1 / grid.links(setting.n), 1.0, (p - 1) / p)

    def _courses(self) -> tuple[Course, Course]:
        return courses_of(self._grid, lambda side: _sent(side) / side.ways)

    def _is_torus(self, p: int) -> bool:
        return self._grid.closes and p == self._grid.size

    def rounds(self, kind: CollectiveKind, p: int, circle: bool) -> MemberRounds:
        """Return an all-to-all as messages."""
        if kind is not CollectiveKind.ALL_TO_ALL:
            raise self.cannot(kind)
        if self._is_torus(p):
            return on_two_courses(
                self._grid, self._courses(), _relays, lambda _: 1.0, reduces=False
            )
        return (_RELAY if circle else _DIRECT).rounds(kind, p, circle)

    def n_messages(self, kind: CollectiveKind, p: int, circle: bool) -> int:
        """Return the number of messages of an all-to-all among ``p`` members."""
        if self._is_torus(p):
            return sum(2 * p * 2 * (side.n // 2) for side in sides_of(self._grid))
        return (_RELAY if circle else _DIRECT).n_messages(kind, p, circle)


def _relays(side: Side) -> tuple[Shifts, ...]:
    return relayed(side.n)


def _sent(side: Side) -> float:
    """Return the fraction of an NPU's bytes that it sends in an all-to-all along a side."""
    return sum(shift.fraction for shifts in relayed(side.n) for shift in shifts)
