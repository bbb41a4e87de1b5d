"""The ways that flows take, each checked and kept once."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kernels.core.rows import with_room
from dimsweep.engine.kernels.packet.flows import Columns, Flow, Ways, check_flows, columns_of
from dimsweep.engine.kernels.packet.inputs import Fabric
from dimsweep.engine.lower.program import Ints, Table
from dimsweep.engine.records import record

# Where a way begins in ``routes``, where the way of its ACKs begins, and where the next one does.
WAY = record(data="i4", ack="i4", end="i4")
END = -1  # what stands in ``routes`` behind each way's ports
CHOICE = record(first="i4", n="i4")  # ways that packets take in turn


class KnownWays:
    """The ways that flows have named so far.

    A port has ``n_rows`` rows of a table, one a priority, of which ``routes`` are the first, one
    way after another: those of data and those of ACKs, each up to a -1.
    """

    def __init__(self, fabric: Fabric, n_rows: int = 1) -> None:
        ends = [(port.node, port.to) for port in fabric.ports]
        self._numbers, self._n_rows = {end: i * n_rows for i, end in enumerate(ends)}, n_rows
        self._switches = fabric.buffers.keys()
        self._known: dict[Ways, tuple[int, int]] = {}
        self._n_ways = self._n_routes = 0
        self.table = np.zeros(0, WAY)
        self.routes: Ints = np.zeros(0, np.int32)

    def take(
        self, flows: Sequence[Flow], n_before: int, at: int, now: int
    ) -> tuple[Columns, Table]:
        """Flows as columns, and the ways of each (of CHOICE).

        Raises :class:`DimsweepError` naming the first flow that cannot be simulated, or whose ways
        there cannot be.  See :func:`check_flows`.
        """
        columns = columns_of(flows)
        check_flows(columns, n_before, at, now, self._n_rows)
        return columns, self._choices(columns, n_before)[columns.way]

    def _choices(self, flows: Columns, n_before: int) -> Table:
        choices = np.zeros(len(flows.ways), CHOICE)
        for i, ways in enumerate(flows.ways):
            if ways not in self._known:
                fault = self._fault(ways)
                if fault:
                    first = int((flows.way == i).argmax())
                    raise DimsweepError(fault, where=f"flow {n_before + first}")
                self._add(ways)
            choices[i] = self._known[ways]
        return choices

    def _add(self, ways: Ways) -> None:
        self._known[ways] = self._n_ways, len(ways)
        self.table = with_room(self.table, self._n_ways + len(ways))
        for data, acks in ways:
            ports = [*self._ports(data), END, *self._ports(acks), END]
            start, end = self._n_routes, self._n_routes + len(ports)
            self.routes = with_room(self.routes, end)
            self.routes[start:end] = ports
            self.table[self._n_ways] = start, start + len(data), end
            self._n_ways, self._n_routes = self._n_ways + 1, end

    def _ports(self, way: Sequence[int]) -> list[int]:
        return [self._numbers[hop] for hop in pairwise(way)]

    def _fault(self, ways: Ways) -> str:
        """Why no flow can take these ways, or nothing."""
        first, first_back = ways[0]
        for way, back in ways:
            fault = self._fault_of(way) or self._fault_of(back)
            if fault:
                return fault
            if (way[0], way[-1], way[-1], way[0]) != (first[0], first[-1], back[0], back[-1]):
                return "its ACKs do not go back to its sender"
            if (way[1], back[1]) != (first[1], first_back[1]):
                return "its ways do not begin at the same port"
        return ""

    def _fault_of(self, way: Sequence[int]) -> str:
        """A way leads from a host to a host."""
        if len(way) < 2:
            return f"its way {tuple(way)} leads nowhere"
        for hop in pairwise(way):
            if hop not in self._numbers:
                return f"there is no link {hop[0]} - {hop[1]}"
        for node, end in ((way[0], "begins"), (way[-1], "ends")):
            if node in self._switches:
                return f"its way {end} at {node}, which is a switch"
        return ""
