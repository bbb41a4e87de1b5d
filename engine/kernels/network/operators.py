"""The operators (nodes) of every rank: when they become ready, run, and end.

The module also keeps their time accounts (:mod:`engine.kernels.core.accounts`), their accesses to
shared memories, and their flows: collectives as chunks that pass from phase to phase, and
point-to-point messages.

See :mod:`engine.kernels.reference.operators` and :mod:`engine.kernels.reference.ports`.
"""

from dimsweep.engine.compiler import inlined, kernel
from dimsweep.engine.kernels.core.accounts import (
    BEGINS,
    ENDS,
    access_time,
    begin_access,
    book,
    change_flight,
    change_port,
    continue_access,
    serve,
)
from dimsweep.engine.kernels.core.queues import (
    append,
    insert_in_order,
    put,
    remove,
    sort_by,
    take_all,
    take_first,
)
from dimsweep.engine.kernels.core.tables import DONE, NONE, QUEUED, RUNNING
from dimsweep.engine.kernels.network.clock import (
    OPERATOR,
    SERVED,
    add_times,
    current_time,
    plan_later,
    request_settling,
)
from dimsweep.engine.kernels.network.gates import arrive_at_edge
from dimsweep.engine.kernels.network.links import round_ps
from dimsweep.engine.kernels.network.state import Accounts, State
from dimsweep.engine.lower.program import NO_SERVICE, NodeKind, Table


@inlined
def _book_rank(a: Accounts, rank: int, now: int) -> None:
    """Add the time since a rank's last change to its account; call before each change."""
    account = a.ranks[rank]
    if account.clock != now:
        book(account, account.computing > 0, now)


@kernel
def book_operator(a: Accounts, nodes: Table, number: int, change: int, now: int) -> None:
    """Record that a node begins or ends (``change``) to compute, or to be in flight."""
    node = nodes[number]
    account = a.ranks[node.rank]
    _book_rank(a, node.rank, now)
    if node.kind == NodeKind.COMPUTE:
        account.computing += change
    elif node.kind != NodeKind.HOST:
        change_flight(account, a.exposed, node.rank, node.tally, change)


@kernel
def book_phase(a: Accounts, rank: int, dim: int, change: int, now: int) -> None:
    """Record that a rank's port into ``dim`` begins or ends (``change``) to serve a phase."""
    port = a.ports[rank, dim]
    if port.serving == (change == ENDS):  # the first one to begin, or the last one to end
        port.busy -= change * now
    port.serving += change
    book_latencies(a, rank, dim, change, now)


@kernel
def book_latencies(a: Accounts, rank: int, dim: int, change: int, now: int) -> None:
    """Record that a flow's last latencies begin or end (``change``) at a rank's port."""
    _book_rank(a, rank, now)
    change_port(a.ranks[rank], a.ports[rank, dim], change)


@inlined
def rank_of(st: State, entry: int) -> int:
    """Return the rank of an entry (one member's part of a chunk, or a message)."""
    return st.parts[st.entries[entry].member].rank


@inlined
def phase_of(st: State, entry: int) -> int:
    """Return the index in ``State.phases`` of an entry's present phase."""
    e = st.entries[entry]
    flow = st.flows[e.flow]
    return flow.phase + e.chunk % flow.variants * flow.n_phases + e.phase


@inlined
def is_crossing(st: State, entry: int) -> bool:
    """Return whether an entry is a point-to-point message."""
    return st.flows[st.entries[entry].flow].group == NONE


@inlined
def line_of(st: State, entry: int) -> int:
    """Return the line that runs an entry's phase; NONE for a point-to-point message."""
    group = st.flows[st.entries[entry].flow].group
    if group == NONE:
        return NONE
    return st.plans.places[group, st.phases[phase_of(st, entry)].dim, rank_of(st, entry)].line


@inlined
def entry_at(st: State, entry: int, place: int) -> int:
    """Return the same chunk's entry for the rank ``Plans.line_ranks[place]``."""
    e, rank = st.entries[entry], st.plans.line_ranks[place]
    flow = st.flows[e.flow]
    coordinate = st.plans.places[flow.group, st.wires.settings.n_dims, rank].coordinate
    return entry - (e.member - flow.member_start) + coordinate


@inlined
def port_of(st: State, entry: int) -> int:
    """Return the port at which an entry's present phase runs."""
    return rank_of(st, entry) * st.wires.settings.n_dims + st.phases[phase_of(st, entry)].dim


@kernel
def start_flow(st: State, number: int) -> None:
    """Start a flow, all of whose members have arrived: queue its chunks or its message."""
    flow = st.flows[number]
    for member in range(flow.member_start, flow.member_end):
        part = st.parts[member]
        part.chunks, part.through, part.dim, part.due = flow.chunks, 0, 0, 0
    for place in range(flow.chunks * flow.n_members):
        entry, chunk = flow.entry_start + place, place // flow.n_members
        e, member = st.entries[entry], flow.member_start + place % flow.n_members
        e.flow, e.chunk, e.member, e.order = number, chunk, member, flow.key << 32 | chunk
        if flow.group == NONE:
            e.phase = e.late = 0
            _submit(st, entry)
        elif enter_phase(st, entry, 0, 0):
            note_through(st, member, 0, 0)


@kernel
def _submit(st: State, entry: int) -> None:
    """Queue a phase of a line, or a message, at its ports at the end of this instant."""
    put(st.moving, entry)
    request_settling(st.wires.clock)


@kernel
def enter_phase(st: State, entry: int, number: int, late: int) -> bool:
    """Register a member, ``late`` by some ps, for phase ``number`` of its chunk.

    Return True if the chunk has no such phase, because it is complete.
    """
    e = st.entries[entry]
    e.phase, e.late = number, late
    flow = st.flows[e.flow]
    if number == flow.n_phases or st.phases[phase_of(st, entry)].dim < 0:
        return True
    line = st.plans.lines[line_of(st, entry)]
    first = entry_at(st, entry, line.start)
    place = first - flow.entry_start - e.chunk * flow.n_members
    gathered = flow.gather + (e.chunk * flow.n_phases + number) * flow.n_members + place
    st.gathered[gathered] += 1
    if st.gathered[gathered] == line.size:
        _submit(st, first)
    return False


@kernel
def note_through(st: State, member: int, dim: int, late: int) -> bool:
    """Count a member's chunk that has left its last port; return whether all chunks have."""
    part, now = st.parts[member], current_time(st.wires.clock)
    part.chunks -= 1
    if now > part.through or (now == part.through and dim > part.dim):
        part.through, part.dim = now, dim
    part.due = max(part.due, add_times(now, late))
    return part.chunks == 0


@kernel
def settle_operators(st: State) -> None:
    """Queue the nodes that became ready on their streams, and start idle streams."""
    sort_by(st.ready, st.nodes["order"], st.scratch)
    for i in range(take_all(st.ready)):
        number = st.ready.numbers[i]
        st.nodes[number].state = QUEUED
        if st.nodes[number].kind == NodeKind.RECEIVE:
            put(st.starting, number)
        else:
            _queue(st, number)
    for i in range(take_all(st.freed)):
        stream = st.streams[st.freed.numbers[i]]
        stream.freed = 0
        if stream.node == NONE and stream.head != NONE:
            stream.node = take_first(stream, st.nodes)
            put(st.starting, stream.node)
    for i in range(take_all(st.starting)):
        _start(st, st.starting.numbers[i])
    _settle_servers(st)


@kernel
def _queue(st: State, number: int) -> None:
    """Queue a ready node on its stream: last, or before nodes with a higher key."""
    stream = st.streams[st.nodes[number].stream]
    if st.wires.settings.by_key:
        insert_in_order(stream, st.nodes, st.nodes["key"], number)
    else:
        append(stream, st.nodes, number)
    _touch_stream(st, st.nodes[number].stream)


@kernel
def _touch_stream(st: State, stream: int) -> None:
    """Mark a stream that may start a node at the end of this instant."""
    if st.streams[stream].freed == 0:
        st.streams[stream].freed = 1
        put(st.freed, stream)


@kernel
def _start(st: State, number: int) -> None:
    node, now = st.nodes[number], current_time(st.wires.clock)
    node.state, node.start = RUNNING, now
    book_operator(st.accounts, st.nodes, number, BEGINS, now)
    if node.io != NONE:
        arrive_at_edge(st, node.io)
    elif node.kind == NodeKind.ACCESS and node.service != NO_SERVICE:
        _begin_access(st, number)
    elif node.kind == NodeKind.RECEIVE:
        if st.nodes[st.parts[st.flows[node.flow].member_start].node].state == DONE:
            end_operator(st, number)
    elif node.flow == NONE:
        plan_later(st.wires.clock, node.duration, OPERATOR, number)
    else:
        _join_flow(st, node.flow)


@kernel
def _join_flow(st: State, number: int) -> None:
    """Count an arrived member of a flow; the last one starts the flow."""
    flow = st.flows[number]
    flow.arrived += 1
    if flow.arrived < flow.n_members:
        return
    start_flow(st, number)
    for member in range(flow.member_start, flow.member_end):
        if st.parts[member].chunks == 0:  # nothing moves, all chunks are through at once
            end_operator(st, st.parts[member].node)


@kernel
def end_operator(st: State, number: int) -> None:
    """End a node: free its stream and make its successors ready."""
    node, now = st.nodes[number], current_time(st.wires.clock)
    book_operator(st.accounts, st.nodes, number, ENDS, now)
    node.state = DONE
    node.end = st.accounts.ranks[node.rank].end = now
    if node.stream >= 0:
        st.streams[node.stream].node = NONE
        _touch_stream(st, node.stream)
    for i in range(node.following, node.following_end):
        following = st.following[i]
        st.nodes[following].waits -= 1
        if st.nodes[following].waits == 0:
            put(st.ready, following)
    request_settling(st.wires.clock)


@kernel
def end_part(st: State, member: int) -> None:
    """End a member's part in its flow; for a point-to-point message, end the receiver, too."""
    number = st.parts[member].node
    receiver = st.flows[st.nodes[number].flow].receiver
    end_operator(st, number)
    if receiver >= 0 and st.nodes[receiver].state == RUNNING:
        end_operator(st, receiver)


@kernel
def _begin_access(st: State, number: int) -> None:
    """Begin a node's access to memory."""
    begin_access(st.accesses[number], current_time(st.wires.clock))
    st.accesses[number].due = NONE
    put(st.served, number)
    _serve(st, number, 1)


@kernel
def _settle_servers(st: State) -> None:
    """Recompute the server share of every memory access in flight, and replan its end."""
    clock, now = st.wires.clock, current_time(st.wires.clock)
    if not clock.counts[0].unsettled:
        return
    clock.counts[0].unsettled = 0
    for i in range(st.served.filled[0]):
        number = st.served.numbers[i]
        access, takes = st.accesses[number], access_time(st.servers, st.nodes[number].service)
        if takes != access.duration:
            delay = round_ps(continue_access(access, takes, now))
            access.due = now + delay
            plan_later(clock, delay, SERVED, number)


@kernel
def end_service(st: State, number: int) -> None:
    """End the transfer of an access, unless its share has changed since this was planned.

    The access ends when its latency has passed.
    """
    access = st.accesses[number]
    if access.due != current_time(st.wires.clock):
        return
    access.due = NONE
    remove(st.served, number)
    _serve(st, number, -1)
    latency = st.servers.services[st.nodes[number].service].latency
    if latency > 0:
        plan_later(st.wires.clock, latency, OPERATOR, number)
    else:
        end_operator(st, number)


@kernel
def _serve(st: State, number: int, sign: int) -> None:
    serve(st.servers, st.nodes[number].service, sign)
    st.wires.clock.counts[0].unsettled = 1
    request_settling(st.wires.clock)
