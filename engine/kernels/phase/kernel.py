"""The phase kernel: an event-driven simulation of a program, compiled with Numba.

Every class of ranks has streams (one computes, the others are communication streams) and one port
for each dimension.  A chunk of a collective takes one phase at a time: it queues at the port of
its next dimension on every member class, starts when it heads all those queues and all those
ports are free, and holds them for the phase's duration.

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

A program may ask for other rules (see Shape): several ports into a dimension and several places at
a port; streams that start the operator with the lowest key; and ends that come one by one, where
the outcome is TIED if their order cannot be told.
"""

from __future__ import annotations

import numpy as np

from engine.kernels.jit import inlined, kernel
from engine.kernels.phase.agenda import (
    class_due,
    earliest,
    next_on_streams,
    note_start,
    places_of,
    set_class_due,
)
from engine.kernels.phase.booking import account, begin_communication, end_communication
from engine.kernels.phase.phase_time import PhaseTimes
from engine.kernels.phase.ports import (
    end_phase,
    finish_flow,
    land,
    move,
    queue_chunks,
    start_phases,
)
from engine.kernels.phase.state import (
    BEGINNING,
    DONE,
    ENDING,
    FINISHED,
    IN_TIE,
    LAST,
    MOVING,
    N_DONE,
    NEVER,
    NOTHING,
    OPEN,
    QUEUED,
    READY,
    RUNNING,
    STARTING,
    STUCK,
    TIED,
    TOUCHED,
    WAITING,
    State,
    append,
    long,
)
from engine.kernels.phase.ties import UNKNOWN, first_to_end
from engine.lower.program import (
    NO_FLOW,
    NO_NODE,
    NO_PORT,
    Ends,
    Lookahead,
    NodeKind,
    StreamOrder,
    Structure,
)


@kernel
def run(s: Structure, times: PhaseTimes, st: State) -> int:
    """Simulate one timed program into ``st``; returns the outcome."""
    _reset(s, st)
    now = long(0)
    first, last = long(0), long(s.shape.n_classes)  # the classes whose turn it is
    while True:
        if st.counts[READY] + st.counts[OPEN] > 0:
            _start_operators(s, times, st, now)
        if st.counts[MOVING] > 0:
            queue_chunks(s, times, st, now)
        if st.counts[TOUCHED] > 0:
            start_phases(s, times, st, now)
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
                next_due = min(next_due, _land_all(s, times, st, cls, now))
            set_class_due(st, cls, next_due)


@inlined
def _land_all(s: Structure, times: PhaseTimes, st: State, cls: int, now: int) -> int:
    """Every chunk of the class that arrives now; returns when the next one does."""
    due = long(NEVER)
    for port in range(cls * s.shape.n_ports, (cls + 1) * s.shape.n_ports):
        while st.flight_due[port] == now:
            land(s, times, st, port, now)
        due = min(due, st.flight_due[port])
    return due


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
    next_due = next_on_streams(s, st, cls)
    places = places_of(s, cls)
    for place in range(places[0], places[1]):
        next_due = min(next_due, st.place_due[place])
    set_class_due(st, cls, next_due)
    return True


@inlined
def _end_nodes(s: Structure, st: State, now: int) -> None:
    """The nodes that end at this instant do, or the first of them where ends come one by one."""
    n = st.counts[ENDING]
    if s.shape.ends == Ends.ONE_BY_ONE:
        n = min(n, 1)
    for i in range(n):
        _end_node(s, st, st.ending[i], now)
    for i in range(n, st.counts[ENDING]):
        st.ending[i - n] = st.ending[i]
    st.counts[ENDING] -= n


@inlined
def _end_on_stream(s: Structure, st: State, cls: int, number: int, now: int) -> None:
    """What the class's timed stream ``number`` runs ends."""
    st.stream_due[cls * s.shape.n_timed + number] = NEVER
    node = st.streams[cls * s.shape.n_streams + number]["node"]
    if s.nodes[node]["flow"] == NO_FLOW:
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
    for port in range(cls * s.shape.n_ports, (cls + 1) * s.shape.n_ports):
        if st.flight_due[port] == now:
            return False  # nearly right: at worst the class waits for its turn
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
        stream["head"], stream["node"], stream["freed"] = NOTHING, NOTHING, -1
    for i in range(len(st.flows)):
        st.flows[i]["arrived"] = 0
        st.flows[i]["left"] = s.flows[i]["chunk_end"] - s.flows[i]["chunk_start"]
    for i in range(len(st.chunks)):
        st.chunks[i]["at"] = st.chunks[i]["first"]
    for i in range(len(st.ports)):
        port = st.ports[i]
        port["head"], port["serving"], port["freed"] = NOTHING, 0, -1
        port["flight"], port["under_way"] = NOTHING, 0
        port["busy"], port["exposed"] = 0, 0.0
    for i in range(len(st.classes)):
        cls = st.classes[i]
        cls["in_flight"], cls["serving"], cls["bound"], cls["felt"] = 0, 0, 0, 0
        cls["per_operator"], cls["per_port"], cls["unserved"], cls["marked"] = 0.0, 0.0, 0.0, -1
        cls["clock"], cls["compute"], cls["exposed"], cls["end"] = 0, 0, 0, 0
    st.tally_exposed.fill(0.0)
    st.stream_due.fill(NEVER)
    st.place_due.fill(NEVER)
    st.flight_due.fill(NEVER)
    st.tree.fill(NEVER)
    st.counts.fill(0)
    st.counts[LAST] = BEGINNING
    for node in range(len(s.nodes)):
        if s.nodes[node]["waits"] == 0:
            _make_ready(s, st, node, BEGINNING)


# --- operators ----------------------------------------------------------------------------------


@inlined
def _start_operators(s: Structure, times: PhaseTimes, st: State, now: int) -> None:
    """Ready operators join their streams' queues in program order; idle streams start the first."""
    n_ready = st.counts[READY]
    st.counts[READY] = 0
    for i in range(1, n_ready):  # insertion sort: lists are short
        node, j = st.ready[i], i
        while j > 0 and s.nodes[st.ready[j - 1]]["key"] > s.nodes[node]["key"]:
            st.ready[j] = st.ready[j - 1]
            j -= 1
        st.ready[j] = node
    for i in range(n_ready):
        node = st.ready[i]
        if s.nodes[node]["kind"] == NodeKind.RECEIVE:
            append(st.starting, st.counts, STARTING, node)
            continue
        stream = st.streams[s.nodes[node]["stream"]]
        if (
            stream["node"] < 0
            and stream["head"] < 0
            and s.nodes[node]["lookahead"] != Lookahead.NONE
        ):
            # Nothing is before it, and nobody else can tell in which order such nodes start.
            _take_stream(s, st, stream, node, now)
            continue
        _enqueue(s, st, stream, node)
        append(st.open_streams, st.counts, OPEN, s.nodes[node]["stream"])
    for i in range(st.counts[OPEN]):
        stream = st.streams[st.open_streams[i]]
        node = stream["head"]
        if stream["node"] < 0 and node >= 0:
            stream["head"] = st.nodes[node]["next"]
            _take_stream(s, st, stream, node, now)
    st.counts[OPEN] = 0
    for i in range(st.counts[STARTING]):
        _start_node(s, times, st, st.starting[i], now)
    st.counts[STARTING] = 0


@inlined
def _enqueue(s: Structure, st: State, stream: np.void, node: int) -> None:
    """The ready operator waits for its stream: last, or before those with a higher key."""
    before, after = NOTHING, stream["head"]
    if after >= 0 and (
        s.shape.stream_order == StreamOrder.ARRIVAL
        or s.nodes[stream["tail"]]["key"] < s.nodes[node]["key"]
    ):
        before, after = stream["tail"], NOTHING
    while after >= 0 and s.nodes[after]["key"] < s.nodes[node]["key"]:
        before, after = after, st.nodes[after]["next"]
    st.nodes[node]["state"], st.nodes[node]["next"] = QUEUED, after
    if before < 0:
        stream["head"] = node
    else:
        st.nodes[before]["next"] = node
    if after < 0:
        stream["tail"] = node


@inlined
def _take_stream(s: Structure, st: State, stream: np.void, node: int, now: int) -> None:
    account(s, st, s.nodes[node]["cls"], now)
    stream["node"] = node
    if stream["freed"] == now:
        st.nodes[node]["critical"] = stream["critical"]
    append(st.starting, st.counts, STARTING, node)


@inlined
def _start_node(s: Structure, times: PhaseTimes, st: State, node: int, now: int) -> None:
    static, dynamic = s.nodes[node], st.nodes[node]
    dynamic["state"], dynamic["start"] = RUNNING, now
    if static["kind"] == NodeKind.COMPUTE or static["kind"] == NodeKind.ACCESS:
        _time_on_stream(s, st, node, now + static["duration"])
        st.node_critical[node] = dynamic["critical"]
        dynamic["critical"] = len(st.phase_of) + node
    if static["lookahead"] == Lookahead.UNTIL_END:
        st.classes[static["cls"]]["felt"] += 1
    if static["kind"] != NodeKind.COMPUTE:
        begin_communication(s, st, node, now)
    if static["kind"] == NodeKind.RECEIVE:
        _receive(s, st, node, now)
    elif static["flow"] != NO_FLOW:
        _join_flow(s, times, st, node, now)


@inlined
def _time_on_stream(s: Structure, st: State, node: int, due: int) -> None:
    cls, stream = s.nodes[node]["cls"], s.nodes[node]["stream"]
    st.stream_due[stream - cls * (s.shape.n_streams - s.shape.n_timed)] = due
    note_start(st, cls, due)


@inlined
def _receive(s: Structure, st: State, node: int, now: int) -> None:
    """Expect a message; one that has come already ends the receive."""
    send = s.members[s.flows[s.nodes[node]["flow"]]["member_start"]]["node"]
    if st.nodes[send]["state"] != DONE:
        return
    append(st.ending, st.counts, ENDING, node)
    if st.nodes[send]["end"] == now and s.nodes[send]["cls"] != s.nodes[node]["cls"]:
        st.counts[IN_TIE] = s.shape.ends == Ends.ONE_BY_ONE


@inlined
def _join_flow(s: Structure, times: PhaseTimes, st: State, node: int, now: int) -> None:
    """The last member to arrive sends the chunks off, or times the flow on its own stream."""
    static, f = s.nodes[node], s.nodes[node]["flow"]
    flow = s.flows[f]
    st.flows[f]["arrived"] += 1
    if st.flows[f]["arrived"] < flow["member_end"] - flow["member_start"]:
        return
    critical = st.nodes[node]["critical"]
    st.flows[f]["critical"] = critical
    first = st.chunks[flow["chunk_start"]]["first"]
    if first == st.chunks[flow["chunk_start"]]["end"]:  # a group of one, or a message to oneself
        if static["lookahead"] == Lookahead.NONE:
            finish_flow(s, st, f, critical)
    elif times.phases[first]["port"] == NO_PORT:
        duration = times.phases[first]["duration"]
        _time_on_stream(s, st, node, now + duration)
        st.phase_critical[st.chunks[flow["chunk_start"]]["record"]] = critical
        st.counts[IN_TIE] |= duration == 0
    else:
        for chunk in range(flow["chunk_start"], flow["chunk_end"]):
            move(st, chunk)


@inlined
def _end_node(s: Structure, st: State, node: int, now: int) -> None:
    static, dynamic = s.nodes[node], st.nodes[node]
    cls = st.classes[static["cls"]]
    if static["kind"] == NodeKind.COMPUTE:
        account(s, st, static["cls"], now)
    else:
        end_communication(s, st, node, now)
    dynamic["state"], dynamic["end"] = DONE, now
    cls["end"] = now
    st.counts[N_DONE] += 1
    st.counts[LAST] = dynamic["critical"]
    if static["lookahead"] == Lookahead.NONE:
        cls["bound"] -= 1
    elif static["lookahead"] == Lookahead.UNTIL_END:
        cls["felt"] -= 1
    if static["stream"] >= 0:
        stream = st.streams[static["stream"]]
        stream["node"], stream["critical"], stream["freed"] = NOTHING, dynamic["critical"], now
        append(st.open_streams, st.counts, OPEN, static["stream"])
    for following in s.following[static["next_start"] : static["next_end"]]:
        st.nodes[following]["waits"] -= 1
        if st.nodes[following]["waits"] == 0:
            _make_ready(s, st, following, dynamic["critical"])


@inlined
def _make_ready(s: Structure, st: State, node: int, critical: int) -> None:
    st.nodes[node]["critical"] = critical
    append(st.ready, st.counts, READY, node)
    if s.nodes[node]["lookahead"] == Lookahead.NONE:
        st.classes[s.nodes[node]["cls"]]["bound"] += 1
