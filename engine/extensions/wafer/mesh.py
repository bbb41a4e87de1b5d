"""A wafer whose NPUs form a mesh, the baseline of FRED's paper."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import ClassVar

from dimsweep.engine.errors import check_minimum
from dimsweep.engine.extensions.wafer.fred import build_edges, check_positive
from dimsweep.engine.network.graph import Kind, Network
from dimsweep.engine.network.interconnect import Interconnect, ReductionTree, Route
from dimsweep.engine.network.routing import Routing


@dataclass(frozen=True)
class MeshWafer(Interconnect):
    """A mesh of ``columns`` times ``rows`` NPUs, numbered column by column.

    Links of ``link`` bytes/s join neighbours, and an I/O controller is at each end of every row and
    column.  Messages go along the column first, then along the row.  A controller at the end of a
    column broadcasts down the column and from there along all rows, one at the end of a row along
    the row and from there along all columns.  So 2 * columns - 1 streams cross the links at the
    ends of a row: the hot spot of the paper, (2N - 1) P at N columns and a line rate of P.
    """

    noun: ClassVar[str] = "wafer"

    columns: int = 5
    rows: int = 4
    link: float = 750e9
    latency: int = 20_000
    io: float = 128e9
    pieces: int = 32
    multicasts: bool = True
    preempts: bool = False

    def __post_init__(self) -> None:
        check_minimum(self, 2, "columns", "rows")
        check_minimum(self, 1, "pieces")
        check_minimum(self, 0, "latency")
        check_positive(self, "link", "io")

    @property
    def n_npus(self) -> int:
        return self.columns * self.rows

    @property
    def rings(self) -> tuple[int, int, bool]:
        return self.rows, self.columns, True

    @property
    def routing(self) -> Routing:
        return Routing.DIMENSION_ORDER

    def bisection(self) -> float:
        """Return the bandwidth (bytes/s) of the narrowest straight cut, into halves if possible."""
        cuts = [
            (along % 2, across * self.link)
            for along, across in ((self.columns, self.rows), (self.rows, self.columns))
        ]
        return min(cuts)[1]

    def trees(self, lines: Sequence[tuple[int, ...]]) -> Mapping[frozenset[int], ReductionTree]:
        return {}

    def column(self, x: int) -> list[int]:
        """Return the NPUs of a column, from its first row."""
        return [x * self.rows + y for y in range(self.rows)]

    def row(self, y: int) -> list[int]:
        """Return the NPUs of a row, from its first column."""
        return [x * self.rows + y for x in range(self.columns)]

    def places(self, sizes: Sequence[int]) -> Sequence[int]:
        """Return the NPU of each rank, numbered column by column.

        If the innermost groups would straddle columns, the places follow a snake, on which
        consecutive places stay neighbours.
        """
        inner = next((size for size in sizes if size > 1), 1)
        if self.rows % inner == 0 or inner % self.rows == 0:
            return super().places(sizes)
        snake = [npu for x in range(self.columns) for npu in self.column(x)[:: -1 if x % 2 else 1]]
        return snake[: math.prod(sizes)]

    @cached_property
    def network(self) -> Network:
        import networkx as nx  # here: few runs build a network

        graph = nx.DiGraph()
        graph.add_nodes_from(range(self.n_npus))
        columns = [self.column(x) for x in range(self.columns)]
        for line in columns + [self.row(y) for y in range(self.rows)]:
            for one, other in pairwise(line):
                graph.add_edges_from(build_edges(one, other, self.link, self.latency))
        for name, npu in self._controllers():
            graph.add_node(name, kind=Kind.MEMORY)
            graph.add_edges_from(build_edges(name, npu, self.io, self.latency))
        return Network(graph, (self.rows, self.columns))

    def io_routes(self, npus: Sequence[int]) -> Sequence[Sequence[Sequence[Route]]]:
        return [
            [[(name, *self._way(start, npu, name.startswith("io column"))) for npu in npus]]
            for name, start in self._controllers()
        ]

    def _way(self, start: int, end: int, column_first: bool) -> list[int]:
        """Return the NPUs on an XY or YX route from ``start`` to ``end``, both included."""
        (x, y), (u, v) = divmod(start, self.rows), divmod(end, self.rows)
        if column_first:
            first, then = _npus_between(self.column(x), y, v), _npus_between(self.row(v), x, u)
        else:
            first, then = _npus_between(self.row(y), x, u), _npus_between(self.column(u), y, v)
        return first + then[1:]

    def _controllers(self) -> list[tuple[str, int]]:
        """Return each I/O controller's name and its NPU."""
        ends = [
            (f"io column {x} end {e}", self.column(x)[-e])
            for x in range(self.columns)
            for e in (0, 1)
        ]
        return ends + [
            (f"io row {y} end {e}", self.row(y)[-e]) for y in range(self.rows) for e in (0, 1)
        ]


def _npus_between(line: Sequence[int], start: int, end: int) -> list[int]:
    """Return the NPUs of a row or column from place ``start`` to place ``end``."""
    step = 1 if end >= start else -1
    return [line[place] for place in range(start, end + step, step)]
