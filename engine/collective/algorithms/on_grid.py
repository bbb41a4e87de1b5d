"""What collectives on a whole grid of NPUs have in common: two parts of the bytes, each along the
rows and the columns in an order of its own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from dimsweep.engine.collective.algorithms.algorithm import Algorithm
from dimsweep.engine.collective.rounds import MemberRounds, Round, Shifts, Strand, strand
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.topology.block import Block
from dimsweep.engine.topology.grid import Grid


@dataclass(frozen=True)
class OnGrid(Algorithm):
    """An algorithm that knows the grid on which it runs."""

    grid: Grid | None = None  # of the one that is registered, none

    def on(self, block: Block) -> Algorithm:
        return replace(self, grid=block) if isinstance(block, Grid) else self

    @property
    def _grid(self) -> Grid:
        if self.grid is None:
            raise DimsweepError(
                f"{self.name!r} runs on rows and columns only",
                where="collective.algorithms",
                hint="on Mesh2D(x,y) and Torus2D(x,y)",
            )
        return self.grid


class Side(NamedTuple):
    """The rows or the columns of a grid: lines of ``n`` NPUs with links ``ways`` round."""

    n: int
    ways: int
    along_rows: bool

    def member(self, grid: Grid, x: int, y: int, place: int) -> int:
        """The NPU at ``place`` of the line through column ``x`` and row ``y``."""
        return place + grid.columns * y if self.along_rows else x + grid.columns * place


def sides_of(grid: Grid) -> tuple[Side, Side]:
    """Rows, and columns."""

    def side(n: int, *, along_rows: bool) -> Side:
        return Side(n, 2 if grid.closes and n > 2 else 1, along_rows)

    return side(grid.columns, along_rows=True), side(grid.rows, along_rows=False)


class Course(NamedTuple):
    """A ``part`` of the bytes goes along the sides in this ``order``."""

    part: float
    order: tuple[Side, Side]


def courses_of(grid: Grid, work: Callable[[Side], float]) -> tuple[Course, Course]:
    """One part along the rows first, one along the columns first, if all bytes kept the links of
    the first side busy for its ``work``.

    Both parts are done with their first side at once, so that neither meets the other on its way.
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
    """What all members of a grid do: ``along`` a side each sends as told, and holds ``growth`` of
    what it held before."""

    def one(member: int, course: Course) -> Strand:
        (y, x), held = divmod(member, grid.columns), course.part
        done: list[Round] = []
        for side in course.order:
            name = partial(side.member, grid, x, y)
            rounds = strand(along(side), side.n, x if side.along_rows else y, reduces=reduces)
            named = [_renamed(each, name, held) for each in rounds]
            if done:  # what ends the first side begins the second
                last = done.pop()
                named[0] = Round(last.receive, last.reduce, named[0].send)
            done += named
            held *= growth(side)
        return tuple(done)

    return MemberRounds(
        tuple(tuple(one(member, course) for course in courses) for member in range(grid.size))
    )


def _renamed(along: Round, name: Callable[[int], int], held: float) -> Round:
    """A round along a line whose member ``k`` is called ``name(k)``, for ``held`` of the bytes."""
    send = tuple(
        each._replace(peer=name(each.peer), fraction=each.fraction * held) for each in along.send
    )
    return Round(tuple(map(name, along.receive)), along.reduce * held, send)
