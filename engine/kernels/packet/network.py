"""Run the packet kernel from Python, and report its results.

Flows may be added while the network runs, or all at once.  Results cover flows, ports, ports over
time, and which port paused which other port for which queue.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from time import process_time
from typing import NamedTuple

import numpy as np

from dimsweep.engine.cluster.transports import Transport, build_transport
from dimsweep.engine.compiler import is_cached
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kernels.core.agenda import EMPTY
from dimsweep.engine.kernels.core.tables import NEVER, NONE, view_as_bytes
from dimsweep.engine.kernels.packet.inputs import (
    CheckedFlows,
    Fabric,
    Flow,
    KnownWays,
    Port,
    Settings,
    Stop,
    check_fabric,
    check_segments,
    check_settings,
    check_sizes,
    check_windows,
)
from dimsweep.engine.kernels.packet.kernel import ROOM, admit, run
from dimsweep.engine.kernels.packet.state import FULL, Run
from dimsweep.engine.kernels.packet.tables import (
    Draws,
    add_flows,
    enlarge_run,
    new_flows,
    new_run,
    reserve_events,
)
from dimsweep.engine.lower.program import Ints, Longs, Table


class PortAccount(NamedTuple):
    """Counters of one port over a run.

    ``longest_queue`` is in bytes; ``data``, ``marked`` and ``dropped`` are numbers of packets.
    Dropped are packets that came in by this port or, where switches do not pause, were to leave by
    it; these include headers of packets that were ``trimmed`` there.  ``pauses`` and ``resumes``
    count frames that the port obeyed, and ``paused`` the ticks.  All priorities are counted
    together, except that ``longest_queue`` is the maximum over priorities.
    """

    node: int
    to: int
    longest_queue: int
    data: int
    data_bytes: int
    marked: int
    dropped: int
    pauses: int
    resumes: int
    paused: int
    trimmed: int


class History(NamedTuple):
    """The state of a watched port over time: a row for each of ``times`` (ticks) with a change.

    ``queue`` is the bytes of data and ACKs queued at the port (0 at a host, whose flows keep bytes
    that cannot be sent).  ``sent`` bytes and ``marked`` packets are counted since the beginning,
    each as it begins to leave.  ``paused`` is 1 while the port obeys a pause frame.
    """

    times: Longs
    queue: Ints
    sent: Longs
    marked: Longs
    paused: Ints

    def sent_by(self, times: Longs) -> Longs:
        """Return the bytes that the port had sent by each of ``times``."""
        return np.append(0, self.sent)[np.searchsorted(self.times, times, side="right")]

    def longest_queues(self, times: Longs) -> Longs:
        """Return the longest queue (bytes) in each interval between ascending ``times``."""
        queue = np.concatenate([[0], self.queue, [0]])  # nothing before the first change
        firsts = np.searchsorted(self.times, times[:-1], side="right")
        ends = np.searchsorted(self.times, times[1:], side="left") + 1
        longest: Longs = np.maximum.reduceat(queue, np.stack([firsts, ends], 1).ravel())[::2]
        return longest


class Pausing(NamedTuple):
    """A pause that a switch sent to ``port``, because of a packet in the queue of port ``queue``.

    Ports are pairs of nodes (from, to).  ``root`` is the port whose queue first caused the pause:
    ``queue`` itself, or the root of the pause that ``queue`` obeys.
    """

    time: int
    port: tuple[int, int]
    queue: tuple[int, int]
    root: tuple[int, int]


@dataclass(frozen=True)
class PacketRun:
    """The results of a run: start, arrival and end of each flow in ticks, or -1 if not reached.

    The arrival is the arrival of the last byte at the receiver, the end is the arrival of the last
    ACK at the sender.  ``timeouts`` counts each flow's expired timers, and ``resent`` its
    retransmitted packets (not counted for TCP).
    """

    starts: Longs
    arrivals: Longs
    ends: Longs
    timeouts: Longs
    resent: Longs
    ports: tuple[PortAccount, ...]
    histories: dict[tuple[int, int], History]  # of the ports that were watched
    pausings: tuple[Pausing, ...]
    events: int
    cpu: float  # seconds of the simulation itself, without its set-up

    @property
    def completion_times(self) -> Longs:
        """Ticks from start to end of each flow, or -1 if it did not end."""
        return np.where(self.ends < 0, -1, self.ends - self.starts)

    @property
    def pauses(self) -> int:
        """Number of pause frames that ports obeyed."""
        return sum(port.pauses for port in self.ports)

    @property
    def dropped(self) -> int:
        """Number of packets dropped by switches."""
        return sum(port.dropped for port in self.ports)


def account(fabric: Fabric, tables: Run, cpu: float) -> PacketRun:
    """Return the results of a run so far; ``cpu`` is its seconds of computing."""
    n = int(tables.counts["n_flows"][0])
    flows = tables.flows[:n]
    return PacketRun(
        flows["start"].copy(),
        flows["arrival"].copy(),
        flows["end"].copy(),
        _sender_counts(tables, "timeouts", n),
        _sender_counts(tables, "resent", n),
        tuple(_account(fabric, tables)),
        read_histories(fabric, tables),
        read_pausings(fabric, tables),
        int(tables.agenda.counts["numbers"][0]),
        cpu,
    )


def _sender_counts(tables: Run, name: str, n: int) -> Longs:
    """Return counter ``name`` of retransmitting senders by flow; zeros for other transports."""
    counted = [of[name][:n] for of in (tables.tcp, tables.rud) if name in (of.dtype.names or ())]
    return next((of.copy() for of in counted if len(of) == n), np.zeros(n, np.int64))


def _account(fabric: Fabric, tables: Run) -> list[PortAccount]:
    names = ["data", "data_bytes", "marked", "dropped", "pauses", "resumes"]
    names += ["paused_ticks", "trimmed"]
    ports = tables.ports.reshape(-1, tables.settings.priorities)
    columns = [ports["most"].max(1), *(ports[name].sum(1) for name in names)]
    rows = zip(fabric.ports, *(column.tolist() for column in columns), strict=True)
    return [PortAccount(port.node, port.to, *row) for port, *row in rows]


def stuck_error(fabric: Fabric, tables: Run) -> DimsweepError:
    """Return the error of flows that never end, with the cause.

    The cause is a dropped packet, a circle of paused ports, or flows that wait for one another.
    """
    dropped = int(tables.ports["dropped"].sum())
    if dropped:
        why = f"{dropped} packets were dropped, and the transport does not retransmit"
    elif (tables.ports["paused"] > 0).any():
        circle = ", ".join(f"{node} - {to}" for node, to in circle_of_pauses(fabric, tables))
        why = f"the ports {circle} are paused in a circle: a deadlock of pauses"
    else:
        why = "they wait for flows that never end"
    return never_end_error(tables.flows["end"][: tables.counts["n_flows"][0]], why)


def never_end_error(ends: Longs, why: str) -> DimsweepError:
    """Return the error that names the flows without an end (``ends`` < 0) and the cause."""
    unended = np.flatnonzero(ends < 0)
    named = ", ".join(map(str, unended[:5].tolist()))
    return DimsweepError(
        f"{len(unended)} flows never end ({named}): {why}", where="flows", code="stalled"
    )


def read_histories(fabric: Fabric, tables: Run) -> dict[tuple[int, int], History]:
    """Return the history of each watched port, by its pair of nodes."""
    samples = tables.samples[: tables.counts["n_samples"][0]]
    found = {}
    for i, port in enumerate(fabric.ports):
        row = i * tables.settings.priorities
        if tables.ports["watched"][row]:
            own = samples[samples["port"] == row]
            columns = ("time", "queue", "sent", "marked", "paused")
            found[port.node, port.to] = History(*(own[name].copy() for name in columns))
    return found


def read_pausings(fabric: Fabric, tables: Run) -> tuple[Pausing, ...]:
    """Return all pauses of a run, in order of time."""
    roots, found = dict[int, int](), []  # the roots of the rows that pause
    for time, row, queue in _pause_orders(tables):
        if queue == NONE:
            roots.pop(row, None)
        else:
            roots[row] = roots.get(queue, queue)
            ends = _port_ends(fabric, tables, (row, queue, roots[row]))
            found.append(Pausing(time, *ends))
    return tuple(found)


def circle_of_pauses(fabric: Fabric, tables: Run) -> list[tuple[int, int]]:
    """Return a circle of paused ports, each paused because of packets at the next one.

    If the last port is not paused, the ports form a chain instead of a circle.
    """
    waits_at: dict[int, int] = {}
    for _, row, queue in _pause_orders(tables):
        waits_at.pop(row, None)
        if queue != NONE:
            waits_at[row] = queue
    way: list[int] = []
    row = next(iter(waits_at), NONE)
    while row in waits_at and row not in way:
        way.append(row)
        row = waits_at[row]
    return _port_ends(fabric, tables, way[way.index(row) :] if row in way else way)


def _pause_orders(tables: Run) -> list[tuple[int, int, int]]:
    """Return (tick, row of the paused port, row of the queue) of each pause; NONE: a resume."""
    orders: list[tuple[int, int, int]] = tables.pausings[: tables.counts["n_pausings"][0]].tolist()
    return orders


def _port_ends(fabric: Fabric, tables: Run, rows: Iterable[int]) -> list[tuple[int, int]]:
    """Return the pair of nodes (from, to) of the port of each row."""
    ports = [fabric.ports[row // tables.settings.priorities] for row in rows]
    return [(port.node, port.to) for port in ports]


class Completed(NamedTuple):
    """Flows that arrived, ended or departed since the last call.

    ``arrived``: the last byte has reached the receiver; ``acknowledged``: the sender knows it;
    ``departing``: the last byte leaves the sender at the tick ``departures``, which may be in the
    future (only in the packet kernel).
    """

    time: int  # tick
    arrived: Longs
    acknowledged: Longs
    departing: Longs = np.zeros(0, np.int64)
    departures: Longs = np.zeros(0, np.int64)  # ticks


class PacketNetwork:
    """A running simulation of packets on a fabric; flows may be added while it runs.

    ``watch`` names ports, by their node and their peer, that are recorded over time.  Random marks
    use ``draws``, a function that returns the next n random numbers of the run, or a generator with
    ``seed``.  Raises :class:`DimsweepError` for a fabric or settings that cannot be simulated.
    """

    def __init__(
        self,
        fabric: Fabric,
        settings: Settings | None = None,
        *,
        watch: Collection[tuple[int, int]] = (),
        seed: int = 0,
        draws: Draws | None = None,
    ) -> None:
        settings = settings or Settings()
        check_fabric(fabric)
        check_settings(fabric, settings)
        self._fabric = fabric
        self._draws = draws or np.random.default_rng(seed).random
        self._ways = KnownWays(fabric, settings.priorities, one_port=True)
        self._transport = build_transport(settings.transport)
        self._tables = new_run(fabric, settings, self._transport, self._draws)
        self._learnt = view_as_bytes(self._tables.flows[:0])
        self.now = 0  # the tick up to which everything has happened
        self._cpu = 0.0
        _watch(fabric, self._tables, watch)

    def add(self, flows: Sequence[Flow], at: int = 0) -> range:
        """Add flows that begin at tick ``at``; return their numbers.

        Numbers are consecutive.  Flows may wait for one another and for earlier flows.  Raises
        :class:`DimsweepError`, naming the invalid flow.
        """
        first = self._n_flows
        taken, new = self._check_flows(flows, first, at)
        return self._take_in(new, at, taken.after, taken.after_from)

    def learn(self, flows: Sequence[Flow]) -> range:
        """Register flows as templates for :meth:`repeat`; return the templates' numbers.

        Their sizes and predecessors are not used.  Raises :class:`DimsweepError`, naming the
        invalid flow.
        """
        first = len(self._learnt)
        _, new = self._check_flows(flows, first, self.now)
        self._learnt = np.concatenate([self._learnt, view_as_bytes(new)])
        return range(first, len(self._learnt))

    def repeat(self, learnt: Longs, sizes: Longs, at: int = 0) -> range:
        """Add copies of registered flows, with ``sizes`` bytes, that begin at tick ``at``."""
        first = self._n_flows
        check_sizes(sizes, first, at, self.now)
        self._check_segments(sizes, first)
        new: Table = self._learnt[learnt].view(self._tables.flows.dtype).ravel()
        new["size"] = sizes
        return self._take_in(new, at, np.zeros(0, np.int64), np.zeros(len(new) + 1, np.int64))

    @property
    def _n_flows(self) -> int:
        return int(self._tables.counts["n_flows"][0])

    def _check_segments(self, sizes: Longs, first: int) -> None:
        if self._transport.resends:
            check_segments(self._tables.settings.payload, sizes, first)

    def _check_flows(
        self, flows: Sequence[Flow], first: int, at: int
    ) -> tuple[CheckedFlows, Table]:
        """Return the checked flows, and the records with which the kernel starts them."""
        taken = self._ways.take(flows, first, at, self.now)
        self._check_segments(taken.flows["size"], first)
        new = new_flows(self._tables, taken.flows, self._ways)
        check_windows(self._transport, new["line_rate"], taken.flows, first)
        return taken, new

    def _take_in(self, new: Table, at: int, after: Longs, after_from: Longs) -> range:
        first = self._n_flows
        tables = add_flows(self._tables, new, len(after), self._ways)
        n = self._n_flows
        self._tables = reserve_events(tables, ROOM + n)
        admit(self._tables, first, at, after, after_from)
        return range(first, n)

    def advance(self, until: int = NEVER, stop: Stop = Stop.ARRIVAL) -> Completed:
        """Simulate until the end of the next tick at which a flow completes, or ``until``.

        Returns the completed flows; none if nothing is left to happen.  Raises
        :class:`DimsweepError` naming flows that never end, because they wait for one another, for
        ports in a circle of pauses, or for packets that were dropped.
        """
        tables = self._tables
        counts = tables.counts[0]
        for name in ("n_arrived", "n_acknowledged", "n_departing"):
            counts[name] = 0
        clock = tables.agenda.counts[0]
        counts["stop"], clock["until"] = stop, until
        began = process_time()
        while (outcome := run(tables)) == FULL:
            self._tables = tables = enlarge_run(tables, self._draws)
        self._cpu += process_time() - began
        # Events stop at UNTIL, which a completion has set to its own tick.
        clock = tables.agenda.counts[0]
        self.now = int(clock["now"] if clock["until"] == NEVER else clock["until"])
        departing = tables.departing[: counts["n_departing"]].copy()
        completed = Completed(
            self.now,
            tables.arrived[: counts["n_arrived"]].copy(),
            tables.acknowledged[: counts["n_acknowledged"]].copy(),
            departing,
            tables.flows["departure"][departing],
        )
        if outcome == EMPTY and counts["n_ended"] < counts["n_flows"]:
            raise stuck_error(self._fabric, tables)
        return completed

    def account(self) -> PacketRun:
        """Return the results of the run so far."""
        return account(self._fabric, self._tables, self._cpu)


def _watch(fabric: Fabric, tables: Run, watch: Collection[tuple[int, int]]) -> None:
    numbers = {(port.node, port.to): i for i, port in enumerate(fabric.ports)}
    for node, to in watch:
        if (node, to) not in numbers:
            raise DimsweepError(
                f"the port {node} - {to} does not exist",
                where="watch",
                code="unknown-name",
                hint="name a node and the node to which its port sends",
            )
        first = numbers[node, to] * tables.settings.priorities
        tables.ports["watched"][first : first + tables.settings.priorities] = 1


def is_compiled(transport: Transport | str) -> bool:
    """Return whether the kernel's code for a transport is cached on disk.

    RoCE's and TCP's transports share one kernel, and each other transport has its own.
    """
    wire = Fabric([Port(0, 1, 10**9, 0), Port(1, 0, 10**9, 0)], {})
    transport = build_transport(transport)
    draws = np.random.default_rng(0).random
    return is_cached(run, new_run(wire, Settings(transport=transport), transport, draws))


def simulate_packets(
    fabric: Fabric,
    flows: Sequence[Flow],
    settings: Settings | None = None,
    *,
    watch: Collection[tuple[int, int]] = (),
    seed: int = 0,
    draws: Draws | None = None,
) -> PacketRun:
    """Simulate every packet of every flow, and return the results.

    ``watch`` names ports, by their node and their peer, that are recorded over time.  Random marks
    use ``draws``, a function that returns the next n random numbers of the run, or a generator with
    ``seed``.  Raises :class:`DimsweepError` for invalid input, and, naming the flows that never
    end, for a deadlock.
    """
    settings = settings or Settings()
    network = PacketNetwork(fabric, settings, watch=watch, seed=seed, draws=draws)
    network.add(flows)
    network.advance(settings.until, Stop.NEVER)
    return network.account()
