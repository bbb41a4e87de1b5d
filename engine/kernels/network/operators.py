"""The operators of every rank: when they become ready, run, and end.

See :mod:`engine.kernels.reference.operators`.
"""

from engine.compiler import kernel
from engine.kernels.core.none import NONE
from engine.kernels.core.queue import append, insert, take_first
from engine.kernels.network.accounts import book
from engine.kernels.network.clock import later, now_of, touch
from engine.kernels.network.edge_io import arrive_at_edge
from engine.kernels.network.entries import put
from engine.kernels.network.events import OPERATOR
from engine.kernels.network.flows import start_flow
from engine.kernels.network.servers import begin_access, settle_servers
from engine.kernels.network.sorting import sort_nodes
from engine.kernels.network.state import (
    OPENED,
    READY,
    STARTING,
    State,
)
from engine.kernels.phase.state import DONE, QUEUED, RUNNING
from engine.lower.program import NO_SERVICE, NodeKind

_COMPUTE, _RECEIVE, _ACCESS = int(NodeKind.COMPUTE), int(NodeKind.RECEIVE), int(NodeKind.ACCESS)
_HOST = int(NodeKind.HOST)


@kernel
def settle_operators(st: State) -> None:
    """Ready operators join their streams' queues; idle streams start the first."""
    n_ready = st.lengths[READY]
    st.lengths[READY] = st.lengths[STARTING] = 0
    sort_nodes(st, n_ready)
    for i in range(n_ready):
        number = st.lists[READY, i]
        st.nodes[number].state = QUEUED
        if st.nodes[number].kind == _RECEIVE:
            put(st, STARTING, number)
        else:
            _queue(st, number)
    n_open = st.lengths[OPENED]
    st.lengths[OPENED] = 0
    for i in range(n_open):
        stream = st.streams[st.lists[OPENED, i]]
        stream.open = 0
        if stream.node == NONE and stream.head != NONE:
            stream.node = take_first(stream, st.nodes)
            put(st, STARTING, stream.node)
    for i in range(st.lengths[STARTING]):
        _start(st, st.lists[STARTING, i])
    settle_servers(st)


@kernel
def _queue(st: State, number: int) -> None:
    stream = st.streams[st.nodes[number].stream]
    if st.wires.settings.by_key:
        behind, at = NONE, stream.head + 0
        while at != NONE and st.nodes[at].key <= st.nodes[number].key:
            behind, at = at, st.nodes[at].next + 0
        insert(stream, st.nodes, behind, number)
    else:
        append(stream, st.nodes, number)
    _open(st, st.nodes[number].stream)


@kernel
def _open(st: State, stream: int) -> None:
    """The stream may start something."""
    if st.streams[stream].open == 0:
        st.streams[stream].open = 1
        put(st, OPENED, stream)


@kernel
def _start(st: State, number: int) -> None:
    node, now = st.nodes[number], now_of(st.wires.clock)
    rank = st.accounts.ranks[node.rank]
    book(st.accounts, node.rank, now)
    node.state, node.start = RUNNING, now
    if node.kind == _COMPUTE:
        rank.computing = 1
    elif node.kind != _HOST:
        rank.in_flight += 1
        st.accounts.tallies[node.rank, node.tally].in_flight += 1
    if node.io != NONE:
        arrive_at_edge(st, node.io)
        return
    if node.kind == _ACCESS and node.service != NO_SERVICE:
        begin_access(st, number)
        return
    if node.kind == _COMPUTE or node.kind == _ACCESS or node.kind == _HOST:
        later(st.wires.clock, node.duration, OPERATOR, number)
        return
    flow = st.flows[node.flow]
    if node.kind == _RECEIVE:
        if st.nodes[st.parts[flow.member].node].state == DONE:
            end_operator(st, number)
        return
    flow.arrived += 1
    if flow.arrived == flow.n_members:
        start_flow(st, node.flow)
        for member in range(flow.member, flow.member + flow.n_members):
            if st.parts[member].chunks == 0:  # nothing moves, all chunks are through at once
                end_operator(st, st.parts[member].node)


@kernel
def end_operator(st: State, number: int) -> None:
    """An operator has ended; what waited for it may be ready."""
    node, now = st.nodes[number], now_of(st.wires.clock)
    rank = st.accounts.ranks[node.rank]
    book(st.accounts, node.rank, now)
    node.state = DONE
    node.end = rank.end = now
    if node.kind == _COMPUTE:
        rank.computing = 0
    elif node.kind != _HOST:
        rank.in_flight -= 1
        st.accounts.tallies[node.rank, node.tally].in_flight -= 1
    if node.stream >= 0:
        st.streams[node.stream].node = NONE
        _open(st, node.stream)
    for i in range(node.following, node.following_end):
        following = st.following[i]
        st.nodes[following].waits -= 1
        if st.nodes[following].waits == 0:
            put(st, READY, following)
    touch(st.wires.clock)


@kernel
def end_part(st: State, member: int) -> None:
    """A member has done its part of its flow; a message from point to point is then delivered."""
    number = st.parts[member].node
    receiver = st.flows[st.nodes[number].flow].receiver
    while number != NONE:
        end_operator(st, number)
        number = NONE
        if receiver >= 0 and st.nodes[receiver].state == RUNNING:
            number = receiver
