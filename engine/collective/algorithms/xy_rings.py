"""Rings on a grid of NPUs: hierarchical 2-D rings for all of it, X-Y rings for a part."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from engine.cluster.blocks import Block, Grid, SubgroupBandwidth
from engine.collective.algorithms.algorithm import Algorithm
from engine.collective.algorithms.direct import Direct
from engine.collective.algorithms.ring import RingAlgorithm
from engine.collective.rounds import MemberRounds, Round, Shifts, Strand, all_back, strand
from engine.collective.steps import PhaseSteps, Setting, Step, backwards
from engine.errors import DimsweepError
from engine.kinds import CollectiveKind

_RING = RingAlgorithm()


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


@dataclass(frozen=True)
class XyRings(OnGrid):
    """On a whole grid, two halves of the bytes in opposite orders: one is scattered along the rows
    and then along the columns, the other along the columns and then along the rows, at the same
    time, so that both kinds of links are busy.  A part of the grid is a logical ring, with X-Y
    routes between its members."""

    name = "xy_rings"

    def steps(self, kind: CollectiveKind, setting: Setting) -> PhaseSteps:
        """On a whole grid, the longer of what a half takes one after another and of what the links
        of one side carry.  It is exact for a reduce-scatter in step; an all-gather's halves may
        stand in each other's way a little."""
        if kind not in (CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_GATHER):
            raise self.cannot(kind)
        if setting.p < self._grid.size or setting.policy is SubgroupBandwidth.FULL:
            return _RING.steps(kind, setting)
        p, share = setting.p, 1 / self._grid.links(setting.n)
        scatter = self._scatter_steps()
        if kind is CollectiveKind.REDUCE_SCATTER:
            return PhaseSteps(scatter, share, 1 / p, (p - 1) / p)
        return PhaseSteps(backwards(scatter, p), share, float(p), p - 1.0)

    def _scatter_steps(self) -> tuple[Step, ...]:
        """As many steps as a half has, with equal parts of the bytes of one link."""
        grid = self._grid
        (n_x, ways_x), (n_y, ways_y) = self._side(grid.columns), self._side(grid.rows)
        x, y = (n_x - 1) / n_x / ways_x, (n_y - 1) / n_y / ways_y  # a half's, scattered first
        by_row, by_column = x + y / n_x, y + x / n_y
        carried = max(by_row, by_column, x + x / n_y, y + y / n_x) / 2
        reduced = ((n_x - 1) / n_x + (n_y - 1) / n_y / n_x) / 2
        count = n_x + n_y - 2
        step = Step(count, 1, carried / count, reduced / count)
        wraps = [] if grid.closes else [n for n in (n_x, n_y) if n > 2]
        far = tuple(replace(step, count=1, hops=n - 1) for n in wraps)
        left = count - len(far)
        return (*far, replace(step, count=left)) if left else far

    def _side(self, size: int) -> tuple[int, int]:
        """The NPUs of a side, and how many ways round its rings send."""
        return size, 2 if self._circle(size) else 1

    def _circle(self, size: int) -> bool:
        return self._grid.closes and size > 2

    def rounds(self, kind: CollectiveKind, p: int, circle: bool) -> MemberRounds:
        if kind not in (CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_GATHER):
            raise self.cannot(kind)
        if p < self._grid.size:
            return _RING.rounds(kind, p, circle)
        orders = (("x", "y"), ("y", "x"))
        if kind is CollectiveKind.ALL_GATHER:
            orders = (("y", "x"), ("x", "y"))
        return MemberRounds(
            tuple(tuple(self._half(kind, member, order) for order in orders) for member in range(p))
        )

    def _half(self, kind: CollectiveKind, member: int, order: tuple[str, str]) -> Strand:
        """What a member does for one half: a ring along one side, then along the other."""
        grid, held, done = self._grid, 0.5, list[Round]()
        y, x = divmod(member, grid.columns)
        for side in order:
            size, place = (grid.columns, x) if side == "x" else (grid.rows, y)
            name: Callable[[int], int] = partial(_in_row if side == "x" else _in_column, grid, x, y)
            scatters = kind is CollectiveKind.REDUCE_SCATTER
            shifts: tuple[Shifts, ...] = _RING.scatter_rounds(size, self._circle(size))
            along = strand(
                shifts if scatters else all_back(shifts, size), size, place, reduces=scatters
            )
            named = [_renamed(each, name, held) for each in along]
            if done:  # what ends the first ring begins the second
                last = done.pop()
                named[0] = Round(last.receive, last.reduce, named[0].send)
            done += named
            held *= 1 / size if scatters else size
        return tuple(done)

    def n_messages(self, kind: CollectiveKind, p: int, circle: bool) -> int:
        if p < self._grid.size:
            return _RING.n_messages(kind, p, circle)
        sizes = (self._grid.columns, self._grid.rows)
        return sum(2 * p * (size - 1) * (2 if self._circle(size) else 1) for size in sizes)


def _in_row(grid: Grid, x: int, y: int, place: int) -> int:
    return place + grid.columns * y


def _in_column(grid: Grid, x: int, y: int, place: int) -> int:
    return x + grid.columns * place


def _renamed(of_ring: Round, name: Callable[[int], int], held: float) -> Round:
    """A round of a ring whose member ``k`` is called ``name(k)``, for ``held`` of the bytes."""
    send = tuple(
        each._replace(peer=name(each.peer), fraction=each.fraction * held) for each in of_ring.send
    )
    return Round(tuple(map(name, of_ring.receive)), of_ring.reduce * held, send)


@dataclass(frozen=True)
class XyDirect(OnGrid):
    """All-to-all on a grid: everyone to everyone by X-Y routes, as fast as the busiest link."""

    name = "xy_direct"

    def steps(self, kind: CollectiveKind, setting: Setting) -> PhaseSteps:
        if kind is not CollectiveKind.ALL_TO_ALL:
            raise self.cannot(kind)
        if setting.policy is SubgroupBandwidth.FULL:
            return Direct().steps(kind, setting)
        p, grid = setting.p, self._grid
        pairs = [(i, j) for i in range(p) for j in range(p) if i != j]
        load = grid.busiest(p, setting.stride, pairs)
        hops = grid.farthest(p, setting.stride)
        step = Step(1, hops, load / p, messages=load)
        return PhaseSteps((step,), 1 / grid.links(setting.n), 1.0, (p - 1) / p)

    def rounds(self, kind: CollectiveKind, p: int, circle: bool) -> MemberRounds:
        if kind is not CollectiveKind.ALL_TO_ALL:
            raise self.cannot(kind)
        return Direct().rounds(kind, p, circle)

    def n_messages(self, kind: CollectiveKind, p: int, circle: bool) -> int:
        return Direct().n_messages(kind, p, circle)
