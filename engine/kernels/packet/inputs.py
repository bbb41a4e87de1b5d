"""Inputs of the packet kernel and their checks: ports, links, switches, flows and routes."""

from collections import Counter
from collections.abc import Iterable, Sequence
from enum import IntEnum
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.cluster.transports import Transport
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kernels.core.tables import grow_table
from dimsweep.engine.lower.program import Ints, Longs, Table
from dimsweep.engine.records import record

_LARGEST = (1 << 63) - 1
MOST_PRIORITIES = 8  # as Ethernet has them (IEEE 802.1Q)


class Marking(NamedTuple):
    """ECN marking at a switch's port (as RED, without averaging of the queue).

    A packet is never marked while at most ``start`` bytes are queued, always above ``full`` bytes,
    and in between with a probability that rises linearly to ``most``.
    """

    start: int
    full: int
    most: float


class Port(NamedTuple):
    """One end of a link, which sends from ``node`` to the node ``to``.

    ``rate`` is in bits/s, ``delay`` in ticks.  Packets that enter a switch by the port may take the
    free share of the switch's shared buffer / 2^``shift``, and ``headroom`` bytes on top.  Each
    priority has this headroom, and marking looks at the queue of the packet's priority.  Where
    switches drop packets instead of pausing, the limit applies to packets queued to leave by the
    port, ``shift`` may be negative (most of the buffer for one port), ``headroom`` is unused, and
    at most ``room`` bytes may wait.
    """

    node: int
    to: int
    rate: int
    delay: int
    marking: Marking | None = None
    headroom: int = 0
    shift: int = 3
    room: int = 1 << 61


class Fabric(NamedTuple):
    """A network for the packet kernel: its ports, and the buffer of each switch in bytes.

    Every other node is a host.  Two nodes have at most one link, with a port at both ends.
    """

    ports: Sequence[Port]
    buffers: dict[int, int]


class Wake(IntEnum):
    """The queue pairs that a network card considers when it plans its next look at them.

    It applies while no queue pair may send by its rate.  ``ABLE``: pairs with an open window;
    ``UNSENT``: pairs with bytes left; ``ALL``: all pairs.  With the last two the card may miss a
    turn, as some real simulators do.
    """

    ABLE = 0
    UNSENT = 1
    ALL = 2


class Stop(IntEnum):
    """Events that stop a run, as bits: a flow's arrival, its acknowledgement, its departure."""

    NEVER = 0b000
    ARRIVAL = 0b001
    ACKNOWLEDGED = 0b011
    DEPARTURE = 0b101


class Settings(NamedTuple):
    """Settings of a whole run; sizes in bytes."""

    transport: Transport | str = "static"  # with its keys, or its name alone
    ticks: int = 10**12  # a second
    payload: int = 1000  # of a full packet
    data_header: int = 48
    ack_size: int = 60
    frame_size: int = 64
    pauses: bool = True  # whether switches pause senders; if not, they drop packets without room
    trims: bool = False  # or cut its payload, and send the header on in the highest priority
    priorities: int = 1  # of flows; each has its own queues, reserves, headroom and pauses
    ack_priority: int = -1  # of all ACKs; below 0: that of their flow
    reserve: int = 4096  # of each port's ingress, in each priority, that do not count
    resume_below: int = 3072  # the threshold
    vary_window: bool = True  # with the rate
    wake: int = Wake.ABLE
    after_arrival: bool = True  # flows wait until others have arrived; else until senders know
    until: int = 1 << 62  # tick after which nothing happens any more
    draws_per_frame: int = 0  # random numbers that a pause frame uses up


def check_fabric(fabric: Fabric) -> None:
    """Raise :class:`DimsweepError`, naming the link, for an invalid fabric."""
    ends = Counter((port.node, port.to) for port in fabric.ports)
    for port in fabric.ports:
        _check_port(port, ends)


def check_settings(fabric: Fabric, settings: Settings) -> None:
    """Raise :class:`DimsweepError` for invalid settings, naming the switch, port or setting."""
    largest = settings.payload + settings.data_header
    if settings.payload <= 0 or 32 * largest * settings.ticks > _LARGEST:
        raise DimsweepError(
            f"a payload of {settings.payload} bytes",
            where="payload",
            code="out-of-range",
            hint=f"use 1 to {_LARGEST // (32 * settings.ticks) - settings.data_header} bytes",
        )
    if not 1 <= settings.priorities <= MOST_PRIORITIES:
        problem = f"{settings.priorities} priorities"
        hint = f"use 1 to {MOST_PRIORITIES}"
        raise DimsweepError(problem, where="priorities", hint=hint, code="out-of-range")
    if settings.ack_priority >= settings.priorities:
        problem = f"priority {settings.ack_priority} of {settings.priorities}, counted from 0"
        raise DimsweepError(problem, where="ack_priority", code="out-of-range")
    if settings.trims and (settings.pauses or settings.ack_priority < 1):
        raise DimsweepError(
            "trimmed headers need a separate priority, and switches that do not pause",
            where="trims",
            code="conflict",
            hint="set pauses=False, and ack_priority to the highest of at least two priorities",
        )
    for switch, shared in shared_buffers(fabric, settings).items():
        if shared <= 0:
            raise DimsweepError(
                f"the headroom and the reserves of its ports take more than its buffer of "
                f"{fabric.buffers[switch]} bytes, by {-shared}",
                where=f"switch {switch}",
                code="out-of-range",
                hint="use a larger buffer, or links that are slower, shorter or fewer",
            )
        if fabric.buffers[switch] < largest:
            problem = f"its buffer of {fabric.buffers[switch]} bytes holds no packet of {largest}"
            raise DimsweepError(problem, where=f"switch {switch}", code="out-of-range")
    for port in fabric.ports:
        if port.node in fabric.buffers and port.room < largest:
            problem = f"its room of {port.room} bytes holds no packet of {largest}"
            where = f"link {port.node} - {port.to}"
            raise DimsweepError(problem, where=where, code="out-of-range")
        if settings.pauses and port.shift < 0:
            problem = f"shift {port.shift}; it must be 0 or more where switches pause"
            where = f"link {port.node} - {port.to}"
            raise DimsweepError(problem, where=where, code="out-of-range")


def shared_buffers(fabric: Fabric, settings: Settings) -> dict[int, int]:
    """Return the bytes that the ports of each switch share, after headroom and reserves."""
    left = dict(fabric.buffers)
    for port in fabric.ports:
        if settings.pauses and port.node in left:
            left[port.node] -= settings.priorities * (port.headroom + settings.reserve)
    return left


def _check_port(port: Port, ends: Counter[tuple[int, int]]) -> None:
    where = f"link {port.node} - {port.to}"
    if (port.to, port.node) not in ends:
        hint = "add a port in the other direction, for ACKs"
        raise DimsweepError("the link leads one way only", where=where, hint=hint, code="missing")
    if ends[port.node, port.to] > 1:
        hint = "use one link with the sum of the rates"
        raise DimsweepError("the link exists twice", where=where, hint=hint, code="duplicate")
    if port.rate <= 0 or port.delay < 0 or port.headroom < 0 or abs(port.shift) > 16:
        hint = "the rate must be above 0, delay and headroom 0 or more, the shift from -16 to 16"
        raise DimsweepError(f"invalid link: {port}", where=where, hint=hint, code="out-of-range")
    marking = port.marking
    if marking and not (0 <= marking.start < marking.full and 0 <= marking.most <= 1):
        raise DimsweepError(
            f"marking from {marking.start} to {marking.full} bytes, at most {marking.most}",
            where=where,
            code="out-of-range",
            hint="the start (KMIN) must be below the end (KMAX), and the probability 0 to 1",
        )


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
    """A flow of ``size`` bytes from one host to another.

    It starts ``start`` ticks after the last of the flows ``after`` has arrived (see
    ``Settings.after_arrival``), or after the beginning.  ``way`` are the nodes on the route of its
    data and ``way_back`` the nodes on the route of its ACKs, hosts included.  Packets also take the
    routes in ``sprayed``, all in turn, by one port of the host (a message over several ports is
    several flows).  ``window`` bytes may be in flight (``None``: any number).  A higher
    ``priority`` goes first (see ``Settings.priorities``).  ``round_trip`` is the round-trip time in
    ticks (0: unknown): HPCC smooths over it, Swift adds the allowed queueing to it, and TCP's first
    time-out is three times as long, as of a connection that knows it from its handshake (RFC 6298,
    2.2).  NSCC and RCCC expect ``window`` and ``round_trip`` of an empty network, and choose routes
    by entropy values, not in turn.
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


class CheckedFlows(NamedTuple):
    """Flows that passed all checks, as TAKEN records.

    Flow i waits for the flows ``after[after_from[i] : after_from[i + 1]]``.
    """

    flows: Table
    after: Longs
    after_from: Longs


class KnownWays:
    """The routes that flows have used so far, registered as port numbers.

    A port has ``n_rows`` rows in the table of ports, one per priority; ``routes`` has the first row
    of each port, route by route: first for data, then for ACKs, each ended by -1.  With
    ``one_port`` all routes of a flow must begin at one port.
    """

    def __init__(self, fabric: Fabric, n_rows: int = 1, *, one_port: bool = False) -> None:
        ends = [(port.node, port.to) for port in fabric.ports]
        self._numbers, self._n_rows = {end: i * n_rows for i, end in enumerate(ends)}, n_rows
        self._switches, self._one_port = fabric.buffers.keys(), one_port
        self._known: dict[Ways, tuple[int, int]] = {}
        self._n_ways = self._n_routes = 0
        self.table = np.zeros(0, WAY)
        self.routes: Ints = np.zeros(0, np.int32)

    def take(self, flows: Sequence[Flow], n_before: int, at: int, now: int) -> CheckedFlows:
        """Check flows and register their routes; return the checked flows.

        ``n_before`` flows exist already, and these flows may wait for them and for one another.
        They begin at tick ``at``, and the present tick is ``now``.  Raises :class:`DimsweepError`,
        naming the first invalid flow.
        """
        for i, flow in enumerate(flows):
            if flow.window is not None and flow.window <= 0:
                problem = f"a window of {flow.window} bytes; it must be greater than 0"
                raise DimsweepError(problem, where=f"flow {i}", code="out-of-range")
        table = np.zeros(len(flows), TAKEN)
        for name in ("size", "start", "window", "round_trip", "priority"):
            table[name] = _longs(name, (getattr(flow, name) or 0 for flow in flows))
        after = _longs("after", (other for flow in flows for other in flow.after))
        after_from = np.cumsum([0, *(len(flow.after) for flow in flows)])
        check_sizes(table["size"], n_before, at, now)
        _check_waits(after, after_from, n_before)
        _refuse_first(table["start"] < 0, n_before, "it starts before the beginning")
        wrong = (table["priority"] < 0) | (table["priority"] >= self._n_rows)
        problem = f"its priority is not below {self._n_rows}, counted from 0"
        _refuse_first(wrong, n_before, problem, "Settings.priorities of a packet network")
        for i, flow in enumerate(flows):
            table["ways"][i], table["n_ways"][i] = self._find_ways(flow, n_before + i)
        return CheckedFlows(table, after, after_from)

    def _find_ways(self, flow: Flow, number: int) -> tuple[int, int]:
        """Return the number of a flow's first registered route, and its number of routes."""
        ways = ((flow.way, flow.way_back), *flow.sprayed)
        if ways not in self._known:
            fault = self._fault(ways)
            if fault:
                raise DimsweepError(fault, where=f"flow {number}", code="mismatch")
            self._add(ways)
        return self._known[ways]

    def _add(self, ways: Ways) -> None:
        self._known[ways] = self._n_ways, len(ways)
        self.table = grow_table(self.table, self._n_ways + len(ways))
        for data, acks in ways:
            ports = [*self._ports(data), END, *self._ports(acks), END]
            start, end = self._n_routes, self._n_routes + len(ports)
            self.routes = grow_table(self.routes, end)
            self.routes[start:end] = ports
            self.table[self._n_ways] = start, start + len(data), end
            self._n_ways, self._n_routes = self._n_ways + 1, end

    def _ports(self, way: Sequence[int]) -> list[int]:
        return [self._numbers[hop] for hop in pairwise(way)]

    def _fault(self, ways: Ways) -> str:
        """Return a phrase that says why no flow can take these routes, or ""."""
        first, first_back = ways[0]
        for way, back in ways:
            fault = self._way_fault(way) or self._way_fault(back)
            if fault:
                return fault
            if (way[0], way[-1], way[-1], way[0]) != (first[0], first[-1], back[0], back[-1]):
                return "its ACKs do not return to its sender"
            if self._one_port and (way[1], back[1]) != (first[1], first_back[1]):
                return "its ways do not begin at the same port"
        return ""

    def _way_fault(self, way: Sequence[int]) -> str:
        """Return a phrase that says why a route does not lead from a host to a host, or ""."""
        if len(way) < 2:
            return f"its way {tuple(way)} leads nowhere"
        for hop in pairwise(way):
            if hop not in self._numbers:
                return f"the link {hop[0]} - {hop[1]} does not exist"
        for node, end in ((way[0], "begins"), (way[-1], "ends")):
            if node in self._switches:
                return f"its way {end} at {node}, which is a switch"
        return ""


def check_sizes(sizes: Longs, n_before: int, at: int, now: int) -> None:
    """Raise :class:`DimsweepError` for a flow without bytes, or one that starts in the past."""
    if at < now:
        problem = f"flows cannot start at tick {at}: the present tick is {now}"
        raise DimsweepError(problem, where="at", code="out-of-range")
    _refuse_first(sizes <= 0, n_before, "it has no bytes")


def check_segments(payload: int, sizes: Longs, n_before: int) -> None:
    """Raise :class:`DimsweepError` for a flow with more packets than the tables can number."""
    too_many = sizes // payload >= 1 << 31
    _refuse_first(too_many, n_before, "it has more than 2^31 packets")


def check_windows(transport: Transport, rates: Longs, flows: Table, n_before: int) -> None:
    """Raise :class:`DimsweepError` for flows whose window is missing or would overflow.

    ``rates`` (bits/s): the rates of the sending hosts' links.
    """
    too_large = flows["window"] > _LARGEST // rates
    _refuse_first(
        too_large, n_before, "its window times its link's rate is more than an int64 holds"
    )
    if transport.needs_window:
        missing = (flows["window"] == 0) | (flows["round_trip"] <= 0)
        problem = f"{transport.name} needs the flow's window and its round trip"
        hint = "window in bytes (the bandwidth-delay product), round_trip in ticks"
        _refuse_first(missing, n_before, problem, hint)


def _check_waits(after: Longs, after_from: Longs, n_before: int) -> None:
    n = n_before + len(after_from) - 1
    waits = np.repeat(np.arange(n_before, n), np.diff(after_from))
    wrong = (after < 0) | (after >= n) | (after == waits)
    if wrong.any():
        problem = f"it waits for flow {after[wrong][0]}, which does not exist"
        where = f"flow {waits[wrong][0]}"
        raise DimsweepError(problem, where=where, code="unknown-name")


def _longs(name: str, values: Iterable[int]) -> Longs:
    try:
        return np.array([*values], np.int64)
    except OverflowError as error:
        hint = f"whole numbers up to {_LARGEST}"
        problem = "a number is too large"
        raise DimsweepError(problem, where=name, hint=hint, code="out-of-range") from error


def _refuse_first(wrong: NDArray[np.bool_], n_before: int, why: str, hint: str = "") -> None:
    if wrong.any():
        where = f"flow {n_before + int(wrong.argmax())}"
        raise DimsweepError(why, where=where, hint=hint, code="out-of-range")
