"""Operators: they become ready, wait for a stream, run or join a collective, and end."""

from typing import Any

from dimsweep.engine.compiler import inlined
from dimsweep.engine.kernels.core.accounts import BEGINS, ENDS
from dimsweep.engine.kernels.core.none import DONE, NEVER, NONE, QUEUED, RUNNING
from dimsweep.engine.kernels.core.queue import append, insert_in_order, take_first
from dimsweep.engine.kernels.core.worklist import put, sort_by, take_all
from dimsweep.engine.kernels.phase.agenda import begin_on_stream
from dimsweep.engine.kernels.phase.booking import account, begin_chain, book_flight
from dimsweep.engine.kernels.phase.ports import finish_flow, move
from dimsweep.engine.kernels.phase.servers import join_servers
from dimsweep.engine.kernels.phase.state import Sim
from dimsweep.engine.lower.program import Lookahead, NodeKind, StreamOrder


@inlined
def start_operators(sim: Sim, now: int) -> None:
    """Ready operators join their streams' queues in program order; idle streams start the first."""
    s, st = sim.s, sim.st
    if st.ready.filled[0] > 1:
        sort_by(st.ready, s.nodes["key"], st.scratch)
    for i in range(take_all(st.ready)):
        node = st.ready.numbers[i]
        if s.nodes[node].kind == NodeKind.RECEIVE:
            put(st.starting, node)
            continue
        stream = st.streams[s.nodes[node].stream]
        idle = stream.node == NONE and stream.head == NONE
        if idle and s.nodes[node].lookahead != Lookahead.NONE:
            # Nothing is before it, and nobody else can tell in which order such nodes start.
            _take_stream(sim, stream, node, now)
            continue
        _enqueue(sim, stream, node)
        put(st.freed, s.nodes[node].stream)
    for i in range(take_all(st.freed)):
        stream = st.streams[st.freed.numbers[i]]
        if stream.node == NONE and stream.head != NONE:
            _take_stream(sim, stream, take_first(stream, st.nodes), now)
    for i in range(take_all(st.starting)):
        _start_node(sim, st.starting.numbers[i], now)


@inlined
def _enqueue(sim: Sim, stream: Any, node: int) -> None:
    """The ready operator waits for its stream: last, or before those with a higher key."""
    waiting = sim.st.nodes
    waiting[node].state = QUEUED
    if sim.s.shape.stream_order == StreamOrder.ARRIVAL:
        append(stream, waiting, node)
    else:
        insert_in_order(stream, waiting, sim.s.nodes["key"], node)


@inlined
def _take_stream(sim: Sim, stream: Any, node: int, now: int) -> None:
    account(sim, sim.s.nodes[node].cls, now)
    stream.node = node
    if stream.freed == now:
        sim.st.nodes[node].critical = stream.critical
    put(sim.st.starting, node)


@inlined
def _start_node(sim: Sim, node: int, now: int) -> None:
    static, dynamic = sim.s.nodes[node], sim.st.nodes[node]
    dynamic.state, dynamic.start = RUNNING, now
    hidden = not _communicates(static.kind)
    if hidden or static.kind == NodeKind.ACCESS:
        duration = static.duration
        if static.kind == NodeKind.CHAIN:
            duration = begin_chain(sim, node, now)
        if static.service != NONE:
            join_servers(sim, node, now)
        else:
            begin_on_stream(sim, node, now + duration)
        sim.st.node_critical[node] = dynamic.critical
        dynamic.critical = len(sim.st.phase_of) + node
    if static.lookahead == Lookahead.UNTIL_END:
        sim.st.classes[static.cls].felt += 1
    if not hidden:
        book_flight(sim, node, BEGINS, now)
    if static.kind == NodeKind.RECEIVE:
        _receive(sim, node, now)
    elif static.flow != NONE:
        _join_flow(sim, node, now)


@inlined
def _communicates(kind: int) -> bool:
    """Whether it is communication, or an access to remote memory."""
    return kind != NodeKind.COMPUTE and kind != NodeKind.CHAIN and kind != NodeKind.HOST


@inlined
def _receive(sim: Sim, node: int, now: int) -> None:
    """Expect a message; one that has come already ends the receive."""
    send = sim.s.members[sim.s.flows[sim.s.nodes[node].flow].member_start].node
    if sim.st.nodes[send].state == DONE:
        put(sim.st.ending, node)
        sim.rules.expect(sim, node, send, now)


@inlined
def expect(sim: Sim, node: int, send: int, now: int) -> None:
    """It does not matter whether the message came before or comes just now."""


@inlined
def _join_flow(sim: Sim, node: int, now: int) -> None:
    """The last member to arrive sends the chunks off."""
    f = sim.s.nodes[node].flow
    flow, joined = sim.s.flows[f], sim.st.flows[f]
    joined.arrived += 1
    if joined.arrived < flow.member_end - flow.member_start:
        return
    joined.critical = sim.st.nodes[node].critical
    chunk = sim.st.chunks[flow.chunk_start]
    if chunk.first < chunk.end:
        sim.rules.send_off(sim, node, f, now)
    elif sim.s.nodes[node].lookahead == Lookahead.NONE:  # a group of one, or a message to oneself
        finish_flow(sim, f, joined.critical)


@inlined
def send_off(sim: Sim, node: int, f: int, now: int) -> None:
    """All chunks of a flow set off at the end of this round."""
    for chunk in range(sim.s.flows[f].chunk_start, sim.s.flows[f].chunk_end):
        move(sim, chunk)


@inlined
def end_node(sim: Sim, node: int, now: int) -> None:
    s, st = sim.s, sim.st
    static, dynamic, cls = s.nodes[node], st.nodes[node], st.classes[s.nodes[node].cls]
    if _communicates(static.kind):
        book_flight(sim, node, ENDS, now)
    else:
        account(sim, static.cls, now)
        if static.kind == NodeKind.CHAIN:
            cls.mark_due = NEVER
    dynamic.state, dynamic.end = DONE, now
    cls.end = now
    st.counts[0].done += 1
    st.counts[0].last = dynamic.critical
    if static.lookahead == Lookahead.NONE:
        cls.bound -= 1
    elif static.lookahead == Lookahead.UNTIL_END:
        cls.felt -= 1
    if static.stream >= 0:
        stream = st.streams[static.stream]
        stream.node, stream.critical, stream.freed = NONE, dynamic.critical, now
        put(st.freed, static.stream)
    for following in s.following[static.next_start : static.next_end]:
        st.nodes[following].waits -= 1
        if st.nodes[following].waits == 0:
            make_ready(sim, following, dynamic.critical)


@inlined
def make_ready(sim: Sim, node: int, critical: int) -> None:
    """All that the node waited for has ended, ``critical`` last."""
    sim.st.nodes[node].critical = critical
    put(sim.st.ready, node)
    if sim.s.nodes[node].lookahead == Lookahead.NONE:
        sim.st.classes[sim.s.nodes[node].cls].bound += 1
