"""The operators of every rank: when they become ready, run, and end; and their accesses to memories
whose servers ranks share (:mod:`engine.kernels.core.servers`).

See :mod:`engine.kernels.reference.operators`.
"""

from dimsweep.engine.compiler import kernel
from dimsweep.engine.kernels.core.accounts import BEGINS, ENDS
from dimsweep.engine.kernels.core.none import DONE, NONE, QUEUED, RUNNING
from dimsweep.engine.kernels.core.queue import append, insert_in_order, take_first
from dimsweep.engine.kernels.core.servers import begin, go_on, lasts, serve
from dimsweep.engine.kernels.core.worklist import put, sort_by, take_all, take_out
from dimsweep.engine.kernels.network.accounts import book_operator
from dimsweep.engine.kernels.network.clock import later, now_of, touch
from dimsweep.engine.kernels.network.events import OPERATOR, SERVED
from dimsweep.engine.kernels.network.flows import start_flow
from dimsweep.engine.kernels.network.gates import arrive_at_edge
from dimsweep.engine.kernels.network.parcels import whole_ps
from dimsweep.engine.kernels.network.state import State
from dimsweep.engine.lower.program import NO_SERVICE, NodeKind


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
