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

Accesses that share the servers of a memory are served as engine.kernels.phase.servers has it.

A program may ask for other rules (see Shape): several ports into a dimension and several places at
a port; streams that start the operator with the lowest key; and ends that come one by one, where
the outcome is TIED if their order cannot be told.
"""

from engine.compiler import inlined, kernel
from engine.kernels.core.none import NEVER, NONE
from engine.kernels.phase.agenda import (
    class_due,
    earliest,
    next_end,
    next_on_streams,
    places_of,
    set_class_due,
)
from engine.kernels.phase.operators import end_node, make_ready, start_operators
from engine.kernels.phase.phase_time import PhaseTimes
from engine.kernels.phase.ports import (
    end_phase,
    enter_targets,
    finish_flow,
    land,
    queue_chunks,
    start_phases,
)
from engine.kernels.phase.servers import is_served, leave_servers, settle_servers
from engine.kernels.phase.state import (
    BEGINNING,
    ENDING,
    ENTERING,
    FINISHED,
    IN_TIE,
    LAST,
    MOVING,
    N_DONE,
    OPEN,
    READY,
    RUNNING,
    STUCK,
    TIED,
    TOUCHED,
    UNSETTLED,
    WAITING,
    State,
    append,
    long,
)
from engine.kernels.phase.ties import UNKNOWN, first_to_end
from engine.lower.program import NO_FLOW, NO_NODE, Ends, Lookahead, Structure


@kernel
def run(s: Structure, times: PhaseTimes, st: State) -> int:
    """Simulate one timed program into ``st``; returns the outcome."""
    _reset(s, st)
    now = long(0)
    first, last = long(0), long(s.shape.n_classes)  # the classes whose turn it is
    while True:
        if st.counts[READY] + st.counts[OPEN] > 0:
            start_operators(s, times, st, now)
        if st.counts[MOVING] > 0:
            queue_chunks(s, times, st, now)
        if st.counts[TOUCHED] > 0:
            start_phases(s, times, st, now)
        if st.counts[ENTERING] > 0:
            enter_targets(s, times, st, now)
        if st.counts[UNSETTLED] > 0:
            settle_servers(s, st, now)
        if st.counts[ENDING] == 0:
            now, first, last = _next_turn(s, st, first, last)
            if now == NEVER:
                break
        if s.shape.ends == Ends.TOGETHER:
            _end_all(s, times, st, first, last, now)
        elif not _end_one(s, times, st, first, now):
            return TIED
        _end_nodes(s, st, now)
        if st.counts[IN_TIE]:
            return TIED
    return FINISHED if st.counts[N_DONE] == len(s.nodes) else STUCK


@inlined
def _end_all(s: Structure, times: PhaseTimes, st: State, first: int, last: int, now: int) -> None:
    """Everything in these classes that ends at this instant."""
    for cls in range(first, last):
        if class_due(st, cls) == now:
            for i in range(s.shape.n_timed):
                if st.stream_due[cls * s.shape.n_timed + i] == now:
                    _end_on_stream(s, st, cls, i, now)
    for cls in range(first, last):
        if class_due(st, cls) == now:
            places, next_due = places_of(s, cls), next_on_streams(s, st, cls)
            for place in range(places[0], places[1]):
                if st.place_due[place] == now:
                    end_phase(s, times, st, place, now)
                else:
                    next_due = min(next_due, st.place_due[place])
            if s.shape.latency_after:
                while st.flight_due[cls] == now:
                    land(s, st, cls, now)
                next_due = min(next_due, st.flight_due[cls])
            set_class_due(st, cls, next_due)


@kernel
def _end_one(s: Structure, times: PhaseTimes, st: State, cls: int, now: int) -> bool:
    """What ends first of all in the class that ends at this instant; False if that is not known.

    A receive whose message has come already ends after all else; it is among ``ending``.
    """
    if st.counts[ENDING] > 0:
        return class_due(st, s.nodes[st.ending[0]]["cls"]) != now
    what = first_to_end(s, times, st, cls, now)
    if what == UNKNOWN:
        return False
    st.classes[cls]["marked"] = now
    if what < len(st.stream_due):
        _end_on_stream(s, st, cls, what - cls * s.shape.n_timed, now)
    else:
        end_phase(s, times, st, what - len(st.stream_due), now)
    set_class_due(st, cls, next_end(s, st, cls))
    return True


@inlined
def _end_nodes(s: Structure, st: State, now: int) -> None:
    """The nodes that end at this instant do, or the first of them where ends come one by one."""
    n = st.counts[ENDING]
    if s.shape.ends == Ends.ONE_BY_ONE:
        n = min(n, 1)
    for i in range(n):
        end_node(s, st, st.ending[i], now)
    for i in range(n, st.counts[ENDING]):
        st.ending[i - n] = st.ending[i]
    st.counts[ENDING] -= n


@inlined
def _end_on_stream(s: Structure, st: State, cls: int, number: int, now: int) -> None:
    """What the class's timed stream ``number`` runs ends."""
    st.stream_due[cls * s.shape.n_timed + number] = NEVER
    node = st.streams[cls * s.shape.n_streams + number]["node"]
    if s.nodes[node]["flow"] == NO_FLOW:
        due = leave_servers(s, st, node, now) if is_served(s, st, cls, node) else now
        if due > now:
            st.stream_due[cls * s.shape.n_timed + number] = due
        else:
            append(st.ending, st.counts, ENDING, node)
    else:
        f = s.nodes[node]["flow"]
        _check_receiver(s, st, f, now)
        finish_flow(s, st, f, st.chunks[s.flows[f]["chunk_start"]]["record"])


@inlined
def _check_receiver(s: Structure, st: State, f: int, now: int) -> None:
    """A message that comes to another class just when something else happens there is a tie."""
    receiver = s.flows[f]["receiver"]
    if receiver == NO_NODE or st.nodes[receiver]["state"] != RUNNING:
        return
    cls = s.nodes[receiver]["cls"]
    if cls == s.nodes[s.members[s.flows[f]["member_start"]]["node"]]["cls"]:
        return
    busy = st.classes[cls]["marked"] == now or class_due(st, cls) == now
    st.counts[IN_TIE] |= busy or st.nodes[receiver]["start"] == now
    st.classes[cls]["marked"] = now


@inlined
def _next_turn(s: Structure, st: State, first: int, last: int) -> tuple[int, int, int]:
    """When something ends next, and in which classes (from, to).

    All classes take part in a turn, or one whose next ends no other class can feel: it goes on by
    itself, ahead of the others.  What it does then it would also have done in its turn.
    """
    n = s.shape.n_classes
    if last - first < n:
        now = class_due(st, first)
        if _is_alone(s, st, first, now):
            return now, first, last
    now, next_class = earliest(st)
    if n > 1 and (s.shape.ends == Ends.ONE_BY_ONE or _is_alone(s, st, next_class, now)):
        return now, next_class, next_class + 1
    return now, long(0), n


@inlined
def _is_alone(s: Structure, st: State, cls: int, now: int) -> bool:
    """Whether all that ends in the class at ``now`` is felt in it alone, and nothing that starts
    there waits for other classes."""
    if now == NEVER or st.classes[cls]["bound"] > 0:
        return False
    return st.classes[cls]["felt"] == 0 or _is_felt_later(s, st, cls, now)


@kernel
def _is_felt_later(s: Structure, st: State, cls: int, now: int) -> bool:
    """Whether nothing that other classes feel ends in the class at ``now``."""
    places = places_of(s, cls)
    for place in range(places[0], places[1]):
        if st.place_due[place] == now:
            chunk = st.chunks[st.places[place]["chunk"]]
            node = s.members[chunk["member_start"]]["node"]
            if s.nodes[node]["lookahead"] != Lookahead.FULL:
                return False
    f = st.classes[cls]["late"]
    while f >= 0 and st.flows[f]["due"] == now:
        node = s.members[s.flows[f]["member_start"]]["node"]
        if s.nodes[node]["lookahead"] != Lookahead.FULL:
            return False
        f = st.flows[f]["next"]
    for i in range(s.shape.n_timed):
        if st.stream_due[cls * s.shape.n_timed + i] == now:
            node = st.streams[cls * s.shape.n_streams + i]["node"]
            if s.nodes[node]["lookahead"] != Lookahead.FULL:
                return False
    return True


@inlined
def _reset(s: Structure, st: State) -> None:
    for i in range(len(st.nodes)):
        st.nodes[i]["state"], st.nodes[i]["waits"] = WAITING, s.nodes[i]["waits"]
    for i in range(len(st.streams)):
        stream = st.streams[i]
        stream["head"], stream["node"], stream["freed"] = NONE, NONE, -1
    for i in range(len(st.flows)):
        st.flows[i]["arrived"], st.flows[i]["due"] = 0, -1
        st.flows[i]["left"] = s.flows[i]["chunk_end"] - s.flows[i]["chunk_start"]
    for i in range(len(st.chunks)):
        st.chunks[i]["at"] = st.chunks[i]["first"]
    for i in range(len(st.ports)):
        port = st.ports[i]
        port["head"], port["serving"], port["freed"] = NONE, 0, -1
        port["under_way"], port["busy"], port["exposed"] = 0, 0, 0.0
        port["touched"] = 0
    for i in range(len(st.classes)):
        cls = st.classes[i]
        cls["in_flight"], cls["serving"], cls["bound"], cls["felt"] = 0, 0, 0, 0
        cls["late"] = NONE
        cls["per_operator"], cls["per_port"], cls["unserved"], cls["marked"] = 0.0, 0.0, 0.0, -1
        cls["clock"], cls["compute"], cls["exposed"], cls["end"] = 0, 0, 0, 0
        cls["mark_due"], cls["pauses"] = NEVER, 0
    for i in range(len(st.accesses)):
        st.accesses[i]["node"] = NONE
    for i in range(len(st.entrances)):
        st.entrances[i]["until"] = 0
    st.servers.fill(0)
    st.tally_exposed.fill(0.0)
    st.stream_due.fill(NEVER)
    st.place_due.fill(NEVER)
    st.flight_due.fill(NEVER)
    st.tree.fill(NEVER)
    st.counts.fill(0)
    st.counts[LAST] = BEGINNING
    for node in range(len(s.nodes)):
        if s.nodes[node]["waits"] == 0:
            make_ready(s, st, node, BEGINNING)
