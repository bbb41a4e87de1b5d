"""Flows between hosts and the ways that they take, each checked, and each way kept once."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.cluster.transports import Transport
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kernels.core.rows import with_room
from dimsweep.engine.kernels.packet.inputs import Fabric
from dimsweep.engine.lower.program import Ints, Longs, Table
from dimsweep.engine.records import record

_LARGEST = (1 << 63) - 1
END = -1  # what stands in ``KnownWays.routes`` behind each way's ports

Way = tuple[tuple[int, ...], tuple[int, ...]]  # the nodes that data pass, and those of their ACKs
Ways = tuple[Way, ...]  # that packets take in turn
# Where a way begins in ``routes``, where the way of its ACKs begins, and where the next one does.
WAY = record(data="i4", ack="i4", end="i4")
TAKEN = record(  # a Flow that is checked
    size="i8",
    start="i8",
    window="i8",  # 0 for none
    round_trip="i8",
    priority="i8",
    ways="i4",  # its first one in ``KnownWays.table``
    n_ways="i4",
)


class Flow(NamedTuple):
    """``size`` bytes that a host sends to another one.

    It starts ``start`` ticks after the last of the flows ``after`` has arrived (see
    ``Settings.after_arrival``), or after the beginning.  ``way`` are the nodes that its data pass,
    ``way_back`` those that its ACKs pass, hosts included; packets take the ways (and ways back) of
    ``sprayed``, too, all in turn, by one port of its host (what leaves by several is several
    flows).  ``window`` bytes may be under way (``None``: any number).  Higher ``priority`` goes
    first (see ``Settings.priorities``).  ``round_trip`` is the ticks that HPCC smooths over, to
    which Swift adds what may queue, and after three of which TCP's timer first runs out, as of a
    connection that knows its round trip from its handshake (RFC 6298, 2.2; 0: not known).  NSCC
    and RCCC take both to be those of an empty network, and find ways by entropy values, not in
    turn.
    """

    size: int
    way: tuple[int, ...]
    way_back: tuple[int, ...]
    start: int = 0
    after: tuple[int, ...] = ()
    window: int | None = None
    round_trip: int = 0
    sprayed: Ways = ()
    priority: int = 0


class Taken(NamedTuple):
    """Flows that are checked, of TAKEN; flow i waits for ``after[after_from[i] :
    after_from[i + 1]]``."""

    flows: Table
    after: Longs
    after_from: Longs


class KnownWays:
    """The ways that flows have named so far.

    A port has ``n_rows`` rows of a table, one a priority, of which ``routes`` are the first, one
    way after another: those of data and those of ACKs, each up to a -1.  With ``one_port`` all of
    a flow's begin at the same one.
    """

    def __init__(self, fabric: Fabric, n_rows: int = 1, *, one_port: bool = False) -> None:
        ends = [(port.node, port.to) for port in fabric.ports]
        self._numbers, self._n_rows = {end: i * n_rows for i, end in enumerate(ends)}, n_rows
        self._switches, self._one_port = fabric.buffers.keys(), one_port
        self._known: dict[Ways, tuple[int, int]] = {}
        self._n_ways = self._n_routes = 0
        self.table = np.zeros(0, WAY)
        self.routes: Ints = np.zeros(0, np.int32)

    def take(self, flows: Sequence[Flow], n_before: int, at: int, now: int) -> Taken:
        """Check flows, and remember their ways.

        There are ``n_before`` flows already, for which these may wait as for one another.  Their
        beginning is the tick ``at``, and the present one is ``now``.  Raises
        :class:`DimsweepError` naming the first flow that cannot be simulated, or whose ways there
        cannot be.
        """
        for i, flow in enumerate(flows):
            if flow.window is not None and flow.window <= 0:
                raise DimsweepError(f"a window of {flow.window} bytes", where=f"flow {i}")
        table = np.zeros(len(flows), TAKEN)
        for name in ("size", "start", "window", "round_trip", "priority"):
            table[name] = _longs(name, (getattr(flow, name) or 0 for flow in flows))
        after = _longs("after", (other for flow in flows for other in flow.after))
        after_from = np.cumsum([0, *(len(flow.after) for flow in flows)])
        check_sizes(table["size"], n_before, at, now)
        _check_waits(after, after_from, n_before)
        _refuse(table["start"] < 0, n_before, "it starts before the beginning")
        wrong = (table["priority"] < 0) | (table["priority"] >= self._n_rows)
        told = f"its priority is none of {self._n_rows}, counted from 0"
        _refuse(wrong, n_before, told, "Settings.priorities of a packet network")
        for i, flow in enumerate(flows):
            table["ways"][i], table["n_ways"][i] = self._choice(flow, n_before + i)
        return Taken(table, after, after_from)

    def _choice(self, flow: Flow, number: int) -> tuple[int, int]:
        """The flow's first way, and how many it has."""
        ways = ((flow.way, flow.way_back), *flow.sprayed)
        if ways not in self._known:
            fault = self._fault(ways)
            if fault:
                raise DimsweepError(fault, where=f"flow {number}")
            self._add(ways)
        return self._known[ways]

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
            if self._one_port and (way[1], back[1]) != (first[1], first_back[1]):
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


def check_sizes(sizes: Longs, n_before: int, at: int, now: int) -> None:
    """Raises :class:`DimsweepError` for a flow without bytes, or that would have started."""
    if at < now:
        raise DimsweepError(f"flows are to start from tick {at} on, but it is {now}", where="at")
    _refuse(sizes <= 0, n_before, "it has no bytes")


def check_segments(payload: int, sizes: Longs, n_before: int) -> None:
    """Raises :class:`DimsweepError` for a flow of more packets than the tables count."""
    too_many = sizes // payload >= 1 << 31
    _refuse(too_many, n_before, "it is more packets than are counted here")


def check_windows(transport: Transport, rates: Longs, flows: Table, n_before: int) -> None:
    """Raises :class:`DimsweepError` for windows that are missing or too large to compute with.

    ``rates`` (bits a second) are those of the hosts' links by which the flows leave.
    """
    too_large = flows["window"] > _LARGEST // rates
    _refuse(too_large, n_before, "its window times its link's rate is more than an int64 holds")
    if transport.needs_window:
        missing = (flows["window"] == 0) | (flows["round_trip"] <= 0)
        told = f"{transport.name} needs the flow's window and its round trip"
        hint = "window in bytes (the bandwidth-delay product), round_trip in ticks"
        _refuse(missing, n_before, told, hint)


def _check_waits(after: Longs, after_from: Longs, n_before: int) -> None:
    n = n_before + len(after_from) - 1
    waits = np.repeat(np.arange(n_before, n), np.diff(after_from))
    wrong = (after < 0) | (after >= n) | (after == waits)
    if wrong.any():
        told = f"it waits for flow {after[wrong][0]}, which there is not"
        raise DimsweepError(told, where=f"flow {waits[wrong][0]}")


def _longs(name: str, values: Iterable[int]) -> Longs:
    try:
        return np.array([*values], np.int64)
    except OverflowError as error:
        hint = f"whole numbers up to {_LARGEST}"
        raise DimsweepError("a number is too large", where=name, hint=hint) from error


def _refuse(wrong: NDArray[np.bool_], n_before: int, why: str, hint: str = "") -> None:
    if wrong.any():
        raise DimsweepError(why, where=f"flow {n_before + int(wrong.argmax())}", hint=hint)
