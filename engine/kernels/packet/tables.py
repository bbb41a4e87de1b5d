"""Inputs as the tables of a run, and larger tables when a run has filled them."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from engine.cluster.transports import TRANSPORTS, Transport
from engine.kernels.core.none import NONE
from engine.kernels.packet.agenda import LEFT, enlarged_agenda, new_agenda
from engine.kernels.packet.flows import FlowColumns
from engine.kernels.packet.following import EDGE
from engine.kernels.packet.inputs import Fabric, Marking, shared_buffers
from engine.kernels.packet.kernel import ROOM
from engine.kernels.packet.registered import flow_record, keys_record
from engine.kernels.packet.settings import Settings
from engine.kernels.packet.state import (
    BLOCK,
    COUNTS,
    FREE_LEFT,
    FREE_PACKET,
    HOP,
    HOPS,
    PACKET,
    PAUSING,
    PORT,
    SACK_BLOCKS,
    SAMPLE,
    SWITCH,
    TCP,
    TIMERS,
    Run,
    zeros,
)
from engine.kernels.packet.ways import WAY, KnownWays, with_room
from engine.lower.program import Floats, Longs, Table

_ANY = 1 << 62  # bytes
_FIRST_PACKETS = 1 << 8
_BUCKETS = 1 << 14  # of the agenda: most events are at most some microseconds away
_FIRST_DRAWS = 1 << 12
_FIRST_NOTES = 1 << 8

Draws = Callable[[int], Floats]  # the next n random numbers of a run


def new_run(fabric: Fabric, settings: Settings, transport: Transport, draws: Draws) -> Run:
    """Tables without flows; the inputs are checked."""
    carries, speaks = transport.telemetry, transport.speaks_tcp
    return Run(
        # Numba looks an enumeration's members up anew at every call, as it does a text's type.
        settings._replace(transport=0, wake=int(settings.wake)),  # type: ignore[arg-type]
        new_agenda(2 * _FIRST_PACKETS, _shift(settings.ticks), _BUCKETS),
        _ports(fabric, settings),
        _switches(fabric, settings),
        zeros(0, flow_record()),
        _free_packets(_FIRST_PACKETS),
        np.zeros((_FIRST_PACKETS if carries else 1, HOPS), HOP),
        np.zeros((0 if carries else 1, HOPS), HOP),
        np.zeros(0 if speaks else 1, TCP),
        np.zeros((0 if speaks else 1, SACK_BLOCKS), BLOCK),
        np.zeros((_FIRST_PACKETS if speaks else 1, SACK_BLOCKS), BLOCK),
        np.zeros(0, np.uint8),
        np.zeros(0, np.int32),
        np.zeros(0, WAY),
        np.zeros(0, np.int32),
        np.zeros(0, np.int64),
        np.zeros(0, EDGE),
        np.zeros(0, np.int64),
        np.zeros(0, np.int64),
        np.zeros(0, np.int64),
        np.zeros(_FIRST_NOTES, SAMPLE),
        np.zeros(_FIRST_NOTES, PAUSING),
        draws(_FIRST_DRAWS),
        np.zeros(0, np.int64),
        keys_record(transport),
        list(TRANSPORTS).index(transport.name),
        speaks,
        np.array([0, _FIRST_PACKETS]),
        np.zeros(1, COUNTS),
    )


def with_flows(run: Run, flows: Table, n_after: int, known: KnownWays) -> Run:
    """The run with more flows, which wait for ``n_after`` others."""
    counts = run.counts[0]
    first, n_edges = int(counts["n_flows"]), int(counts["n_edges"])
    n = first + len(flows)
    counts["n_flows"] = n
    table = run.flows
    if n > len(table):
        table = joined(table, zeros(max(n, 2 * len(table)) - len(table), table.dtype))
    carries, timers = len(run.telemetry) > 1, with_room(run.timers, TIMERS * n)
    timers[TIMERS * first :] = NONE
    run = run._replace(
        flows=table,
        known=with_room(run.known, n) if carries else run.known,
        ways=known.table,
        routes=known.routes,
        edges=with_room(run.edges, n_edges + n_after),
        arrived=with_room(run.arrived, n),
        acknowledged=with_room(run.acknowledged, n),
        departing=with_room(run.departing, n),
        timers=timers,
    )
    in_bytes(table)[first:n] = in_bytes(flows)
    if run.speaks_tcp:
        run = _with_segments(run, first, n)
    return _with_pairs(run, table["port"][first:n])


def new_flows(run: Run, flows: FlowColumns, choices: Table, known: KnownWays) -> Table:
    """Flows that have not started, of FLOW; ``choices`` are their ways."""
    table, way = np.zeros(len(flows.sizes), run.flows.dtype), known.table[choices["first"]]
    table["size"], table["after"] = flows.sizes, flows.starts
    table["ways"], table["n_ways"] = choices["first"], choices["n"]
    n, acks = run.settings.priorities, run.settings.ack_priority
    table["rank"] = n - 1 - flows.priorities
    table["ack_rank"] = table["rank"] if acks < 0 else n - 1 - acks
    table["port"] = known.routes[way["data"]] + table["rank"]
    table["host"] = known.routes[way["ack"]] + table["ack_rank"]
    rate = run.ports["rate"][table["port"]]
    table["line_rate"] = table["rate"] = rate
    table["window"] = flows.windows
    table["allowed"] = np.where(flows.windows > 0, flows.windows, _ANY)
    table["round_trip"] = flows.round_trips
    for name in ("start", "arrival", "end", "followers"):
        table[name] = NONE
    return table


def _with_segments(run: Run, first: int, n: int) -> Run:
    """What TCP keeps of the flows from ``first`` on, and of each of their segments."""
    table, keys, counts = with_room(run.tcp, n), run.keys["tcp"][0], run.counts[0]
    new = table[first:n]
    new["n_segments"] = -(-run.flows["size"][first:n] // run.settings.payload)
    ends = counts["n_segments"] + np.cumsum(new["n_segments"] + 1)  # one behind each flow's last
    new["first"] = ends - new["n_segments"] - 1
    counts["n_segments"] = ends[-1] if len(ends) else counts["n_segments"]
    new["cwnd"], new["threshold"] = keys["first_window"], np.inf
    round_trips = run.flows["round_trip"][first:n]
    rto = np.clip(3 * round_trips, keys["least_rto"], keys["most_rto"])  # R + 4 R / 2
    new["rto"] = np.where(round_trips > 0, rto, keys["first_rto"])
    for name in ("times_out_at", "timer"):
        new[name] = NONE
    n_segments = int(counts["n_segments"])
    return run._replace(
        tcp=table,
        blocks=with_room(run.blocks, n),
        segments=with_room(run.segments, n_segments),
        skips=with_room(run.skips, n_segments),
    )


def _with_pairs(run: Run, senders: Longs) -> Run:
    """Room for the queue pairs of more flows; a port that needs more moves to the end."""
    more = np.bincount(senders, minlength=len(run.ports))
    ports, counts = run.ports, run.counts[0]
    ports["flows"] += more
    for port in np.flatnonzero(ports["flows"] > ports["most_pairs"]):
        p = ports[port]
        first, n = int(counts["n_pairs"]), 2 * int(p["flows"])
        pairs = with_room(run.pairs, first + n)
        active = slice(p["first_pair"], p["first_pair"] + p["pairs"])
        pairs[first : first + p["pairs"]] = run.pairs[active]
        p["first_pair"], p["most_pairs"] = first, n
        counts["n_pairs"] = first + n
        run = run._replace(pairs=pairs)
    return run


def enlarged(run: Run, draws: Draws) -> Run:
    """The same run with twice the room wherever it has filled a table."""
    counts = run.counts[0]
    if run.free[FREE_LEFT] < ROOM:
        run = _with_packets(run, 2 * len(run.packets))
    run = with_events(run, ROOM + int(counts["n_flows"]))
    if counts["drawn"] + ROOM > len(run.draws):
        run = run._replace(draws=np.concatenate([run.draws, draws(len(run.draws))]))
    if counts["n_samples"] + ROOM > len(run.samples):
        run = run._replace(samples=_twice(run.samples))
    if counts["n_pausings"] + ROOM > len(run.pausings):
        run = run._replace(pausings=_twice(run.pausings))
    return run


def _twice(table: Table) -> Table:
    return np.concatenate([table, np.zeros_like(table)])


def with_events(run: Run, n: int) -> Run:
    """Room for ``n`` more events."""
    while run.agenda.counts[LEFT] < n:
        run = run._replace(agenda=enlarged_agenda(run.agenda, 2 * len(run.agenda.events)))
    return run


def _shift(ticks: int) -> int:
    """Buckets of the agenda of about a nanosecond."""
    return max(ticks // 10**9, 1).bit_length() - 1


def _ports(fabric: Fabric, settings: Settings) -> Table:
    """A row for each priority of each port, alike."""
    n, order = settings.priorities, {switch: i for i, switch in enumerate(fabric.buffers)}
    numbers = {(port.node, port.to): n * i for i, port in enumerate(fabric.ports)}
    never = Marking(_ANY, _ANY, 0.0)
    columns = {
        "rate": [port.rate for port in fabric.ports],
        "delay": [port.delay for port in fabric.ports],
        "back": [numbers[port.to, port.node] for port in fabric.ports],
        "switch": [order.get(port.node, NONE) for port in fabric.ports],
        "headroom": [port.headroom for port in fabric.ports],
        "shift": [port.shift for port in fabric.ports],
    }
    marks = zip(*(port.marking or never for port in fabric.ports), strict=True)
    columns |= zip(("mark_from", "mark_all", "mark_most"), map(list, marks), strict=False)
    table = zeros(n * len(fabric.ports), PORT)
    for name, column in columns.items():
        table[name] = np.repeat(np.array(column, PORT[name]), n)
    bits = 8 * settings.ack_size * settings.ticks
    table["ack_time"] = (2 * bits + table["rate"]) // (2 * table["rate"])
    for name in ("head", "tail", "frames", "wire", "number", "wake_number"):
        table[name] = NONE
    table["back"] += np.tile(np.arange(n, dtype=np.int32), len(fabric.ports))
    return table


def _switches(fabric: Fabric, settings: Settings) -> Table:
    table = np.zeros(len(fabric.buffers), SWITCH)
    table["shared"] = list(shared_buffers(fabric, settings).values())
    return table


def _free_packets(n: int, first: int = 0) -> Table:
    table = zeros(n, PACKET)
    table["next"] = np.arange(first + 1, first + n + 1)
    table["next"][-1] = NONE
    return table


def in_bytes(table: Table) -> NDArray[np.uint8]:
    """The same rows as bytes, (rows, bytes of a row): NumPy copies records field by field, which
    takes ten times as long."""
    return table.view(np.uint8).reshape(len(table), table.dtype.itemsize)


def joined(table: Table, more: Table) -> Table:
    both = zeros(len(table) + len(more), table.dtype)
    in_bytes(both)[: len(table)] = in_bytes(table)
    in_bytes(both)[len(table) :] = in_bytes(more)
    return both


def _with_packets(run: Run, n: int) -> Run:
    old = len(run.packets)
    more = _free_packets(n - old, old)
    more["next"][-1] = run.free[FREE_PACKET]
    run.free[FREE_PACKET] = old
    run.free[FREE_LEFT] += n - old
    return run._replace(
        packets=joined(run.packets, more),
        telemetry=with_room(run.telemetry, n) if len(run.telemetry) > 1 else run.telemetry,
        sacks=with_room(run.sacks, n) if len(run.sacks) > 1 else run.sacks,
    )
