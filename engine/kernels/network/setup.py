"""A run before anything has happened, and with larger arrays."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.kernels.carriers.fabric import plain_fabric
from engine.kernels.core.by_type import UNUSED
from engine.kernels.core.none import LONGEST, NONE
from engine.kernels.core.pool import with_more
from engine.kernels.flow.tables import Flows, new_tables, with_slots
from engine.kernels.messages.precedence import may_suspend
from engine.kernels.messages.records import Io
from engine.kernels.messages.tables import Tables, firsts
from engine.kernels.messages.trees import latencies_of
from engine.kernels.network import records
from engine.kernels.network import state as st
from engine.kernels.network.carrying import BY_FLOWS, BY_LINKS, BY_PACKETS
from engine.kernels.packet import Fabric
from engine.kernels.packet.agenda import LEFT, enlarged_agenda, new_agenda
from engine.kernels.packet.inputs import check_fabric
from engine.kernels.phase.phase_time import PhaseTimes, empty_phase_times, time_phases
from engine.lower.program import Ints, Longs, Program, StreamOrder, Structure, Table
from engine.network.graph import Link, Network
from engine.units import PICOSECONDS

_SAME = ("duration", "kind", "stream", "key", "flow", "tally", "service")  # of nodes
_PARCELS = 1024  # to begin with, beside those that one step may take
_BUCKETS = 12  # of the calendar that the longest message takes, as a power of two


class How(NamedTuple):
    """How a program is run: who carries messages, whether what happens is recorded, and, if ranks
    are folded, which links are left."""

    carried: int = BY_LINKS
    record: bool = False
    folded: Longs | None = None


def new_state(program: Program, tables: Tables, network: Network, how: How) -> st.State:
    """Everything at the program's point, before anything has happened.

    Raises :class:`DimsweepError` for a link that leads one way only, if flows carry messages.
    """
    s = program.structure
    n_ranks, n_dims, n_nodes = s.shape.n_classes, s.shape.n_dims, len(s.nodes)
    n_streams, n_ports = n_ranks * s.shape.n_streams, n_ranks * n_dims
    times, n_entries = _times(program), _n_entries(s)
    wires = _new_wires(program, tables, network, times, how)
    return st.State(
        wires=wires,
        plans=tables.plans,
        accounts=_new_accounts(n_ranks, n_dims, s.shape.n_tallies),
        lists=_new_lists(s.nodes, max(n_nodes, n_streams, n_ports)),
        lengths=_new_lengths(s.nodes),
        moving=np.zeros(n_entries, np.int32),
        scratch=np.zeros(max(n_entries, n_nodes), np.int32),
        nodes=_new_nodes(s.nodes, tables.io.members["node"][: 0 if how.carried else None]),
        following=s.following.astype(np.int32),
        streams=_filled(n_streams, records.STREAM, node=NONE, head=NONE),
        flows=tables.flows.copy(),
        parts=_filled(len(s.members), records.PART, rank=s.members["cls"], node=s.members["node"]),
        uses=s.uses["dim"].astype(np.int32),
        phases=_phases(s, times),
        entries=np.zeros(n_entries, records.ENTRY),
        gathered=np.zeros(tables.n_gathered, np.int32),
        strands=_new_strands(tables.n_strands, n_ranks),
        slots=_filled(n_ranks * int(tables.n_slots.sum()), records.SLOT, head=NONE),
        reductions=tables.reductions.copy(),
        launches=_launches(tables, wires.links),
        gates=tables.gates.copy(),
        turns=_filled(tables.n_turns, records.TURN, head=NONE, tail=NONE),
        passed=np.zeros(int(tables.reductions["line"].max(initial=-1)) + 1, np.int32),
        services=s.services.copy(),
        server_uses=s.server_uses.copy(),
        servers=np.zeros(int(s.server_uses["server"].max(initial=-1)) + 1, np.int64),
        accesses=np.zeros(n_nodes if len(s.services) else 0, records.ACCESS),
        io=Io(*(table.copy() for table in tables.io)),
    )


def _times(program: Program) -> PhaseTimes:
    times = empty_phase_times(program.structure)
    time_phases(program.structure, program.bandwidth, program.latency, times)
    return times


def _n_entries(s: Structure) -> int:
    members = s.flows["member_end"] - s.flows["member_start"]
    return int((members * s.forms["chunks"][s.flows["form"]]).sum())


def _new_wires(
    program: Program, tables: Tables, network: Network, times: PhaseTimes, how: How
) -> st.Wires:
    s, model, carried = program.structure, program.communication.network, how.carried
    kept = range(len(network.links)) if how.folded is None else how.folded.tolist()
    wired = [network.links[i] for i in kept]
    links = _new_links(wired, model.buffer, carried=carried)
    need = _need(tables, times, s.forms, model.max_messages, carried=carried)
    burst = s.shape.n_classes * s.shape.n_streams + need + 4
    agenda, n_parcels = _PARCELS + burst, _PARCELS + need
    suspends = _suspends(program, how)
    n_suspendable = n_parcels if suspends else 0
    ring = _new_ring(agenda + burst)
    clock = st.Clock(
        agenda=new_agenda(agenda, _shift(times, links)),
        ring=ring,
        counts=_new_counts(n_parcels, n_suspendable),
        plans=_filled(2 * n_suspendable, records.PLAN, at=NONE)
        if suspends
        else np.zeros(0, UNUSED),
        order=np.zeros(2 * n_suspendable + 1 if suspends else 0, np.int32),
        numbers=np.zeros(len(ring) if suspends else 0, np.int64),
    )
    return st.Wires(
        clock=clock,
        settings=_settings(program, need, burst, how),
        links=links,
        flows=_new_flows(network, tables, n_parcels if carried == BY_FLOWS else 0),
        messages=np.zeros(n_parcels if carried else 0, records.MESSAGE),
        parcels=_pooled(n_parcels, records.PARCEL),
        ports=_new_ports(tables, s.shape.n_classes),
        routes=_routes_at(tables, links, carried=carried),
        hops=tables.hops,
        spans=np.zeros(n_parcels if how.record else 1, records.SPAN),
        crossings=np.zeros(n_suspendable, records.CROSSING if suspends else UNUSED),
        feeds=_pooled(n_suspendable, records.FEED),
        begun=np.full(len(tables.gates) + len(tables.io.gates), NONE, np.int32),
    )


def _suspends(program: Program, how: How) -> bool:
    """Whether messages may have to make way on links."""
    return how.carried == BY_LINKS and may_suspend(program)


def _new_counts(n_parcels: int, n_feeds: int) -> Table:
    return _filled(1, records.COUNTS, settling=1, parcels=(0, n_parcels), feeds=(0, n_feeds))


def _new_lengths(nodes: Table) -> Longs:
    lengths = np.zeros(st.MOVING + 1, np.int64)
    lengths[st.READY] = int((nodes["waits"] == 0).sum())
    return lengths


def _new_lists(nodes: Table, n: int) -> Ints:
    lists = np.zeros((9, n), np.int32)
    lists[st.READY, : len(nodes)] = np.argsort(nodes["waits"] > 0, kind="stable")
    return lists


def _new_accounts(n_ranks: int, n_dims: int, n_tallies: int) -> st.Accounts:
    return st.Accounts(
        np.zeros(n_ranks, records.RANK),
        np.zeros((n_ranks, n_dims + 1), records.RANK_DIM),
        np.zeros((n_ranks, n_tallies), records.RANK_TALLY),
    )


def _settings(program: Program, need: int, burst: int, how: How) -> st.Settings:
    s, model = program.structure, program.communication.network
    return st.Settings(
        packet=float(model.packet_limit),
        window=0 if how.carried else model.window or 0,
        carried=how.carried,
        lanes=how.carried == BY_PACKETS,
        ordered=model.wafer is not None,
        suspends=_suspends(program, how),
        max_messages=model.max_messages,
        record=how.record,
        folded=how.folded is not None,
        need=need,
        burst=burst,
        n_dims=s.shape.n_dims,
        by_key=s.shape.stream_order == StreamOrder.KEY,
        queue=int(s.shape.queue),
        endpoint_delay=int(s.shape.endpoint_delay),
        reduce_time=float(s.shape.reduce_time),
    )


def _new_ports(tables: Tables, n_ranks: int) -> Table:
    n = n_ranks * len(tables.n_slots)
    return _filled(
        n,
        records.PORT,
        place=np.arange(n),
        newest=NONE,
        serving=NONE,
        head=NONE,
        tail=NONE,
        last_message=NONE,
        strands=firsts(tables.n_strands, n_ranks).ravel(),
        slots=firsts(tables.n_slots, n_ranks).ravel(),
        window=(NONE, NONE),
    )


def enlarged(state: st.State) -> st.State:
    """The same run with room for twice as much of what was short."""
    if state.wires.clock.counts["in_last"][0] > 0:
        state = _with_more_lanes(state)
    wires = state.wires
    settings, counts = wires.settings, wires.clock.counts[0]
    if counts["parcels"]["left"] < settings.need:
        wires = _with_more_parcels(wires)
    if settings.suspends and counts["feeds"]["left"] < settings.need:
        wires = wires._replace(feeds=with_more(counts["feeds"], wires.feeds))
    if settings.record and counts["n_spans"] + settings.need > len(wires.spans):
        wires = wires._replace(spans=np.concatenate([wires.spans, np.zeros_like(wires.spans)]))
    if settings.carried and counts["n_messages"] + settings.need > len(wires.messages):
        more = np.zeros(len(wires.messages) + settings.need, records.MESSAGE)
        wires = wires._replace(messages=np.concatenate([wires.messages, more]))
    clock = _with_more_events(wires.clock, settings.burst + int(counts["under_way"]))
    return state._replace(wires=wires._replace(clock=clock))


def _with_more_events(clock: st.Clock, burst: int) -> st.Clock:
    """Room for what a step may plan, later and in this instant, if there is too little."""
    agenda, ring, counts = clock.agenda, clock.ring, clock.counts[0]
    while agenda.counts[LEFT] < burst:
        agenda = enlarged_agenda(agenda, 2 * len(agenda.events))
    planned = int(counts["ring_end"] - counts["ring"])
    if planned + len(agenda.events) + burst <= len(ring):
        return clock._replace(agenda=agenda)
    old = np.arange(counts["ring"], counts["ring_end"]) % len(ring)
    more = _new_ring(planned + len(agenda.events) + burst)
    more[:planned] = ring[old]
    numbers = np.zeros(len(more) if len(clock.numbers) else 0, np.int64)
    if len(numbers):
        numbers[:planned] = clock.numbers[old]
    counts["generation_end"] -= counts["ring"]
    counts["ring"], counts["ring_end"] = 0, planned
    return clock._replace(agenda=agenda, ring=more, numbers=numbers)


def _with_more_parcels(wires: st.Wires) -> st.Wires:
    """Twice as many parcels, and what each of them has."""
    clock, before = wires.clock, len(wires.parcels)
    parcels = with_more(clock.counts[0]["parcels"], wires.parcels)
    if wires.settings.carried == BY_FLOWS:
        return wires._replace(parcels=parcels, flows=with_slots(wires.flows, len(parcels)))
    if not wires.settings.suspends:
        return wires._replace(parcels=parcels)
    more = len(parcels) - before
    plans = np.concatenate([clock.plans, _filled(2 * more, records.PLAN, at=NONE)])
    order = np.append(clock.order, np.zeros(2 * more, np.int32))
    crossings = np.append(wires.crossings, np.zeros(more, records.CROSSING))
    clock = clock._replace(plans=plans, order=order)
    return wires._replace(parcels=parcels, crossings=crossings, clock=clock)


def _with_more_lanes(state: st.State) -> st.State:
    """Twice as many lanes, the new ones idle."""
    ports, strands, slots = state.wires.ports, state.strands, state.slots
    more, more_strands = ports.copy(), strands.copy()
    more["serving"] = NONE
    more["strands"] += len(strands)
    more["slots"] += len(slots)
    more_strands["port"] += len(ports)
    state.wires.clock.counts["in_last"] = 0
    return state._replace(
        wires=state.wires._replace(ports=np.concatenate([ports, more])),
        strands=np.concatenate([strands, more_strands]),
        slots=np.concatenate([slots, _filled(len(slots), records.SLOT, head=NONE)]),
    )


def _need(
    tables: Tables, times: PhaseTimes, forms: Table, max_messages: int, *, carried: int
) -> int:
    """How many parcels one step may take: all messages of a round, each in as many parts as it may
    be, one more for a message from point to point, and one that gives room back."""
    largest = max(
        float(times.phases["n_bytes"].max(initial=0.0)) * max(tables.largest, 1.0),
        float(forms["n_bytes"].max(initial=0.0)),
    )
    parts = 1.0 if carried else max(1.0, math.ceil(2 * largest / tables.room))
    return int(min(tables.n_sends * parts, max_messages + 1)) + _feeds(tables) + 2


def _feeds(tables: Tables) -> int:
    """How many FEEDs a gate may make of what comes to it."""
    return max(
        int((gates["expected"] * (gates["launch_end"] - gates["launch"])).max(initial=0))
        for gates in (tables.gates, tables.io.gates)
    )


def _shift(times: PhaseTimes, links: Table) -> int:
    """How long a bucket of the calendar is, as a power of two."""
    longest = float(times.phases["n_bytes"].max(initial=0.0))
    longest *= float(links["per_byte"].max(initial=0.0))
    return max(0, int(min(longest, LONGEST)).bit_length() - _BUCKETS)


def _new_links(links: Sequence[Link], buffer: float | None, *, carried: int) -> Table:
    sizes = [buffer if link.buffer is None else link.buffer for link in links]
    rooms = [NONE if size is None or carried else max(1, int(size)) for size in sizes]
    return _filled(
        len(links),
        records.LINK,
        per_byte=[PICOSECONDS / link.bandwidth for link in links],
        latency=[link.latency for link in links],
        room=rooms,
        left=rooms,
        holder=NONE,
        before=NONE,
        waits=NONE,
        head=NONE,
    )


def _routes_at(tables: Tables, links: Table, *, carried: int) -> Table:
    """The routes with their latencies at this point; what is carried knows no buffers."""
    routes = tables.routes.copy()
    if carried:
        routes["room"] = NONE
    if carried == BY_PACKETS:  # for which latencies pass on their way
        routes["way"] = 0
        return routes
    if len(routes):
        latencies, starts = links["latency"][tables.hops], routes["start"]
        exact = np.add.reduceat(latencies, starts)
        nearly = np.add.reduceat(latencies.astype(np.float64), starts)
        routes["way"] = np.where(nearly < LONGEST, exact, int(LONGEST))
    return routes


def _new_ring(n: int) -> Ints:
    return np.zeros(1 << (2 * n).bit_length(), np.int32)


def _launches(tables: Tables, links: Table) -> Table:
    """The launches with the latencies of targets at this point."""
    launches, latency = tables.launches.copy(), links["latency"]
    up = latencies_of(tables.ways_up, latency, len(tables.reductions))
    if len(launches):
        down = latency[tables.hops[launches["hop"]]]
        launches["way"] = np.where(launches["target"] >= 0, up[launches["reduction"]] + down, 0)
    return launches


def _new_nodes(nodes: Table, at_edge: Table) -> Table:
    """The program's nodes, before any of them is ready; some access memory ``at_edge``."""
    io = np.full(len(nodes), NONE, np.int32)
    io[at_edge] = np.arange(len(at_edge))
    same = {name: nodes[name] for name in _SAME}
    return _filled(
        len(nodes),
        records.NODE,
        **same,
        io=io,
        rank=nodes["cls"],
        waits=nodes["waits"],
        following=nodes["next_start"],
        following_end=nodes["next_end"],
        start=-1,
        end=-1,
    )


def _phases(s: Structure, times: PhaseTimes) -> Table:
    """What phases are at this point."""
    n_bytes, dims, steps = (times.phases[name] for name in ("n_bytes", "dim", "steps"))
    kinds = s.phase_steps["kind"][np.maximum(steps, 0)] if len(s.phase_steps) else 0
    return _filled(len(times.phases), records.PHASE, n_bytes=n_bytes, dim=dims, kind=kinds)


def _new_strands(each: NDArray[np.int64], n_ranks: int) -> Table:
    counts = np.tile(each, n_ranks)
    numbers = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    ports = np.repeat(np.arange(len(counts)), counts)
    return _filled(len(numbers), records.STRAND, port=ports, number=numbers)


def _new_flows(network: Network, tables: Tables, n_parcels: int) -> Flows:
    """A flow for each parcel, if they are carried by flows.

    Raises :class:`DimsweepError` for a link that leads one way only.
    """
    fabric = plain_fabric(network) if n_parcels else Fabric([], {})
    check_fabric(fabric)
    routes = tables.routes
    longest = int((routes["end"] - routes["start"]).max(initial=0))
    return new_tables(fabric.ports, tables.hops, n_parcels, longest)


def _pooled(n: int, dtype: np.dtype[np.void]) -> Table:
    """A table of ``n`` records, all of them in its pool."""
    return _filled(n, dtype, next=np.append(np.arange(1, n), NONE)[:n])


def _filled(n: int, dtype: np.dtype[np.void], **columns: object) -> Table:
    """``n`` records of zeros but for some columns."""
    records = np.zeros(n, dtype)
    for name, column in columns.items():
        records[name] = column
    return records
