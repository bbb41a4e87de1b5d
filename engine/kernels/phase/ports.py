"""Chunks at the ports of a run: they queue for one, hold a place for a phase, and move on.

A chunk of several classes starts when all its ports have room for it.  Which one that is says
:func:`_let_pass`: the first of its queue, unless something else is first for another member.

Where Shape.latency_after says so, a phase holds its place while bytes move and are reduced, and the
chunk moves on at once.  Its latencies pass when it is through, and its flow ends when those of all
its chunks have.
"""

import numpy as np
from numpy.typing import NDArray

from engine.cluster.blocks import ENTRANCES
from engine.compiler import inlined, kernel
from engine.kernels.core.none import NEVER, NONE
from engine.kernels.phase.agenda import note_start
from engine.kernels.phase.booking import begin_at_port, end_at_port
from engine.kernels.phase.phase_time import PhaseTimes
from engine.kernels.phase.state import (
    ENDING,
    ENTERING,
    MOVING,
    RUNNING,
    STARTED,
    TOUCHED,
    State,
    append,
    long,
    transfer_of,
)
from engine.kinds import QueueOrder
from engine.lower.program import NO_DIM, NO_ENTRANCE, NO_NODE, Structure


@inlined
def _sort(entries: NDArray[np.int64], n: int) -> None:
    """The first ``n`` in ascending order.  They nearly always are: a flow's chunks come so."""
    for i in range(1, n):
        entry, j = entries[i], i
        while j > 0 and entries[j - 1] > entry:
            entries[j] = entries[j - 1]
            j -= 1
        entries[j] = entry


@inlined
def queue_chunks(s: Structure, times: PhaseTimes, st: State, now: int) -> None:
    """Chunks that moved on join the queues of their next phase's ports."""
    n = st.counts[MOVING]
    st.counts[MOVING] = 0
    _sort(st.moving, n)
    for i in range(n):
        chunk = st.chunks[st.moving[i] & 0xFFFFFFFF]
        first = times.phases[chunk["at"]]["port"]
        if n == 1 and chunk["members"] == 1:
            port = st.ports[chunk["cls"] * s.shape.n_ports + first]
            if port["serving"] < s.shape.places and port["head"] < 0:  # no need to queue
                st.entries[chunk["entry"]]["next"] = NONE
                port["head"] = chunk["entry"]
                _start_phase(s, times, st, chunk, now)
                return
        for m in range(chunk["members"]):
            number = _class(s, chunk, m) * s.shape.n_ports + first
            _enqueue(s, times, st, number, chunk["entry"] + m)
            _touch(st, number)


@inlined
def _enqueue(s: Structure, times: PhaseTimes, st: State, number: int, entry: int) -> None:
    port = st.ports[number]
    before, after = NONE, port["head"]
    if after >= 0 and (_is_message(times, st, entry) or s.shape.queue == QueueOrder.LIFO):
        while after >= 0 and _is_message(times, st, after):
            before, after = after, st.entries[after]["next"]
    elif after >= 0 and s.shape.queue == QueueOrder.FIFO:
        before, after = port["tail"], NONE
    elif after >= 0:
        # Behind the last one that does not rank after it: equals keep their order of arrival.
        rank = _rank(s, times, st, entry)
        while after >= 0 and _rank(s, times, st, after) <= rank:
            before, after = after, st.entries[after]["next"]
    st.entries[entry]["next"] = after
    if before < 0:
        if after >= 0:  # which is first no more
            _touch_all(s, times, st, st.chunks[st.entries[after]["chunk"]])
        port["head"] = entry
    else:
        st.entries[before]["next"] = entry
    if after < 0:
        port["tail"] = entry


@inlined
def _is_message(times: PhaseTimes, st: State, entry: int) -> bool:
    """Whether it is a message from point to point, which goes before collectives' chunks."""
    return bool(times.phases[st.chunks[st.entries[entry]["chunk"]]["at"]]["steps"] < 0)


@kernel
def _rank(s: Structure, times: PhaseTimes, st: State, entry: int) -> float:
    chunk = st.chunks[st.entries[entry]["chunk"]]
    if _is_message(times, st, entry):
        return -np.inf
    if s.shape.queue == QueueOrder.PRIORITY:
        return -float(s.forms[s.flows[chunk["flow"]]["form"]]["priority"])
    return float(times.phases[chunk["at"]]["n_bytes"])


@inlined
def _touch(st: State, number: int) -> None:
    """The port may start something at the end of this round."""
    if not st.ports[number]["touched"]:
        st.ports[number]["touched"] = 1
        append(st.touched, st.counts, TOUCHED, number)


@kernel
def _touch_all(s: Structure, times: PhaseTimes, st: State, chunk: np.void) -> None:
    """So may the ports that the chunk waits for."""
    for m in range(chunk["members"]):
        _touch(st, _port(s, times, chunk, m))


@inlined
def start_phases(s: Structure, times: PhaseTimes, st: State, now: int) -> None:
    """Every touched port starts the first of its queue, if that heads all its queues and they all
    have room; then what can pass, until nothing can."""
    several = False
    for i in range(st.counts[TOUCHED]):
        port = st.ports[st.touched[i]]
        while port["serving"] < s.shape.places and port["head"] >= 0:
            chunk = st.chunks[st.entries[port["head"]]["chunk"]]
            if chunk["members"] > 1:
                several = True
                if not _heads_all(s, times, st, chunk) or not _have_room(s, times, st, chunk):
                    break
            _start_phase(s, times, st, chunk, now)
    while several:
        several = _let_pass(s, times, st, now)
    for i in range(st.counts[TOUCHED]):
        st.ports[st.touched[i]]["touched"] = 0
    st.counts[TOUCHED] = 0


@kernel
def _let_pass(s: Structure, times: PhaseTimes, st: State, now: int) -> bool:
    """Start chunks that pass others; whether there were any.

    A chunk is passed over while something else heads the queue of another member of it.  Nothing
    passes one that heads all its queues.  Of those that could go, the first in a queue does.  All
    are found before any starts, so it does not matter whose queue is looked at first.
    """
    n = 0
    for i in range(st.counts[TOUCHED]):
        port = st.ports[st.touched[i]]
        if port["serving"] < s.shape.places and port["head"] >= 0:
            entry = _first_to_pass(s, times, st, port["head"])
            if entry >= 0:
                st.passing[n] = entry
                n += 1
    for i in range(n):
        chunk = st.chunks[st.entries[st.passing[i]]["chunk"]]
        if _have_room(s, times, st, chunk):  # else it has been found at another port, too
            _start_phase(s, times, st, chunk, now)
    return n > 0


@kernel
def _first_to_pass(s: Structure, times: PhaseTimes, st: State, head: int) -> int:
    """The entry of a queue with this head that passes others; or NONE."""
    if _heads_all(s, times, st, st.chunks[st.entries[head]["chunk"]]):
        return long(NONE)
    entry = head + 0
    while entry >= 0:
        chunk = st.chunks[st.entries[entry]["chunk"]]
        if _can_pass(s, times, st, chunk):
            return entry if _is_first_to_pass(s, times, st, chunk) else long(NONE)
        entry = st.entries[entry]["next"] + 0
    return long(NONE)


@kernel
def _heads_all(s: Structure, times: PhaseTimes, st: State, chunk: np.void) -> bool:
    """Whether the chunk is at the head of all its queues."""
    for m in range(chunk["members"]):
        if st.ports[_port(s, times, chunk, m)]["head"] != chunk["entry"] + m:
            return False
    return True


@kernel
def _have_room(s: Structure, times: PhaseTimes, st: State, chunk: np.void) -> bool:
    """Whether every port that the chunk needs has room."""
    for m in range(chunk["members"]):
        if st.ports[_port(s, times, chunk, m)]["serving"] == s.shape.places:
            return False
    return True


@kernel
def _can_pass(s: Structure, times: PhaseTimes, st: State, chunk: np.void) -> bool:
    """Whether the chunk could start, since whatever heads its queues must wait for others."""
    if not _have_room(s, times, st, chunk):
        return False
    for m in range(chunk["members"]):
        head = st.ports[_port(s, times, chunk, m)]["head"]
        if _heads_all(s, times, st, st.chunks[st.entries[head]["chunk"]]):
            return False
    return True


@kernel
def _is_first_to_pass(s: Structure, times: PhaseTimes, st: State, chunk: np.void) -> bool:
    """Whether no chunk that is before it in one of its queues could start as well."""
    for m in range(chunk["members"]):
        other = st.ports[_port(s, times, chunk, m)]["head"] + 0
        while other != chunk["entry"] + m:
            if _can_pass(s, times, st, st.chunks[st.entries[other]["chunk"]]):
                return False
            other = st.entries[other]["next"] + 0
    return True


@inlined
def _start_phase(s: Structure, times: PhaseTimes, st: State, chunk: np.void, now: int) -> None:
    """All ports that the chunk needs start it."""
    phase, entry = times.phases[chunk["at"]], chunk["entry"]
    number = chunk["record"] + chunk["at"] - chunk["first"]
    critical = _as_served(s, number - 1)
    if chunk["at"] == chunk["first"]:
        critical = st.flows[chunk["flow"]]["critical"]
    for m in range(chunk["members"]):
        cls = _class(s, chunk, m)
        begin_at_port(s, st, cls, cls * s.shape.n_ports + phase["port"], now)
        port = st.ports[cls * s.shape.n_ports + phase["port"]]
        if port["head"] == entry + m:
            port["head"] = st.entries[entry + m]["next"]
        else:
            _leave_queue(st, port, entry + m)
        port["serving"] += 1
        port["busy"] += phase["hold"]
        if port["freed"] == now:
            critical = port["critical"]
    st.phase_critical[number] = critical
    if len(st.phase_start) > 0:
        st.phase_start[number] = now
    if phase["steps"] < 0 and phase["entrance"] != NO_ENTRANCE:
        st.entering[st.counts[ENTERING]] = chunk["order"]
        st.counts[ENTERING] += 1
    else:
        _keep_time(s, times, st, chunk, now + phase["hold"])


@inlined
def _keep_time(s: Structure, times: PhaseTimes, st: State, chunk: np.void, due: int) -> None:
    """The first member's port keeps the time for all."""
    port = chunk["cls"] * s.shape.n_ports + times.phases[chunk["at"]]["port"]
    place = port * s.shape.places
    while st.place_due[place] != NEVER:
        place += 1
    st.places[place]["chunk"] = st.entries[chunk["entry"]]["chunk"]
    st.places[place]["serial"] = st.counts[STARTED]
    st.counts[STARTED] += 1
    st.place_due[place] = due
    note_start(st, chunk["cls"], due)


@kernel
def enter_targets(s: Structure, times: PhaseTimes, st: State, now: int) -> None:
    """Messages that started enter their targets, one after another on the same link, in the order
    of their flows.  The port of each is taken while it waits for those before it."""
    n = st.counts[ENTERING]
    st.counts[ENTERING] = 0
    _sort(st.entering, n)
    for i in range(n):
        chunk = st.chunks[st.entering[i] & 0xFFFFFFFF]
        phase = times.phases[chunk["at"]]
        cls = s.nodes[s.flows[chunk["flow"]]["receiver"]]["cls"]
        port = cls * s.shape.n_ports + phase["port"]
        entrance = st.entrances[port * ENTRANCES + phase["entrance"]]
        number, start = chunk["record"] + 0, now
        if entrance["until"] > now:
            start = entrance["until"] + 0
            st.phase_critical[number] = entrance["critical"]
            if len(st.phase_start) > 0:
                st.phase_start[number] = start
            st.ports[chunk["cls"] * s.shape.n_ports + phase["port"]]["busy"] += start - now
        entrance["until"] = start + phase["hold"]
        entrance["critical"] = _as_served(s, number)
        _keep_time(s, times, st, chunk, start + phase["hold"])


@kernel
def _leave_queue(st: State, port: np.void, entry: int) -> None:
    """An entry that was not the first leaves the port's queue."""
    before = port["head"] + 0
    while st.entries[before]["next"] != entry:
        before = st.entries[before]["next"] + 0
    st.entries[before]["next"] = st.entries[entry]["next"]
    if st.entries[entry]["next"] < 0:
        port["tail"] = before


@inlined
def _port(s: Structure, times: PhaseTimes, chunk: np.void, member: int) -> int:
    """The port of the chunk's ``member``-th member at which it waits."""
    return _class(s, chunk, member) * s.shape.n_ports + int(times.phases[chunk["at"]]["port"])


@inlined
def _class(s: Structure, chunk: np.void, member: int) -> int:
    """The class of the chunk's ``member``-th member."""
    if member == 0:
        return int(chunk["cls"])
    return int(s.members[chunk["member_start"] + member]["cls"])


@inlined
def end_phase(s: Structure, times: PhaseTimes, st: State, place: int, now: int) -> None:
    """What kept a place busy ends: free its ports, and send the chunk on."""
    st.place_due[place] = NEVER
    c = st.places[place]["chunk"]
    chunk = st.chunks[c]
    phase = times.phases[chunk["at"]]
    number = chunk["record"] + chunk["at"] - chunk["first"]
    for m in range(chunk["members"]):
        cls = _class(s, chunk, m)
        at = cls * s.shape.n_ports + phase["port"]
        port = st.ports[at]
        port["serving"] -= 1
        port["critical"], port["freed"] = _as_served(s, number), now
        if port["head"] >= 0:
            _touch(st, at)
        end_at_port(s, st, cls, at, now)
    chunk["at"] += 1
    if chunk["at"] < chunk["end"] and times.phases[chunk["at"]]["dim"] != NO_DIM:
        move(st, c)
        return
    f = chunk["flow"]
    flow = st.flows[f]
    flow["left"] -= 1
    if now + phase["late"] >= flow["due"]:
        flow["due"], flow["last"] = now + phase["late"], number
    if flow["left"] == 0:
        if flow["due"] == now:
            finish_flow(s, st, f, number)
        else:
            _wait_for_latencies(s, st, f, phase["port"], now)


@inlined
def _as_served(s: Structure, number: int) -> int:
    """The phase as what a port was busy with."""
    return transfer_of(number) if s.shape.latency_after else number


@inlined
def _wait_for_latencies(s: Structure, st: State, f: int, port: int, now: int) -> None:
    """All of the flow's chunks are through, the last one by ``port`` of each member class."""
    flow = st.flows[f]
    flow["port"] = port
    for member in s.members[s.flows[f]["member_start"] : s.flows[f]["member_end"]]:
        begin_at_port(s, st, member["cls"], member["cls"] * s.shape.n_ports + port, now)
    number = s.members[s.flows[f]["member_start"]]["cls"]
    before, after = NONE, st.classes[number]["late"]
    while after >= 0 and (
        st.flows[after]["due"] < flow["due"]
        or (st.flows[after]["due"] == flow["due"] and st.flows[after]["port"] <= port)
    ):
        before, after = after, st.flows[after]["next"]
    flow["next"] = after
    if before >= 0:
        st.flows[before]["next"] = f
        return
    st.classes[number]["late"] = f
    st.flight_due[number] = flow["due"]
    note_start(st, number, flow["due"])


@inlined
def land(s: Structure, st: State, cls: int, now: int) -> None:
    """The latencies of the first of the class's flows that wait for them have passed."""
    f = st.classes[cls]["late"]
    after = st.flows[f]["next"]
    st.classes[cls]["late"] = after
    st.flight_due[cls] = st.flows[after]["due"] if after >= 0 else NEVER
    for member in s.members[s.flows[f]["member_start"] : s.flows[f]["member_end"]]:
        at = member["cls"] * s.shape.n_ports + st.flows[f]["port"]
        end_at_port(s, st, member["cls"], at, now)
    finish_flow(s, st, f, st.flows[f]["last"])


@inlined
def move(st: State, chunk: int) -> None:
    """Send a chunk to its next queue at the end of this round."""
    st.moving[st.counts[MOVING]] = st.chunks[chunk]["order"]
    st.counts[MOVING] += 1


@kernel
def finish_flow(s: Structure, st: State, f: int, critical: int) -> None:
    """Its nodes end at this instant, as the interval ``critical`` does."""
    flow = s.flows[f]
    for member in s.members[flow["member_start"] : flow["member_end"]]:
        append(st.ending, st.counts, ENDING, member["node"])
        st.nodes[member["node"]]["critical"] = critical
    receiver = flow["receiver"]
    if receiver != NO_NODE and st.nodes[receiver]["state"] == RUNNING:
        st.nodes[receiver]["critical"] = critical
        append(st.ending, st.counts, ENDING, receiver)
