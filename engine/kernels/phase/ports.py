"""Chunks at the ports of a run: they queue for a dimension, hold it for a phase, and move on."""

from __future__ import annotations

import numpy as np

from engine.cluster.cluster import QueueOrder
from engine.kernels.jit import inlined, kernel
from engine.kernels.phase.booking import account
from engine.kernels.phase.phase_time import PhaseTimes
from engine.kernels.phase.state import ENDING, MOVING, RUNNING, TOUCHED, State, append
from engine.lower.program import Structure


@inlined
def queue_chunks(s: Structure, times: PhaseTimes, st: State, now: int) -> None:
    """Chunks that bytes_sent on join the queues of their next dimension's ports."""
    n = st.counts[MOVING]
    st.counts[MOVING] = 0
    for i in range(1, n):  # nearly always sorted: a flow's chunks come in order
        entry, j = st.moving[i], i
        while j > 0 and st.moving[j - 1] > entry:
            st.moving[j] = st.moving[j - 1]
            j -= 1
        st.moving[j] = entry
    for i in range(n):
        chunk = st.chunks[st.moving[i] & 0xFFFFFFFF]
        dim = times.phases[chunk["at"]]["dim"]
        if n == 1 and chunk["members"] == 1:
            port = st.ports[chunk["cls"] * s.shape.n_dims + dim]
            if port["entry"] < 0 and port["head"] < 0:  # no need to queue
                st.entries[chunk["entry"]]["next"] = -1
                _start_phase(s, times, st, chunk, now)
                return
        for m in range(chunk["members"]):
            number = _class(s, chunk, m) * s.shape.n_dims + dim
            _enqueue(s, times, st, number, chunk["entry"] + m)
            append(st.touched, st.counts, TOUCHED, number)


@inlined
def _enqueue(s: Structure, times: PhaseTimes, st: State, number: int, entry: int) -> None:
    port = st.ports[number]
    before, after = -1, port["head"]
    if after >= 0 and s.shape.queue == QueueOrder.FIFO:
        before, after = port["tail"], -1
    elif after >= 0 and s.shape.queue != QueueOrder.LIFO:
        # Behind the last one that does not rank after it: equals keep their order of arrival.
        rank = _rank(s, times, st, entry)
        while after >= 0 and _rank(s, times, st, after) <= rank:
            before, after = after, st.entries[after]["next"]
    st.entries[entry]["next"] = after
    if before < 0:
        port["head"] = entry
    else:
        st.entries[before]["next"] = entry
    if after < 0:
        port["tail"] = entry


@kernel
def _rank(s: Structure, times: PhaseTimes, st: State, entry: int) -> float:
    chunk = st.chunks[st.entries[entry]["chunk"]]
    if s.shape.queue == QueueOrder.PRIORITY:
        return -float(s.forms[s.flows[chunk["flow"]]["form"]]["priority"])
    return float(times.phases[chunk["at"]]["n_bytes"])


@inlined
def start_phases(s: Structure, times: PhaseTimes, st: State, now: int) -> None:
    """Every touched port starts its first chunk if all ports that the chunk needs are free."""
    for i in range(st.counts[TOUCHED]):
        port = st.ports[st.touched[i]]
        if port["entry"] >= 0 or port["head"] < 0:
            continue
        chunk = st.chunks[st.entries[port["head"]]["chunk"]]
        if chunk["members"] == 1 or _all_free(s, st, chunk, times.phases[chunk["at"]]["dim"]):
            _start_phase(s, times, st, chunk, now)
    st.counts[TOUCHED] = 0


@inlined
def _start_phase(s: Structure, times: PhaseTimes, st: State, chunk: np.void, now: int) -> None:
    """All ports that the chunk needs start it."""
    n_dims = s.shape.n_dims
    phase, entry = times.phases[chunk["at"]], chunk["entry"]
    number = chunk["record"] + chunk["at"] - chunk["first"]
    cause = number - 1
    if chunk["at"] == chunk["first"]:
        cause = st.flows[chunk["flow"]]["cause"]
    for m in range(chunk["members"]):
        cls = _class(s, chunk, m)
        account(s, st, cls, now)
        port = st.ports[cls * n_dims + phase["dim"]]
        port["head"], port["entry"] = st.entries[entry + m]["next"], entry + m
        port["busy"] += phase["duration"]
        if port["freed"] == now:
            cause = port["cause"]
    st.released[number] = cause
    if len(st.phase_start) > 0:
        st.phase_start[number] = now
    # The first member's port keeps the time for all.
    keeper = chunk["cls"] * n_dims + phase["dim"]
    st.due[s.shape.n_classes + keeper] = now + phase["duration"]


@kernel
def _all_free(s: Structure, st: State, chunk: np.void, dim: int) -> bool:
    """Whether every port that the chunk needs is idle and has it at its queue's head."""
    for m in range(chunk["members"]):
        port = st.ports[_class(s, chunk, m) * s.shape.n_dims + dim]
        if port["entry"] >= 0 or port["head"] != chunk["entry"] + m:
            return False
    return True


@inlined
def _class(s: Structure, chunk: np.void, member: int) -> int:
    """The class of the chunk's ``member``-th member."""
    if member == 0:
        return int(chunk["cls"])
    return int(s.members[chunk["member_start"] + member]["cls"])


@inlined
def end_phase(s: Structure, times: PhaseTimes, st: State, number: int, now: int) -> None:
    """Free the ports of the chunk that this one kept time for, and send the chunk on."""
    c = st.entries[st.ports[number]["entry"]]["chunk"]
    chunk = st.chunks[c]
    n_dims = s.shape.n_dims
    dim = number - chunk["cls"] * n_dims
    cause = chunk["record"] + chunk["at"] - chunk["first"]
    for m in range(chunk["members"]):
        cls = _class(s, chunk, m)
        account(s, st, cls, now)
        port = st.ports[cls * n_dims + dim]
        port["entry"], port["cause"], port["freed"] = -1, cause, now
        if port["head"] >= 0:
            append(st.touched, st.counts, TOUCHED, cls * n_dims + dim)
    chunk["at"] += 1
    if chunk["at"] < chunk["end"] and times.phases[chunk["at"]]["dim"] >= 0:
        move(st, c)
        return
    st.flows[chunk["flow"]]["left"] -= 1
    if st.flows[chunk["flow"]]["left"] == 0:
        finish_flow(s, st, chunk["flow"], cause)


@inlined
def move(st: State, chunk: int) -> None:
    """Send a chunk to its next queue at the end of this round."""
    st.moving[st.counts[MOVING]] = st.chunks[chunk]["order"]
    st.counts[MOVING] += 1


@kernel
def finish_flow(s: Structure, st: State, f: int, cause: int) -> None:
    """Its nodes end at this instant, with the interval ``cause``."""
    flow = s.flows[f]
    for member in s.members[flow["member_start"] : flow["member_end"]]:
        append(st.ending, st.counts, ENDING, member["node"])
        st.nodes[member["node"]]["cause"] = cause
    receiver = flow["receiver"]
    if receiver >= 0 and st.nodes[receiver]["state"] == RUNNING:
        st.nodes[receiver]["cause"] = cause
        append(st.ending, st.counts, ENDING, receiver)
