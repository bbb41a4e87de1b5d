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

Whatever starts, starts because something ended.  The kernel notes what: ``released[i]`` is the
interval whose end let interval i start.  Intervals are the phases served, by their number among all
chunks' phases, then the computations; -1 is the beginning.  Where several ended at that instant, it
is the one that freed the stream or the port (of a chunk's ports the last member's), then the
operator's last dependency or the chunk's own phase before.  engine.kernels.phase.path walks back.
"""

from __future__ import annotations

import numpy as np

from engine.kernels.jit import inlined, kernel
from engine.kernels.phase.booking import account
from engine.kernels.phase.phase_time import PhaseTimes
from engine.kernels.phase.ports import end_phase, finish_flow, move, queue_chunks, start_phases
from engine.kernels.phase.state import (
    DONE,
    ENDING,
    FINISHED,
    LAST,
    MOVING,
    N_DONE,
    NEVER,
    OPEN,
    QUEUED,
    READY,
    RUNNING,
    STARTING,
    STUCK,
    TOUCHED,
    WAITING,
    State,
    append,
)
from engine.lower.program import Lookahead, NodeKind, Structure


@kernel
def run(s: Structure, times: PhaseTimes, st: State) -> int:
    """Simulate one priced program into ``st``; returns FINISHED or STUCK."""
    _reset(s, st)
    now, first, last = 0, 0, s.shape.n_classes  # the classes whose turn it is
    while True:
        if st.counts[READY] + st.counts[OPEN] > 0:
            _start_operators(s, st, now)
        if st.counts[MOVING] > 0:
            queue_chunks(s, times, st, now)
        if st.counts[TOUCHED] > 0:
            start_phases(s, times, st, now)
        if st.counts[ENDING] == 0:
            now, first, last = _next_turn(s, st, first, last)
            if now == NEVER:
                break
        for slot in range(first, last):
            if st.due[slot] == now:
                st.due[slot] = NEVER
                append(st.ending, st.counts, ENDING, st.streams[slot * s.shape.n_streams]["node"])
        for number in range(first * s.shape.n_dims, last * s.shape.n_dims):
            slot = s.shape.n_classes + number
            if st.due[slot] == now:
                st.due[slot] = NEVER
                end_phase(s, times, st, number, now)
        if s.shape.memory_stream:
            for cls in range(first, last):
                slot = _memory_slot(s, st, cls)
                if st.due[slot] == now:
                    st.due[slot] = NEVER
                    stream = cls * s.shape.n_streams + s.shape.memory_stream
                    append(st.ending, st.counts, ENDING, st.streams[stream]["node"])
        for i in range(st.counts[ENDING]):
            _end_node(s, st, st.ending[i], now)
        st.counts[ENDING] = 0
    return FINISHED if st.counts[N_DONE] == len(s.nodes) else STUCK


@inlined
def _next_turn(s: Structure, st: State, first: int, last: int) -> tuple[int, int, int]:
    """When something ends next, and in which classes (from, to).

    All classes take part in a turn, or one whose next ends nobody else can feel: it goes on by
    itself, ahead of the others.  What it does then it would also have done in its turn.
    """
    n = s.shape.n_classes
    if last - first < n:
        now = _earliest(s, st, first)
        if _is_inner(s, st, first, now):
            return now, first, last
    now, next_class = NEVER, 0
    for cls in range(n):
        # A scan beats a heap: there are few slots, and alike classes end together.
        due = _earliest(s, st, cls)
        if due < now:
            now, next_class = due, cls
    if n > 1 and _is_inner(s, st, next_class, now):
        return now, next_class, next_class + 1
    return now, 0, n


@inlined
def _earliest(s: Structure, st: State, cls: int) -> int:
    """When something ends next in a class."""
    now = st.due[cls]
    slot = s.shape.n_classes + cls * s.shape.n_dims
    for d in range(s.shape.n_dims):
        now = min(now, st.due[slot + d])
    if s.shape.memory_stream:
        now = min(now, st.due[_memory_slot(s, st, cls)])
    return now


@inlined
def _memory_slot(s: Structure, st: State, cls: int) -> int:
    """Where a class's memory stream keeps its time."""
    return s.shape.n_classes + len(st.ports) + cls


@kernel
def _is_inner(s: Structure, st: State, cls: int, now: int) -> bool:
    """Whether all that ends in the class at ``now`` is felt in it alone, and nothing that starts
    there is waiting for others."""
    if now == NEVER or st.classes[cls]["outer"] > 0:
        return False
    if st.due[cls] == now:
        node = st.streams[cls * s.shape.n_streams]["node"]
        if s.nodes[node]["lookahead"] != Lookahead.FULL:
            return False
    number = cls * s.shape.n_dims
    for d in range(s.shape.n_dims):
        if st.due[s.shape.n_classes + number + d] == now:
            chunk = st.chunks[st.entries[st.ports[number + d]["entry"]]["chunk"]]
            node = s.members[chunk["member_start"]]["node"]
            if s.nodes[node]["lookahead"] != Lookahead.FULL:
                return False
    if s.shape.memory_stream and st.due[_memory_slot(s, st, cls)] == now:
        node = st.streams[cls * s.shape.n_streams + s.shape.memory_stream]["node"]
        if s.nodes[node]["lookahead"] != Lookahead.FULL:
            return False
    return True


@inlined
def _reset(s: Structure, st: State) -> None:
    for i in range(len(st.nodes)):
        node = st.nodes[i]
        node["state"], node["waits"] = WAITING, s.nodes[i]["waits"]
        node["start"], node["end"], node["exposed"], node["cause"] = -1, -1, 0.0, -1
    for i in range(len(st.streams)):
        st.streams[i]["head"], st.streams[i]["node"], st.streams[i]["freed"] = -1, -1, -1
    for i in range(len(st.flows)):
        st.flows[i]["arrived"] = 0
        st.flows[i]["left"] = s.flows[i]["chunk_end"] - s.flows[i]["chunk_start"]
    for i in range(len(st.chunks)):
        st.chunks[i]["at"] = st.chunks[i]["first"]
    for i in range(len(st.ports)):
        port = st.ports[i]
        port["head"], port["entry"], port["busy"], port["freed"] = -1, -1, 0, -1
    for i in range(len(st.classes)):
        cls = st.classes[i]
        cls["busy"], cls["clock"], cls["compute"], cls["exposed"], cls["end"] = -1, 0, 0, 0, 0
        cls["outer"] = 0
    st.dim_exposed[:] = 0.0
    st.due[:] = NEVER
    st.counts[:] = 0
    st.counts[LAST] = -1
    for node in range(len(s.nodes)):
        if s.nodes[node]["waits"] == 0:
            _make_ready(s, st, node)


# --- operators ----------------------------------------------------------------------------------


@inlined
def _start_operators(s: Structure, st: State, now: int) -> None:
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
        st.nodes[node]["state"], st.nodes[node]["next"] = QUEUED, -1
        if stream["head"] < 0:
            stream["head"] = node
        else:
            st.nodes[stream["tail"]]["next"] = node
        stream["tail"] = node
        append(st.open_streams, st.counts, OPEN, s.nodes[node]["stream"])
    for i in range(st.counts[OPEN]):
        stream = st.streams[st.open_streams[i]]
        node = stream["head"]
        if stream["node"] < 0 and node >= 0:
            stream["head"] = st.nodes[node]["next"]
            _take_stream(s, st, stream, node, now)
    st.counts[OPEN] = 0
    for i in range(st.counts[STARTING]):
        _start_node(s, st, st.starting[i], now)
    st.counts[STARTING] = 0


@inlined
def _take_stream(s: Structure, st: State, stream: np.void, node: int, now: int) -> None:
    account(s, st, s.nodes[node]["cls"], now)
    stream["node"] = node
    if stream["freed"] == now:
        st.nodes[node]["cause"] = stream["cause"]
    append(st.starting, st.counts, STARTING, node)


@inlined
def _start_node(s: Structure, st: State, node: int, now: int) -> None:
    static, dynamic = s.nodes[node], st.nodes[node]
    cls = static["cls"]
    dynamic["state"], dynamic["start"] = RUNNING, now
    if static["kind"] == NodeKind.COMPUTE or static["kind"] == NodeKind.ACCESS:
        memory = static["kind"] == NodeKind.ACCESS
        slot = _memory_slot(s, st, cls) if memory else cls
        st.due[slot] = now + static["duration"]
        st.released[len(st.phase_of) + node] = dynamic["cause"]
        dynamic["cause"] = len(st.phase_of) + node
        if not memory:
            return
    account(s, st, cls, now)
    head = st.classes[cls]["busy"]
    dynamic["busy_next"], dynamic["busy_before"] = head, -1
    if head >= 0:
        st.nodes[head]["busy_before"] = node
    st.classes[cls]["busy"] = node
    if static["kind"] == NodeKind.ACCESS:
        return
    f = static["flow"]
    flow = s.flows[f]
    if static["kind"] == NodeKind.RECEIVE:
        if st.nodes[s.members[flow["member_start"]]["node"]]["state"] == DONE:
            append(st.ending, st.counts, ENDING, node)
        return
    st.flows[f]["arrived"] += 1
    if st.flows[f]["arrived"] == flow["member_end"] - flow["member_start"]:
        st.flows[f]["cause"] = dynamic["cause"]
        form = s.forms[flow["form"]]
        if (
            static["lookahead"] == Lookahead.NONE and form["use_start"] == form["use_end"]
        ):  # a group of one
            finish_flow(s, st, f, dynamic["cause"])
        for chunk in range(flow["chunk_start"], flow["chunk_end"]):
            if st.chunks[chunk]["first"] < st.chunks[chunk]["end"]:
                move(st, chunk)


@inlined
def _end_node(s: Structure, st: State, node: int, now: int) -> None:
    static, dynamic = s.nodes[node], st.nodes[node]
    cls = st.classes[static["cls"]]
    account(s, st, static["cls"], now)
    dynamic["state"], dynamic["end"] = DONE, now
    cls["end"] = now
    st.counts[N_DONE] += 1
    st.counts[LAST] = dynamic["cause"]
    if static["kind"] != NodeKind.COMPUTE:
        before, after = dynamic["busy_before"], dynamic["busy_next"]
        if before >= 0:
            st.nodes[before]["busy_next"] = after
        else:
            cls["busy"] = after
        if after >= 0:
            st.nodes[after]["busy_before"] = before
    if static["lookahead"] == Lookahead.NONE:
        cls["outer"] -= 1
    if static["stream"] >= 0:
        stream = st.streams[static["stream"]]
        stream["node"], stream["cause"], stream["freed"] = -1, dynamic["cause"], now
        append(st.open_streams, st.counts, OPEN, static["stream"])
    for following in s.following[static["next_start"] : static["next_end"]]:
        st.nodes[following]["waits"] -= 1
        if st.nodes[following]["waits"] == 0:
            st.nodes[following]["cause"] = dynamic["cause"]
            _make_ready(s, st, following)


@inlined
def _make_ready(s: Structure, st: State, node: int) -> None:
    append(st.ready, st.counts, READY, node)
    if s.nodes[node]["lookahead"] == Lookahead.NONE:
        st.classes[s.nodes[node]["cls"]]["outer"] += 1
