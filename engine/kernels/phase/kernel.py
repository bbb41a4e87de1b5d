"""The phase kernel: an event-driven simulation of a program, compiled with Numba.

Every class of ranks has streams (one computes, the others are communication streams) and one port
for each dimension.  A chunk of a collective takes one phase at a time.  It queues at the port of
its next dimension on every member class, and starts when it heads all those queues (blocked chunks
are overtaken) and all those ports are free.  It holds the ports while the phase's bytes move and
are reduced.  The latencies of its phases pass after the last phase; the collective ends when the
latencies of its last chunk have passed.

Time advances in rounds.  All intervals that end at an instant end together; then the operators that
became ready join their streams' queues and the chunks that finished a phase join their next ports'
queues, both in an order that follows from the graphs and never from rank numbers; then idle streams
and ports start what they can.  Because of that order, folding equal ranks into classes changes no
result.

A class may run ahead while its events affect no other class (NODE's ``lookahead``): none of its
operators waits for other classes, and its next end starts no such operator.  It then proceeds
alone, as in a conservative parallel simulation (Chandy and Misra, 1979).  The order of events
within each class is unchanged, so no result changes.

Every interval (a phase or a computation) starts when another ends.  The kernel records the latter
as the critical predecessor.  If several intervals end at that instant, the one that freed the
stream or the port is recorded (for a chunk with several ports, the port of the last member), else
the operator's last dependency or the chunk's previous phase. :mod:`engine.kernels.phase.path`
follows these records backwards.

Accesses that share the servers of a memory are served as in :mod:`engine.kernels.core.accounts`.

A program may have several ports into a dimension and several places at a port, and streams that
start the operator with the lowest key.  Extensions replace other rules by their
:class:`~engine.kernels.phase.state.Rules`; the model's rules are MODEL.  Each set of rules has
separate entry points (:mod:`engine.kernels.phase.batch`).
"""

from typing import Any

from dimsweep.engine.compiler import inlined, kernel
from dimsweep.engine.kernels.core.accounts import BEGINS, ENDS
from dimsweep.engine.kernels.core.compiling import long
from dimsweep.engine.kernels.core.queues import (
    append,
    insert_in_order,
    put,
    sort_by,
    take_all,
    take_first,
)
from dimsweep.engine.kernels.core.tables import DONE, NEVER, NONE, QUEUED, RUNNING
from dimsweep.engine.kernels.phase import classes, ports
from dimsweep.engine.kernels.phase.classes import (
    begin_chain,
    begin_on_stream,
    book_class,
    book_flight,
    is_served,
    join_servers,
    leave_servers,
    settle_servers,
)
from dimsweep.engine.kernels.phase.orders import themis
from dimsweep.engine.kernels.phase.phase_time import latency_after, message_time
from dimsweep.engine.kernels.phase.ports import finish_flow, move_on
from dimsweep.engine.kernels.phase.state import BEGINNING, FINISHED, STUCK, TIED, Rules, Sim
from dimsweep.engine.lower.program import Lookahead, NodeKind, StreamOrder


@inlined
def start_operators(sim: Sim, now: int) -> None:
    """Queue the ready operators on their streams in program order, then start idle streams."""
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
            # Nothing is before it, and the order in which such nodes start has no effect.
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
    """Queue a ready operator on its stream: last, or before operators with a higher key."""
    waiting = sim.st.nodes
    waiting[node].state = QUEUED
    if sim.s.shape.stream_order == StreamOrder.ARRIVAL:
        append(stream, waiting, node)
    else:
        insert_in_order(stream, waiting, sim.s.nodes["key"], node)


@inlined
def _take_stream(sim: Sim, stream: Any, node: int, now: int) -> None:
    book_class(sim, sim.s.nodes[node].cls, now)
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
    """Return whether a node of ``kind`` communicates or accesses remote memory."""
    return kind != NodeKind.COMPUTE and kind != NodeKind.CHAIN and kind != NodeKind.HOST


@inlined
def _receive(sim: Sim, node: int, now: int) -> None:
    """Start a receive operator; end it if its message has already arrived."""
    send = sim.s.members[sim.s.flows[sim.s.nodes[node].flow].member_start].node
    if sim.st.nodes[send].state == DONE:
        put(sim.st.ending, node)
        sim.rules.expect(sim, node, send, now)


@inlined
def note_expected(sim: Sim, node: int, send: int, now: int) -> None:
    """Do nothing: the model treats messages that arrive before their receive like others."""


@inlined
def _join_flow(sim: Sim, node: int, now: int) -> None:
    """Count an arrived member of a flow; the last member starts the flow's chunks."""
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
    """Queue all chunks of flow ``f`` at their first ports at the end of this round."""
    for chunk in range(sim.s.flows[f].chunk_start, sim.s.flows[f].chunk_end):
        move_on(sim, chunk)


@inlined
def end_node(sim: Sim, node: int, now: int) -> None:
    """End an operator: release its stream and make its successors ready."""
    s, st = sim.s, sim.st
    static, dynamic, cls = s.nodes[node], st.nodes[node], st.classes[s.nodes[node].cls]
    if _communicates(static.kind):
        book_flight(sim, node, ENDS, now)
    else:
        book_class(sim, static.cls, now)
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
    """Mark a node as ready; ``critical`` is the interval whose end made it ready."""
    sim.st.nodes[node].critical = critical
    put(sim.st.ready, node)
    if sim.s.nodes[node].lookahead == Lookahead.NONE:
        sim.st.classes[sim.s.nodes[node].cls].bound += 1


@kernel
def run(sim: Sim) -> int:
    """Simulate the program of ``sim``, whose phases are timed; return the outcome.

    The outcome is FINISHED, STUCK or TIED.
    """
    st, now = sim.st, long(0)
    first, last = long(0), long(sim.s.shape.n_classes)  # the classes whose turn it is
    _begin(sim)
    while True:
        if st.ready.filled[0] + st.freed.filled[0] > 0:
            start_operators(sim, now)
        if st.moving.filled[0] > 0:
            ports.queue_chunks(sim, now)
        if st.touched.filled[0] > 0:
            ports.start_phases(sim, now)
        if st.entering.filled[0] > 0:
            ports.enter_targets(sim, now)
        if st.counts[0].unsettled:
            settle_servers(sim, now)
        if st.ending.filled[0] == 0:
            now, first, last = _next_turn(sim, first, last)
            if now == NEVER:
                break
        n = sim.rules.end_due(sim, first, last, now)
        if n < 0:
            return TIED
        _end_nodes(sim, n, now)
    return FINISHED if st.counts[0].done == len(sim.s.nodes) else STUCK


@inlined
def _begin(sim: Sim) -> None:
    for word in range(len(sim.st.block)):
        sim.st.block[word] = sim.st.fresh[word]
    for c in range(len(sim.st.chunks)):
        sim.st.chunks[c].at = sim.st.chunks[c].first
    sim.rules.begin(sim)
    for node in range(len(sim.s.nodes)):
        if sim.s.nodes[node].waits == 0:
            make_ready(sim, node, BEGINNING)


@inlined
def begin_run(sim: Sim) -> None:
    """Do nothing: the model's rules keep no extra state to reset."""


@inlined
def end_due(sim: Sim, first: int, last: int, now: int) -> int:
    """End all intervals in classes ``first`` to ``last`` that are due; return the number of nodes.

    All intervals that end at one instant end together: computations first, then phases, then flows
    whose latencies have passed.  The nodes that end are listed in ``ending``.
    """
    st, n_timed = sim.st, sim.s.shape.n_timed
    for cls in range(first, last):
        if classes.class_due(sim, cls) == now:
            slots = classes.slots_of(sim, cls)
            for slot in range(slots[0], slots[0] + n_timed):
                if st.due[slot] == now:
                    _end_on_stream(sim, cls, slot, now)
    for cls in range(first, last):
        if classes.class_due(sim, cls) == now:
            slots, next_due = classes.slots_of(sim, cls), long(NEVER)
            for slot in range(slots[0], slots[1] - 1):
                if st.due[slot] == now:  # a phase: what was on streams has ended
                    ports.end_phase(sim, slot, now)
                else:
                    next_due = min(next_due, st.due[slot])
            while st.due[slots[1] - 1] == now:
                ports.end_latencies(sim, cls, now)
            classes.set_class_due(sim, cls, min(next_due, st.due[slots[1] - 1]))
    return st.ending.filled[0]


@inlined
def _end_nodes(sim: Sim, n: int, now: int) -> None:
    """End the first ``n`` nodes of the list ``ending``."""
    ending = sim.st.ending
    for i in range(n):
        end_node(sim, ending.numbers[i], now)
    ending.filled[0] -= n
    for i in range(ending.filled[0]):
        ending.numbers[i] = ending.numbers[i + n]


@inlined
def _end_on_stream(sim: Sim, cls: int, slot: int, now: int) -> None:
    """End the operator of a stream's slot, or let the latency of its memory access pass."""
    node = sim.st.streams[classes.stream_of(sim, cls, slot)].node
    due = leave_servers(sim, node, now) if is_served(sim, cls, node) else now
    sim.st.due[slot] = due if due > now else NEVER
    if due == now:
        put(sim.st.ending, node)


@inlined
def _next_turn(sim: Sim, first: int, last: int) -> tuple[int, int, int]:
    """Return the next time at which an interval ends, and the classes (from, to) to process.

    Usually all classes take part in a turn.  A class whose next ends affect no other class proceeds
    alone, ahead of the others, with an equal result.
    """
    n = sim.s.shape.n_classes
    if last - first < n:
        now = classes.class_due(sim, first)
        if can_run_ahead(sim, first, now):
            return now, first, last
    now, next_class = classes.earliest_end(sim)
    if n > 1 and sim.rules.in_turn(sim, next_class, now):
        return now, next_class, next_class + 1
    return now, long(0), n


@inlined
def can_run_ahead(sim: Sim, cls: int, now: int) -> bool:
    """Return whether all intervals that end in a class at ``now`` affect only this class."""
    if now == NEVER or sim.st.classes[cls].bound > 0:
        return False
    return sim.st.classes[cls].felt == 0 or _can_end_unnoticed(sim, cls, now)


@kernel
def _can_end_unnoticed(sim: Sim, cls: int, now: int) -> bool:
    """Return whether no interval that ends in a class at ``now`` affects another class."""
    st, slots = sim.st, classes.slots_of(sim, cls)
    streams_end = slots[0] + sim.s.shape.n_timed
    for slot in range(streams_end, slots[1] - 1):
        if st.due[slot] == now and not _is_local(sim, st.chunks[st.served[slot]].flow):
            return False
    f = st.classes[cls].late.head
    while f >= 0 and st.flows[f].due == now:
        if not _is_local(sim, f):
            return False
        f = st.flows[f].next
    for slot in range(slots[0], streams_end):
        if st.due[slot] == now:
            node = st.streams[classes.stream_of(sim, cls, slot)].node
            if sim.s.nodes[node].lookahead != Lookahead.FULL:
                return False
    return True


@inlined
def _is_local(sim: Sim, f: int) -> bool:
    """Return whether a flow affects only the class of its first member."""
    node = sim.s.members[sim.s.flows[f].member_start].node
    return bool(sim.s.nodes[node].lookahead == Lookahead.FULL)


MODEL = Rules(
    message_time,
    latency_after,
    themis,
    begin_run,
    send_off,
    note_expected,
    ports.occupy,
    in_turn=can_run_ahead,
    end_due=end_due,
)
