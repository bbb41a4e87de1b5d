"""Set up the state of a run of the network kernel, and enlarge it when tables are full."""

from typing import Any, NamedTuple

import numpy as np

from dimsweep.engine.cluster.network_model import NetworkModel
from dimsweep.engine.kernels.carriers.carrier import plain_fabric
from dimsweep.engine.kernels.core.accounts import Servers, n_servers
from dimsweep.engine.kernels.core.agenda import enlarge_agenda, new_agenda
from dimsweep.engine.kernels.core.compiling import UNUSED
from dimsweep.engine.kernels.core.queues import double_table, new_free_table, new_worklist
from dimsweep.engine.kernels.core.tables import LONGEST, NONE, grow_table, ragged_positions
from dimsweep.engine.kernels.flow.shares import find_limits
from dimsweep.engine.kernels.flow.tables import Flows, add_slots, new_tables
from dimsweep.engine.kernels.messages.phases import may_suspend
from dimsweep.engine.kernels.messages.records import Io, Plans
from dimsweep.engine.kernels.messages.routes import buffer_rooms, minimum_room, n_parts
from dimsweep.engine.kernels.messages.tables import Tables, first_indices, latencies_of
from dimsweep.engine.kernels.network import state as st
from dimsweep.engine.kernels.network.carrying import BY_FLOWS, BY_LINKS, BY_PACKETS
from dimsweep.engine.kernels.packet.inputs import check_fabric
from dimsweep.engine.kernels.phase.batch import times_of
from dimsweep.engine.kernels.phase.phase_time import PhaseTimes
from dimsweep.engine.lower.program import Ints, Longs, Program, StreamOrder, Structure, Table
from dimsweep.engine.network.graph import Network
from dimsweep.engine.records import new_table
from dimsweep.engine.units import PICOSECONDS

_COPIED = ("duration", "kind", "stream", "key", "flow", "tally", "service")  # of nodes
_PARCELS = 1024  # to begin with, beside those that one step may take
_NO_ROWS = np.zeros(0, UNUSED)  # where messages are never suspended
_BUCKETS = 12  # of the calendar that the longest message takes, as a power of two


class RunOptions(NamedTuple):
    """Options of a run: the carrier, what to record, and the links that a folded program keeps."""

    carried: int = BY_LINKS
    record: bool = False
    folded: Longs | None = None


def new_state(program: Program, tables: Tables, network: Network, how: RunOptions) -> st.State:
    """Return the initial state of a run at the program's point.

    Raises :class:`DimsweepError` for a one-way link if flows carry messages.
    """
    s, flows = program.structure, tables.flows
    n_ranks, n_dims, n_nodes = s.shape.n_classes, s.shape.n_dims, len(s.nodes)
    times, n_entries = times_of(program), int((flows["n_members"] * flows["chunks"]).sum())
    wires = _new_wires(program, tables, network, times, how)
    strand_ports, strand_numbers = ragged_positions(np.tile(tables.n_strands, n_ranks))
    return st.State(
        wires=wires,
        plans=tables.plans,
        accounts=st.Accounts(
            np.zeros(n_ranks, st.RANK),
            np.zeros((n_ranks, n_dims), st.RANK_PORT),
            np.zeros((n_ranks, s.shape.n_tallies)),
        ),
        **_new_worklists(s, n_entries),
        scratch=np.zeros(max(n_entries, n_nodes), np.int64),
        nodes=_new_nodes(s.nodes, tables.io.members["node"][: 0 if how.carried else None]),
        following=s.following.astype(np.int32),
        streams=new_table(n_ranks * s.shape.n_streams, st.STREAM, node=NONE, head=NONE),
        flows=flows.copy(),
        parts=new_table(len(s.members), st.PART, rank=s.members["cls"], node=s.members["node"]),
        uses=s.uses["dim"].astype(np.int32),
        phases=_phases(s, times),
        entries=np.zeros(n_entries, st.ENTRY),
        gathered=np.zeros(tables.n_gathered, np.int32),
        strands=new_table(len(strand_ports), st.STRAND, port=strand_ports, number=strand_numbers),
        slots=new_table(n_ranks * int(tables.n_slots.sum()), st.SLOT, head=NONE),
        reductions=tables.reductions.copy(),
        launches=_launches(tables, wires.links),
        gates=tables.gates.copy(),
        turns=new_table(tables.n_turns, st.TURN, head=NONE, tail=NONE),
        passed=np.zeros(int(tables.reductions["line"].max(initial=-1)) + 1, np.int32),
        line_ports=_line_ports(tables.plans, n_dims),
        servers=Servers(s.services, s.server_uses, np.zeros(n_servers(s), np.int64)),
        accesses=np.zeros(n_nodes if len(s.services) else 0, st.NODE_ACCESS),
        io=Io(*(table.copy() for table in tables.io)),
    )


def _new_wires(
    program: Program, tables: Tables, network: Network, times: PhaseTimes, how: RunOptions
) -> st.Wires:
    s, model, carried = program.structure, program.communication.network, how.carried
    links = _new_links(network, model, how)
    settings = _settings(program, _parcels_per_step(tables, times, s, model, how), how)
    n_parcels = _PARCELS + settings.need
    n_suspendable = n_parcels if settings.suspends else 0
    routes = _routes_at(tables, links, carried=carried)
    flows = _new_flows(network, tables, n_parcels if carried == BY_FLOWS else 0, routes)
    agenda = _PARCELS + settings.burst
    ring = new_ring(agenda + settings.burst)
    plans = new_table(2 * n_suspendable, st.PLAN, at=NONE) if n_suspendable else _NO_ROWS
    clock = st.Clock(
        agenda=new_agenda(agenda, _bucket_shift(times, links)),
        ring=ring,
        counts=new_table(
            1, st.COUNTS, settling=1, parcels=(0, n_parcels), feeds=(0, n_suspendable)
        ),
        plans=plans,
        order=np.zeros(2 * n_suspendable + settings.suspends, np.int32),
        numbers=np.zeros(len(ring) * settings.suspends, np.int64),
    )
    return st.Wires(
        clock=clock,
        settings=settings,
        links=links,
        flows=flows,
        messages=np.zeros(n_parcels if carried else 0, st.MESSAGE),
        parcels=new_free_table(n_parcels, st.PARCEL),
        ports=_new_ports(tables, s.shape.n_classes),
        routes=routes,
        hops=flows.routes,
        spans=np.zeros(n_parcels if how.record else 1, st.SPAN),
        crossings=np.zeros(n_suspendable, st.SUSPENDABLE) if n_suspendable else _NO_ROWS,
        feeds=new_free_table(n_suspendable, st.FEED),
        begun=np.full(len(tables.gates), NONE, np.int32),
    )


def _new_worklists(s: Structure, n_entries: int) -> dict[str, Any]:
    """Return the worklists of an instant; nodes without predecessors are in the ready list."""
    n_ranks, n_nodes = s.shape.n_classes, len(s.nodes)
    n_ports = n_ranks * s.shape.n_dims
    rooms = {
        **dict.fromkeys(("ready", "starting", "served"), n_nodes),
        **dict.fromkeys(("touched", "passing", "sending", "beginning"), n_ports),
        "freed": n_ranks * s.shape.n_streams,
        "moving": n_entries,
    }
    found = {name: new_worklist(room) for name, room in rooms.items()}
    ready = np.flatnonzero(s.nodes["waits"] == 0)
    found["ready"].numbers[: len(ready)], found["ready"].filled[:] = ready, len(ready)
    return found


def _line_ports(plans: Plans, n_dims: int) -> Ints:
    """Return, for each rank in ``line_ranks``, its port into the line's dimension."""
    dims = np.zeros(len(plans.lines), np.int32)
    _, dim, _ = np.nonzero(plans.places["line"] != NONE)
    dims[plans.places["line"][plans.places["line"] != NONE]] = dim
    return plans.line_ranks * n_dims + np.repeat(dims, plans.lines["size"])


def _settings(program: Program, need: int, how: RunOptions) -> st.Settings:
    s, model = program.structure, program.communication.network
    return st.Settings(
        packet=float(model.packet_limit),
        window=0 if how.carried else model.window or 0,
        carried=how.carried,
        lanes=how.carried == BY_PACKETS or program.communication.shares_ports,
        shares=program.communication.shares_ports,
        ordered=model.interconnect is not None,
        suspends=how.carried == BY_LINKS and may_suspend(program),
        max_messages=model.max_messages,
        record=how.record,
        folded=how.folded is not None,
        need=need,
        burst=s.shape.n_classes * s.shape.n_streams + need + 4,
        n_dims=s.shape.n_dims,
        by_key=s.shape.stream_order == StreamOrder.KEY,
        queue=int(s.shape.queue),
        endpoint_delay=int(s.shape.endpoint_delay),
        reduce_time=float(s.shape.reduce_time),
    )


def _new_ports(tables: Tables, n_ranks: int) -> Table:
    n = n_ranks * len(tables.n_slots)
    return new_table(
        n,
        st.PORT,
        place=np.arange(n),
        newest=NONE,
        serving=NONE,
        head=NONE,
        tail=NONE,
        last_message=NONE,
        strands=first_indices(tables.n_strands, n_ranks).ravel(),
        slots=first_indices(tables.n_slots, n_ranks).ravel(),
        window=(NONE, NONE),
    )


def _parcels_per_step(
    tables: Tables, times: PhaseTimes, s: Structure, model: NetworkModel, how: RunOptions
) -> int:
    """Return the maximum number of parcels that one step (event) may need.

    These are all messages of a round, each in its number of parts, one for a point-to-point
    message, and one that returns buffer room.
    """
    largest = max(
        float(times.phases["n_bytes"].max(initial=0.0)) * max(tables.largest, 1.0),
        float(s.forms["n_bytes"].max(initial=0.0)),
    )
    parts = 1 if how.carried else n_parts(largest, minimum_room(tables.routes["room"].tolist()))
    gates = tables.gates
    feeds = gates["expected"] * (gates["launch_end"] - gates["launch"])  # of what comes to a gate
    return min(tables.n_sends * parts, model.max_messages + 1) + int(feeds.max(initial=0)) + 2


def _bucket_shift(times: PhaseTimes, links: Table) -> int:
    """Return the base-2 logarithm of a calendar bucket's width (ps), from the longest transfer."""
    longest = float(times.phases["n_bytes"].max(initial=0.0))
    longest *= float(links["per_byte"].max(initial=0.0))
    return max(0, int(min(longest, LONGEST)).bit_length() - _BUCKETS)


def _new_links(network: Network, model: NetworkModel, how: RunOptions) -> Table:
    """Return the table of links (kept ones, if folded); carried messages need no buffers."""
    kept = range(len(network.links)) if how.folded is None else how.folded.tolist()
    all_rooms, links = buffer_rooms(network, model), [network.links[i] for i in kept]
    rooms = [NONE if how.carried else all_rooms[i] for i in kept]
    return new_table(
        len(links),
        st.LINK,
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
    """Return the routes with their latencies at this point of bandwidth and latency."""
    routes = tables.routes.copy()
    if carried:
        routes["room"] = NONE
    if carried == BY_PACKETS:  # for which latencies pass on their way
        routes["way"] = 0
        return routes
    if len(routes):
        latencies, starts = links["latency"][tables.hops], routes["start"]
        if len(tables.shares):  # in the mean over a message's ways
            latencies = latencies * tables.shares
            sums = np.minimum(np.rint(np.add.reduceat(latencies, starts)), float(LONGEST))
            routes["way"] = sums.astype(np.int64)
            return routes
        exact = np.add.reduceat(latencies, starts)
        nearly = np.add.reduceat(latencies.astype(np.float64), starts)
        routes["way"] = np.where(nearly < LONGEST, exact, int(LONGEST))
    return routes


def new_ring(n: int) -> Ints:
    """Return a ring buffer with room for 2 ``n`` events of one instant."""
    return np.zeros(1 << (2 * n).bit_length(), np.int32)


def _launches(tables: Tables, links: Table) -> Table:
    """Return the launches with the latencies to their targets at this point."""
    launches, latency = tables.launches.copy(), links["latency"]
    up = latencies_of(tables.ways_up, latency, len(tables.reductions))
    ends = np.flatnonzero((launches["reduction"] != NONE) & (launches["target"] != NONE))
    down = latency[tables.hops[launches["hop"][ends]]]
    launches["way"][ends] = up[launches["reduction"][ends]] + down
    return launches


def _new_nodes(nodes: Table, at_edge: Table) -> Table:
    """Return the table of nodes; those ``at_edge`` access memory at an interconnect's edge."""
    io = np.full(len(nodes), NONE, np.int32)
    io[at_edge] = np.arange(len(at_edge))
    same = {name: nodes[name] for name in _COPIED}
    return new_table(
        len(nodes),
        st.NODE,
        **same,
        io=io,
        order=nodes["key"].astype(np.int64) << 32 | np.arange(len(nodes)),
        rank=nodes["cls"],
        waits=nodes["waits"],
        following=nodes["next_start"],
        following_end=nodes["next_end"],
        start=-1,
        end=-1,
    )


def _phases(s: Structure, times: PhaseTimes) -> Table:
    """Return the table of phases, with their bytes, at this point."""
    own = {name: times.phases[name] for name in ("n_bytes", "size", "dim")}
    steps = np.maximum(times.phases["steps"], 0)
    kinds = s.phase_steps["kind"][steps] if len(s.phase_steps) else 0
    return new_table(len(times.phases), st.PHASE, kind=kinds, **own)


def _new_flows(network: Network, tables: Tables, n_parcels: int, routes: Table) -> Flows:
    """Return a flow for each parcel if flows carry them, and mark limiting links in ``routes``.

    Raises :class:`DimsweepError` for a one-way link.
    """
    if not n_parcels:
        return new_tables([], tables.hops, tables.shares)
    fabric = plain_fabric(network)
    check_fabric(fabric)
    starts, ends = (routes[name].astype(np.int64) for name in ("start", "end"))
    capacity = np.array([port.rate for port in fabric.ports], np.float64)
    limits = find_limits(starts, ends, tables.hops, tables.shares, capacity)
    routes["limits"] = limits.ends
    longest = int((limits.ends - starts).max(initial=0))
    return new_tables(fabric.ports, limits.hops, limits.shares, n_parcels, longest)


def enlarge_state(state: st.State) -> st.State:
    """Return the state with twice the room in each table that is full."""
    if state.wires.clock.counts["in_last"][0] > 0:
        state = _add_lanes(state)
    wires = state.wires
    settings, counts = wires.settings, wires.clock.counts[0]
    if counts["parcels"]["left"] < settings.need:
        wires = _add_parcels(wires)
    if settings.suspends and counts["feeds"]["left"] < settings.need:
        wires = wires._replace(feeds=double_table(counts["feeds"], wires.feeds))
    if settings.record:
        wires = wires._replace(spans=grow_table(wires.spans, counts["n_spans"] + settings.need))
    if settings.carried:
        messages = grow_table(wires.messages, counts["n_messages"] + settings.need)
        wires = wires._replace(messages=messages)
    clock = _add_events(wires.clock, settings.burst + int(counts["under_way"]))
    return state._replace(wires=wires._replace(clock=clock))


def _add_events(clock: st.Clock, burst: int) -> st.Clock:
    """Return the clock with room for the events that one step may plan."""
    agenda, ring, counts = clock.agenda, clock.ring, clock.counts[0]
    while agenda.counts["free"]["left"][0] < burst:
        agenda = enlarge_agenda(agenda)
    planned = int(counts["ring_end"] - counts["ring"])
    if planned + len(agenda.events) + burst <= len(ring):
        return clock._replace(agenda=agenda)
    old = np.arange(counts["ring"], counts["ring_end"]) % len(ring)
    more = new_ring(planned + len(agenda.events) + burst)
    more[:planned] = ring[old]
    numbers = clock.numbers
    if len(numbers):
        numbers = np.zeros(len(more), np.int64)
        numbers[:planned] = clock.numbers[old]
    counts["generation_end"] -= counts["ring"]
    counts["ring"], counts["ring_end"] = 0, planned
    return clock._replace(agenda=agenda, ring=more, numbers=numbers)


def _add_parcels(wires: st.Wires) -> st.Wires:
    """Return the wires with twice as many parcels."""
    clock, before = wires.clock, len(wires.parcels)
    parcels = double_table(clock.counts[0]["parcels"], wires.parcels)
    if wires.settings.carried == BY_FLOWS:
        return wires._replace(parcels=parcels, flows=add_slots(wires.flows, len(parcels)))
    if not wires.settings.suspends:
        return wires._replace(parcels=parcels)
    more = len(parcels) - before
    plans = np.concatenate([clock.plans, new_table(2 * more, st.PLAN, at=NONE)])
    order = np.append(clock.order, np.zeros(2 * more, np.int32))
    crossings = np.append(wires.crossings, np.zeros(more, st.SUSPENDABLE))
    clock = clock._replace(plans=plans, order=order)
    return wires._replace(parcels=parcels, crossings=crossings, clock=clock)


def _add_lanes(state: st.State) -> st.State:
    """Return the state with twice as many lanes of ports; the new ones are idle."""
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
        slots=np.concatenate([slots, new_table(len(slots), st.SLOT, head=NONE)]),
    )
