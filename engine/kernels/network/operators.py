"""The operators of every rank: when they become ready, run, and end.

With their time (:mod:`engine.kernels.core.accounts`), their accesses to shared memories, and their
flows: collectives as chunks that go from phase to phase, and messages from point to point.

See :mod:`engine.kernels.reference.operators` and :mod:`engine.kernels.reference.ports`.
"""

from dimsweep.engine.compiler import inlined, kernel
from dimsweep.engine.kernels.core.accounts import (
    BEGINS,
    ENDS,
    begin,
    book,
    change_flight,
    change_port,
    go_on,
    lasts,
    serve,
)
from dimsweep.engine.kernels.core.queues import (
    append,
    insert_in_order,
    put,
    sort_by,
    take_all,
    take_first,
    take_out,
)
from dimsweep.engine.kernels.core.tables import DONE, NONE, QUEUED, RUNNING
from dimsweep.engine.kernels.network.clock import OPERATOR, SERVED, later, now_of, sum_of, touch
from dimsweep.engine.kernels.network.gates import arrive_at_edge
from dimsweep.engine.kernels.network.links import whole_ps
from dimsweep.engine.kernels.network.state import Accounts, State
from dimsweep.engine.lower.program import NO_SERVICE, NodeKind, Table


@inlined
def _book(a: Accounts, rank: int, now: int) -> None:
    """Book the rank's time since its last change, before anything changes."""
    account = a.ranks[rank]
    if account.clock != now:
        book(account, account.computing > 0, now)


@kernel
def book_operator(a: Accounts, nodes: Table, number: int, change: int, now: int) -> None:
    """An operator BEGINS or ENDS to compute, or to be in flight."""
    node = nodes[number]
    account = a.ranks[node.rank]
    _book(a, node.rank, now)
    if node.kind == NodeKind.COMPUTE:
        account.computing += change
    elif node.kind != NodeKind.HOST:
        change_flight(account, a.exposed, node.rank, node.tally, change)


@kernel
def book_phase(a: Accounts, rank: int, dim: int, change: int, now: int) -> None:
    """A rank's port BEGINS or ENDS to serve a phase."""
    port = a.ports[rank, dim]
    if port.serving == (change == ENDS):  # the first one to begin, or the last one to end
        port.busy -= change * now
    port.serving += change
    book_latencies(a, rank, dim, change, now)


@kernel
def book_latencies(a: Accounts, rank: int, dim: int, change: int, now: int) -> None:
    """The last latencies of a flow BEGIN or END to pass from a rank's port."""
    _book(a, rank, now)
    change_port(a.ranks[rank], a.ports[rank, dim], change)


@inlined
def rank_of(st: State, entry: int) -> int:
    """The rank whose entry it is."""
    return st.parts[st.entries[entry].member].rank


@inlined
def phase_of(st: State, entry: int) -> int:
    """The phase that it is in, or queues for, in State.phases."""
    e = st.entries[entry]
    flow = st.flows[e.flow]
    return flow.phase + e.chunk % flow.variants * flow.n_phases + e.phase


@inlined
def is_crossing(st: State, entry: int) -> bool:
    """Whether it is a message from point to point."""
    return st.flows[st.entries[entry].flow].group == NONE


@inlined
def line_of(st: State, entry: int) -> int:
    """The line that runs the phase that it is in; NONE for a message from point to point."""
    group = st.flows[st.entries[entry].flow].group
    if group == NONE:
        return NONE
    return st.plans.places[group, st.phases[phase_of(st, entry)].dim, rank_of(st, entry)].line


@inlined
def entry_at(st: State, entry: int, place: int) -> int:
    """The entry of the same chunk of the rank at a place of Plans.line_ranks."""
    e, rank = st.entries[entry], st.plans.line_ranks[place]
    flow = st.flows[e.flow]
    coordinate = st.plans.places[flow.group, st.wires.settings.n_dims, rank].coordinate
    return entry - (e.member - flow.member_start) + coordinate


@inlined
def port_of(st: State, entry: int) -> int:
    """The port that it queues at, or is served by."""
    return rank_of(st, entry) * st.wires.settings.n_dims + st.phases[phase_of(st, entry)].dim


@kernel
def start_flow(st: State, number: int) -> None:
    """Start a flow, all of whose members have arrived."""
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
        elif enter(st, entry, 0, 0):
            note_through(st, member, 0, 0)


@kernel
def _submit(st: State, entry: int) -> None:
    """Queue a line's phase, or a message, at the end of this instant."""
    put(st.moving, entry)
    touch(st.wires.clock)


@kernel
def enter(st: State, entry: int, number: int, late: int) -> bool:
    """A member, which is ``late``, is ready for its chunk's phase ``number``; whether the chunk is
    through instead."""
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
    """A chunk of a member is through, by its port into ``dim``, and ``late``; whether all are."""
    part, now = st.parts[member], now_of(st.wires.clock)
    part.chunks -= 1
    if now > part.through or (now == part.through and dim > part.dim):
        part.through, part.dim = now, dim
    part.due = max(part.due, sum_of(now, late))
    return part.chunks == 0


@kernel
def settle_operators(st: State) -> None:
    """Ready operators join their streams' queues; idle streams start the first."""
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
    """The ready operator waits for its stream: last, or before those with a higher key."""
    stream = st.streams[st.nodes[number].stream]
    if st.wires.settings.by_key:
        insert_in_order(stream, st.nodes, st.nodes["key"], number)
    else:
        append(stream, st.nodes, number)
    _free(st, st.nodes[number].stream)


@kernel
def _free(st: State, stream: int) -> None:
    """The stream may start something."""
    if st.streams[stream].freed == 0:
        st.streams[stream].freed = 1
        put(st.freed, stream)


@kernel
def _start(st: State, number: int) -> None:
    node, now = st.nodes[number], now_of(st.wires.clock)
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
        later(st.wires.clock, node.duration, OPERATOR, number)
    else:
        _join_flow(st, node.flow)


@kernel
def _join_flow(st: State, number: int) -> None:
    """The last member to arrive starts the flow."""
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
    """An operator has ended; what waited for it may be ready."""
    node, now = st.nodes[number], now_of(st.wires.clock)
    book_operator(st.accounts, st.nodes, number, ENDS, now)
    node.state = DONE
    node.end = st.accounts.ranks[node.rank].end = now
    if node.stream >= 0:
        st.streams[node.stream].node = NONE
        _free(st, node.stream)
    for i in range(node.following, node.following_end):
        following = st.following[i]
        st.nodes[following].waits -= 1
        if st.nodes[following].waits == 0:
            put(st.ready, following)
    touch(st.wires.clock)


@kernel
def end_part(st: State, member: int) -> None:
    """A member has done its part of its flow; a message from point to point is then delivered."""
    number = st.parts[member].node
    receiver = st.flows[st.nodes[number].flow].receiver
    end_operator(st, number)
    if receiver >= 0 and st.nodes[receiver].state == RUNNING:
        end_operator(st, receiver)


@kernel
def _begin_access(st: State, number: int) -> None:
    """Begin a node's access to memory."""
    begin(st.accesses[number], now_of(st.wires.clock))
    st.accesses[number].due = NONE
    put(st.served, number)
    _serve(st, number, 1)


@kernel
def _settle_servers(st: State) -> None:
    """Give every access in flight its share of now."""
    clock, now = st.wires.clock, now_of(st.wires.clock)
    if not clock.counts[0].unsettled:
        return
    clock.counts[0].unsettled = 0
    for i in range(st.served.filled[0]):
        number = st.served.numbers[i]
        access, takes = st.accesses[number], lasts(st.servers, st.nodes[number].service)
        if takes != access.lasts:
            delay = whole_ps(go_on(access, takes, now))
            access.due = now + delay
            later(clock, delay, SERVED, number)


@kernel
def end_service(st: State, number: int) -> None:
    """An access's bytes have moved, unless its share has changed since that was foreseen; it ends
    when its latency has passed."""
    access = st.accesses[number]
    if access.due != now_of(st.wires.clock):
        return
    access.due = NONE
    take_out(st.served, number)
    _serve(st, number, -1)
    latency = st.servers.services[st.nodes[number].service].latency
    if latency > 0:
        later(st.wires.clock, latency, OPERATOR, number)
    else:
        end_operator(st, number)


@kernel
def _serve(st: State, number: int, sign: int) -> None:
    serve(st.servers, st.nodes[number].service, sign)
    st.wires.clock.counts[0].unsettled = 1
    touch(st.wires.clock)
