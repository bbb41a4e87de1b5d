"""Inputs as the tables of a run, and larger tables when a run has filled them."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from engine.kernels.packet.agenda import LEFT, enlarged_agenda, new_agenda
from engine.kernels.packet.inputs import Fabric, Flow, shared_buffer, ways_of
from engine.kernels.packet.settings import Settings, Transport
from engine.kernels.packet.state import (
    DRAWN,
    FLOW,
    FREE_LEFT,
    FREE_PACKET,
    HOP,
    HOPS,
    N_PAUSINGS,
    N_SAMPLES,
    NONE,
    PACKET,
    PAUSING,
    PORT,
    SAMPLE,
    SWITCH,
    WAY,
    Run,
)
from engine.lower.program import Floats, Longs, Table

_ANY = 1 << 62  # bytes
_LEAST_PACKETS, _MOST_PACKETS = 1 << 8, 1 << 16  # at first
_FIRST_DRAWS = 1 << 12
_FIRST_NOTES = 1 << 8
_ROOM = 128  # below which a table is enlarged

Draws = Callable[[int], Floats]  # the first n random numbers of a run


def new_run(fabric: Fabric, flows: Sequence[Flow], settings: Settings, draws: Draws) -> Run:
    """Tables before anything has happened; the inputs are checked."""
    numbers = {(port.node, port.to): i for i, port in enumerate(fabric.ports)}
    ways: list[tuple[int, int]] = []
    routes: list[int] = []
    ports, table = _ports(fabric, numbers), np.zeros(len(flows), FLOW)
    for record, flow in zip(table, flows, strict=True):
        _fill_flow(record, flow, ports, numbers, ways, routes, settings)
    senders = np.bincount(table["port"], minlength=len(ports))
    ports["first_pair"] = np.cumsum(senders) - senders
    followers, follow_from = _followers(flows)
    carries = settings.transport == Transport.HPCC
    n_packets = _packets_under_way(flows, settings.payload)
    return Run(
        settings,
        new_agenda(2 * n_packets + 2 * len(flows), _shift(settings.ticks)),
        ports,
        _switches(fabric, settings),
        table,
        _free_packets(n_packets),
        np.zeros((n_packets if carries else 1, HOPS), HOP),
        np.zeros((len(flows) if carries else 1, HOPS), HOP),
        np.array(ways, WAY),
        np.array(routes, np.int64),
        np.zeros(len(flows), np.int64),
        followers,
        follow_from,
        np.zeros(_FIRST_NOTES, SAMPLE),
        np.zeros(_FIRST_NOTES, PAUSING),
        draws(_FIRST_DRAWS),
        np.array([0, n_packets, 0, 0, 0, 0], np.int64),
    )


def enlarged(run: Run, draws: Draws) -> Run:
    """The same run with twice the room wherever it has filled a table."""
    if run.counts[FREE_LEFT] < _ROOM:
        run = _with_packets(run, 2 * len(run.packets))
    if run.agenda.counts[LEFT] < _ROOM + len(run.flows):
        run = run._replace(agenda=enlarged_agenda(run.agenda, 2 * len(run.agenda.events)))
    if run.counts[DRAWN] + _ROOM > len(run.draws):
        run = run._replace(draws=draws(2 * len(run.draws)))
    if run.counts[N_SAMPLES] + _ROOM > len(run.samples):
        run = run._replace(samples=_twice(run.samples))
    if run.counts[N_PAUSINGS] + _ROOM > len(run.pausings):
        run = run._replace(pausings=_twice(run.pausings))
    return run


def _twice(table: Table) -> Table:
    return np.concatenate([table, np.zeros_like(table)])


def _packets_under_way(flows: Sequence[Flow], payload: int) -> int:
    """How many packets windows allow, within limits; the tables grow if pause frames need more."""
    bytes_allowed = sum(min(flow.size, flow.window or flow.size) + payload for flow in flows)
    return min(max(bytes_allowed // payload, _LEAST_PACKETS), _MOST_PACKETS)


def _shift(ticks: int) -> int:
    """Buckets of the agenda of about a nanosecond."""
    return max(ticks // 10**9, 1).bit_length() - 1


def _ports(fabric: Fabric, numbers: dict[tuple[int, int], int]) -> Table:
    order = {switch: i for i, switch in enumerate(fabric.buffers)}
    table = np.zeros(len(fabric.ports), PORT)
    for name in ("head", "tail", "frames", "frames_tail", "number", "wake_number", "first_pause"):
        table[name] = NONE
    for record, port in zip(table, fabric.ports, strict=True):
        record["rate"], record["delay"] = port.rate, port.delay
        record["back"] = numbers[port.to, port.node]
        record["switch"] = order.get(port.node, NONE)
        record["headroom"], record["shift"] = port.headroom, port.shift
        record["mark_from"] = record["mark_all"] = _ANY
        if port.marking:
            record["mark_from"], record["mark_all"], record["mark_most"] = port.marking
    return table


def _switches(fabric: Fabric, settings: Settings) -> Table:
    table = np.zeros(len(fabric.buffers), SWITCH)
    table["shared"] = [shared_buffer(fabric, s, settings.reserve) for s in fabric.buffers]
    return table


def _fill_flow(
    record: np.void,
    flow: Flow,
    ports: Table,
    numbers: dict[tuple[int, int], int],
    ways: list[tuple[int, int]],
    routes: list[int],
    settings: Settings,
) -> None:
    record["size"], record["after"], record["waits"] = flow.size, flow.start, len(flow.after)
    record["ways"], record["n_ways"] = len(ways), 1 + len(flow.sprayed)
    for pair in ways_of(flow):
        ways.append((len(routes), len(routes) + len(pair[0]) - 1))
        routes += [numbers[hop] for way in pair for hop in pairwise(way)]
    record["port"] = numbers[flow.way[0], flow.way[1]]
    record["host"] = numbers[flow.way_back[0], flow.way_back[1]]
    rate = ports["rate"][record["port"]]
    record["line_rate"] = record["rate"] = record["target"] = rate
    record["window"], record["allowed"] = flow.window or 0, flow.window or _ANY
    record["round_trip"] = flow.round_trip
    record["start"] = record["end"] = NONE
    # Full path and full share of marks are what HPCC and DCTCP assume before they know.
    record["a"] = settings.transport in (Transport.HPCC, Transport.DCTCP)


def _followers(flows: Sequence[Flow]) -> tuple[Longs, Longs]:
    """The flows that wait for each flow, one after another, and where each one's begin."""
    lists: list[list[int]] = [[] for _ in flows]
    for i, flow in enumerate(flows):
        for other in flow.after:
            lists[other].append(i)
    starts = np.cumsum([0, *map(len, lists)])
    return np.array([i for some in lists for i in some], np.int64), starts


def _free_packets(n: int, first: int = 0) -> Table:
    table = np.zeros(n, PACKET)
    table["next"] = np.arange(first + 1, first + n + 1)
    table["next"][-1] = NONE
    return table


def _with_packets(run: Run, n: int) -> Run:
    old = len(run.packets)
    more = _free_packets(n - old, old)
    more["next"][-1] = run.counts[FREE_PACKET]
    run.counts[FREE_PACKET] = old
    run.counts[FREE_LEFT] += n - old
    telemetry = run.telemetry
    if len(telemetry) > 1:
        telemetry = np.concatenate([telemetry, np.zeros((n - old, HOPS), HOP)])
    return run._replace(packets=np.concatenate([run.packets, more]), telemetry=telemetry)
