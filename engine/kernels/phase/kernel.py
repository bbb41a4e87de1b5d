"""The phase kernel: an event-driven simulation of a program, compiled with Numba.

Every class of ranks has streams (one computes, the others are communication streams) and one port
for each dimension.  A chunk of a collective takes one phase at a time: it queues at the port of
its next dimension on every member class, starts when it heads all those queues (what waits for
others is passed over) and all those ports are free, and holds them while the phase's bytes move and
are reduced.  The latencies of its
phases pass when it has been through all of them; the collective ends when the last chunk's have.

Time goes in rounds: everything that ends at an instant ends together; then the operators that
became ready join their streams' queues and the chunks that moved on join their ports' queues, both
in an order that follows from the graphs and never from rank numbers; then idle streams and ports
start what they can.  That order is why folding alike ranks into classes changes nothing.

A class need not wait for its turn while no other class can feel what it does (NODE's
``lookahead``): no operator of it waits for other classes, and what ends next lets no such operator
start.  It then goes on by itself, ahead of the others, as in a conservative parallel simulation
(Chandy and Misra, 1979).  Each class still does the same things in the same order, so no result
changes.

Whatever starts, starts because something ended.  The kernel notes what: the critical predecessor of
an interval (a phase or a computation) is the one whose end let it start.  Where several ended at
that instant, it is the one that freed the stream or the port (of a chunk's ports the last
member's), then the operator's last dependency or the chunk's own phase before.
engine.kernels.phase.path walks back.

Accesses that share the servers of a memory are served as engine.kernels.core.servers has it.

A program may have several ports into a dimension and several places at a port, and streams that
start the operator with the lowest key.  What else a replica of another simulator does in its own
way are its :class:`~engine.kernels.phase.state.Rules`; the model's own are MODEL.  For each set of
rules there are entrances (:mod:`engine.kernels.phase.entrances`).
"""

from dimsweep.engine.compiler import inlined, kernel
from dimsweep.engine.kernels.core.none import NEVER
from dimsweep.engine.kernels.core.worklist import put
from dimsweep.engine.kernels.phase import agenda, operators, ports
from dimsweep.engine.kernels.phase.orders import themis
from dimsweep.engine.kernels.phase.phase_time import latency_after, message_time
from dimsweep.engine.kernels.phase.servers import is_served, leave_servers, settle_servers
from dimsweep.engine.kernels.phase.state import BEGINNING, FINISHED, STUCK, TIED, Rules, Sim, long
from dimsweep.engine.lower.program import Lookahead


@kernel
def run(sim: Sim) -> int:
    """Simulate one timed program; returns the outcome."""
    st, now = sim.st, long(0)
    first, last = long(0), long(sim.s.shape.n_classes)  # the classes whose turn it is
    _begin(sim)
    while True:
        if st.ready.filled[0] + st.freed.filled[0] > 0:
            operators.start_operators(sim, now)
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
            operators.make_ready(sim, node, BEGINNING)


@inlined
def begin(sim: Sim) -> None:
    """The model notes nothing of its own."""


@inlined
def end_due(sim: Sim, first: int, last: int, now: int) -> int:
    """Everything in these classes that ends at this instant does so together."""
    st, n_timed = sim.st, sim.s.shape.n_timed
    for cls in range(first, last):
        if agenda.class_due(sim, cls) == now:
            slots = agenda.slots_of(sim, cls)
            for slot in range(slots[0], slots[0] + n_timed):
                if st.due[slot] == now:
                    _end_on_stream(sim, cls, slot, now)
    for cls in range(first, last):
        if agenda.class_due(sim, cls) == now:
            slots, next_due = agenda.slots_of(sim, cls), long(NEVER)
            for slot in range(slots[0], slots[1] - 1):
                if st.due[slot] == now:  # a phase: what was on streams has ended
                    ports.end_phase(sim, slot, now)
                else:
                    next_due = min(next_due, st.due[slot])
            while st.due[slots[1] - 1] == now:
                ports.land(sim, cls, now)
            agenda.set_class_due(sim, cls, min(next_due, st.due[slots[1] - 1]))
    return st.ending.filled[0]


@inlined
def _end_nodes(sim: Sim, n: int, now: int) -> None:
    """The first ``n`` of the nodes that end do so."""
    ending = sim.st.ending
    for i in range(n):
        operators.end_node(sim, ending.numbers[i], now)
    ending.filled[0] -= n
    for i in range(ending.filled[0]):
        ending.numbers[i] = ending.numbers[i + n]


@inlined
def _end_on_stream(sim: Sim, cls: int, slot: int, now: int) -> None:
    """What a timed stream runs ends, or its bytes have moved, and latency is still to pass."""
    node = sim.st.streams[agenda.stream_of(sim, cls, slot)].node
    due = leave_servers(sim, node, now) if is_served(sim, cls, node) else now
    sim.st.due[slot] = due if due > now else NEVER
    if due == now:
        put(sim.st.ending, node)


@inlined
def _next_turn(sim: Sim, first: int, last: int) -> tuple[int, int, int]:
    """When something ends next, and in which classes (from, to).

    All classes take part in a turn, or one whose next ends no other class can feel: it goes on by
    itself, ahead of the others.  What it does then it would also have done in its turn.
    """
    n = sim.s.shape.n_classes
    if last - first < n:
        now = agenda.class_due(sim, first)
        if is_alone(sim, first, now):
            return now, first, last
    now, next_class = agenda.earliest(sim)
    if n > 1 and sim.rules.in_turn(sim, next_class, now):
        return now, next_class, next_class + 1
    return now, long(0), n


@inlined
def is_alone(sim: Sim, cls: int, now: int) -> bool:
    """Whether all that ends in the class at ``now`` is felt in it alone, and nothing that starts
    there waits for other classes."""
    if now == NEVER or sim.st.classes[cls].bound > 0:
        return False
    return sim.st.classes[cls].felt == 0 or _is_felt_later(sim, cls, now)


@kernel
def _is_felt_later(sim: Sim, cls: int, now: int) -> bool:
    """Whether nothing that other classes feel ends in the class at ``now``."""
    st, slots = sim.st, agenda.slots_of(sim, cls)
    streams_end = slots[0] + sim.s.shape.n_timed
    for slot in range(streams_end, slots[1] - 1):
        if st.due[slot] == now and not _is_felt_here(sim, st.chunks[st.served[slot]].flow):
            return False
    f = st.classes[cls].late.head
    while f >= 0 and st.flows[f].due == now:
        if not _is_felt_here(sim, f):
            return False
        f = st.flows[f].next
    for slot in range(slots[0], streams_end):
        if st.due[slot] == now:
            node = st.streams[agenda.stream_of(sim, cls, slot)].node
            if sim.s.nodes[node].lookahead != Lookahead.FULL:
                return False
    return True


@inlined
def _is_felt_here(sim: Sim, f: int) -> bool:
    """Whether no other class than that of its first member feels the flow."""
    node = sim.s.members[sim.s.flows[f].member_start].node
    return bool(sim.s.nodes[node].lookahead == Lookahead.FULL)


MODEL = Rules(
    message_time,
    latency_after,
    themis,
    begin,
    operators.send_off,
    operators.expect,
    ports.occupy,
    in_turn=is_alone,
    end_due=end_due,
)
