"""Operators: they become ready, wait for a stream, run or join a collective, and end."""

import numpy as np

from engine.compiler import inlined
from engine.kernels.core.none import NEVER, NONE
from engine.kernels.phase.agenda import note_start
from engine.kernels.phase.booking import (
    account,
    begin_chain,
    begin_communication,
    end_communication,
)
from engine.kernels.phase.phase_time import PhaseTimes
from engine.kernels.phase.ports import finish_flow, move
from engine.kernels.phase.servers import join_servers
from engine.kernels.phase.state import (
    DONE,
    ENDING,
    IN_TIE,
    LAST,
    N_DONE,
    OPEN,
    QUEUED,
    READY,
    RUNNING,
    STARTING,
    State,
    append,
)
from engine.lower.program import (
    NO_FLOW,
    NO_PORT,
    NO_SERVICE,
    Ends,
    Lookahead,
    NodeKind,
    StreamOrder,
    Structure,
)


@inlined
def start_operators(s: Structure, times: PhaseTimes, st: State, now: int) -> None:
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
    before, after = NONE, stream["head"]
    if after >= 0 and (
        s.shape.stream_order == StreamOrder.ARRIVAL
        or s.nodes[stream["tail"]]["key"] < s.nodes[node]["key"]
    ):
        before, after = stream["tail"], NONE
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
    computes = static["kind"] == NodeKind.COMPUTE or static["kind"] == NodeKind.CHAIN
    hosted = static["kind"] == NodeKind.HOST
    if computes or hosted or static["kind"] == NodeKind.ACCESS:
        duration = static["duration"]
        if static["kind"] == NodeKind.CHAIN:
            duration = begin_chain(s, st, node, now)
        if static["service"] != NO_SERVICE:
            join_servers(s, st, node, now)
        else:
            _time_on_stream(s, st, node, now + duration)
        st.node_critical[node] = dynamic["critical"]
        dynamic["critical"] = len(st.phase_of) + node
    if static["lookahead"] == Lookahead.UNTIL_END:
        st.classes[static["cls"]]["felt"] += 1
    if not (computes or hosted):
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
def end_node(s: Structure, st: State, node: int, now: int) -> None:
    static, dynamic = s.nodes[node], st.nodes[node]
    cls = st.classes[static["cls"]]
    if static["kind"] == NodeKind.COMPUTE or static["kind"] == NodeKind.HOST:
        account(s, st, static["cls"], now)
    elif static["kind"] == NodeKind.CHAIN:
        account(s, st, static["cls"], now)
        cls["mark_due"] = NEVER
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
        stream["node"], stream["critical"], stream["freed"] = NONE, dynamic["critical"], now
        append(st.open_streams, st.counts, OPEN, static["stream"])
    for following in s.following[static["next_start"] : static["next_end"]]:
        st.nodes[following]["waits"] -= 1
        if st.nodes[following]["waits"] == 0:
            make_ready(s, st, following, dynamic["critical"])


@inlined
def make_ready(s: Structure, st: State, node: int, critical: int) -> None:
    st.nodes[node]["critical"] = critical
    append(st.ready, st.counts, READY, node)
    if s.nodes[node]["lookahead"] == Lookahead.NONE:
        st.classes[s.nodes[node]["cls"]]["bound"] += 1
