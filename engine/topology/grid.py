"""Grids: NPUs in rows and columns, as a mesh or as a torus.

NPU ``x + columns * y`` of a grid is the one at column x and row y.  Messages travel along their row
first, and then along the column (X-Y routing).  To the opposite place of a torus both ways round
are as short, and both should carry as much (Dally and Towles, "Principles and Practices of
Interconnection Networks", 2004): even places send upwards, odd ones downwards.
"""

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.topology.block import Block, LinkUse, Pair, Senders, Way


@dataclass(frozen=True)
class Grid(Block):
    """``columns`` by ``rows`` NPUs, each joined to its neighbours by links of equal bandwidth.

    The bandwidth of an NPU is that of all links of one with the most; NPUs at an edge of a mesh
    leave some of it unused.  A group is taken together with all that look like it, whose traffic
    shares the links: of 20 NPUs, the five pairs of a row with those of every other row.
    Raises :class:`DimsweepError` for a side of less than 2.
    """

    columns: int
    rows: int

    algorithms = ("xy_rings",)
    all_to_all = "xy_direct"
    hops = 1
    side_by_side = False
    parts = ()

    def __post_init__(self) -> None:
        if min(self.columns, self.rows) < 2:
            raise DimsweepError(
                f"{self.label(self.columns * self.rows)} is a line; a grid has 2 NPUs or more "
                "either way",
                where="shape",
                hint="a line of NPUs is part of a Ring",
            )

    @property
    @abstractmethod
    def closes(self) -> bool:
        """Whether a link joins the ends of every row and column."""

    @property
    def size(self) -> int:
        """How many NPUs the grid has."""
        return self.columns * self.rows

    def label(self, n: int) -> str:
        return f"{self.name}({self.columns},{self.rows})"

    def use(self, n: int, p: int, stride: int) -> LinkUse:
        """A logical ring through the members in the order of their numbers, by X-Y routes, both
        ways round where it :meth:`circles`.  The busiest link says what share of a link each ring
        has, and the longest way to a next member how many hops a step takes."""
        load = self.busiest(p, stride, ((k, (k + 1) % p) for k in range(p)))
        ways = 2 if self.circles(n, p, stride) else 1
        hops = self.round_trip(p, stride)
        return LinkUse(ways / (self.links(n) * load), hops[1], hops[0], load)

    def busiest(self, p: int, stride: int, pairs: Iterable[tuple[int, int]]) -> int:
        """How many messages the busiest link carries when each of ``pairs`` (two members of a group
        by their numbers) exchanges one, in all groups alike at once."""
        return _busiest(self, p, stride, tuple(pairs))

    def round_trip(self, p: int, stride: int) -> list[int]:
        """The hops from each member of a group to the next one and from the last to the first, the
        longest first, in the group whose chain of p - 1 of them is the longest."""
        trips = (
            sorted((len(self.route(a, b)) for a, b in pairwise([*ring, ring[0]])), reverse=True)
            for ring in _groups(self.size, p, stride)
        )
        return max(trips, key=lambda trip: sum(trip[:-1]))

    def farthest(self, p: int, stride: int) -> int:
        """The hops between the two members of a group that are farthest apart."""
        ends = (
            (a, b) for members in _groups(self.size, p, stride) for a in members for b in members
        )
        return max(len(self.route(a, b)) for a, b in ends)

    def way(self, n: int, offset: int) -> Way:
        """One link at a time, over the hops that most NPUs have to theirs: few wrap round."""
        hops = Counter(len(self._to(i, offset)) for i in range(n))
        return Way(1 / self.links(n), hops.most_common(1)[0][0])

    def entrance(self, n: int, offset: int, senders: Senders) -> int:
        """The one on which most of them come, if offsets wrap round rows for some only."""
        (sending,) = np.nonzero(senders.any(axis=0))
        ends = (self._to(i, offset)[-1] for i in sending.tolist())
        return Counter(map(self._entrance, ends)).most_common(1)[0][0]

    def _entrance(self, link: Pair) -> int:
        """Which of the four links that lead to its target it is."""
        source, target = map(int, link)
        neighbours = [target - 1, target + 1, target - self.columns, target + self.columns]
        if source in neighbours:
            return neighbours.index(source)
        along_row = source // self.columns == target // self.columns  # round a torus
        return (0 if along_row else 2) + int(source < target)

    def crowd(self, n: int, offset: int, senders: Senders) -> int:
        """Messages take X-Y routes."""
        load = [
            Counter(link for i, sends in enumerate(line) if sends for link in self._to(i, offset))
            for line in np.unique(senders, axis=0).tolist()
        ]
        return max(max(links.values(), default=1) for links in load)

    def _to(self, npu: int, offset: int) -> list[Pair]:
        return self.route(npu, (npu + offset) % self.size)

    def circles(self, n: int, p: int, stride: int) -> bool:
        """A group that goes all round a row, or a column, of a torus."""
        along_row = p * stride == self.columns
        along_column = stride % self.columns == 0 and p * stride == self.size
        return self.closes and p > 2 and (along_row or along_column)

    def links(self, n: int) -> int:
        return min(2, self.columns - 1) + min(2, self.rows - 1)

    def wire(self, npus: range, place: str) -> Iterator[Pair]:
        """The links along rows before those along columns, so that routes are X-Y."""
        for i, npu in enumerate(npus):
            for neighbour in self._neighbours(i):
                yield npu, npus[neighbour]

    def _neighbours(self, i: int) -> list[int]:
        y, x = divmod(i, self.columns)
        row = [(there, y) for there in self._next_to(x, self.columns)]
        column = [(x, there) for there in self._next_to(y, self.rows)]
        return [there + self.columns * level for there, level in (*row, *column)]

    def _next_to(self, place: int, size: int) -> list[int]:
        """The next place and the previous one, of which a line of two has but one; first the one on
        the way to the opposite place."""
        both = [place + 1, place - 1]
        if self.closes:
            both = both[:: _upwards(place)]
            return list(dict.fromkeys(there % size for there in both))
        return [there for there in both if 0 <= there < size]

    def route(self, source: int, target: int) -> list[Pair]:
        """The links of the X-Y way between two NPUs of the grid, the shorter way round a torus."""
        (y, x), (row, column) = divmod(source, self.columns), divmod(target, self.columns)
        xs = self._line(x, column, self.columns)
        ys = self._line(y, row, self.rows)
        stops = [there + self.columns * y for there in xs]
        stops += [column + self.columns * there for there in ys[1:]]
        return list(pairwise(stops))

    def _line(self, start: int, end: int, size: int) -> list[int]:
        """The places from ``start`` to ``end``, the shorter way round a torus."""
        up = (end - start) % size
        if not self.closes:
            step = 1 if end >= start else -1
            return [*range(start, end, step), end]
        step = _upwards(start) if 2 * up == size else 1 if 2 * up < size else -1
        return [(start + step * k) % size for k in range(min(up, size - up) + 1)]

    def cut(self, n: int) -> float:
        """The links between halves, across a side of even length where there is one."""
        sides = ((self.columns, self.rows), (self.rows, self.columns))
        links = {side: other * (2 if self.closes and side > 2 else 1) for side, other in sides}
        even = [n_links for side, n_links in links.items() if side % 2 == 0]
        return min(even or links.values()) / self.links(n)


def _upwards(place: int) -> int:
    """1 or -1: which way round a torus leads to the opposite place."""
    return 1 if place % 2 == 0 else -1


def _groups(n: int, p: int, stride: int) -> Iterator[range]:
    """The members of all groups of ``p`` that are ``stride`` apart."""
    for block in range(0, n - p * stride + 1, p * stride):
        for first in range(block, block + stride):
            yield range(first, first + p * stride, stride)


@lru_cache(maxsize=256)
def _busiest(grid: Grid, p: int, stride: int, pairs: tuple[tuple[int, int], ...]) -> int:
    load = Counter[Pair]()
    for members in _groups(grid.size, p, stride):
        for source, target in pairs:
            load.update(grid.route(members[source], members[target]))
    return max(load.values())


@dataclass(frozen=True)
class Mesh2D(Grid):
    """Rows and columns are lines: ``Mesh2D(5,4)`` is a wafer of 5 by 4."""

    name = "Mesh2D"
    closes = False


@dataclass(frozen=True)
class Torus2D(Grid):
    """Rows and columns are rings: ``Torus2D(4,4)``; a side of two has one link."""

    name = "Torus2D"
    closes = True
