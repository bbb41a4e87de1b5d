"""Ports: chunks queue for a port, hold a place at it for a phase, and continue to the next.

A chunk of several classes starts when all its ports have room.  :func:`_start_passing_chunks`
chooses among them: the first chunk of a queue goes first, unless another chunk heads the queue of
another member.

A phase holds its place while bytes move and are reduced, and the chunk then continues at once.  Its
latencies pass after its last phase, and its flow ends when the latencies of all its chunks have
passed.
"""

from typing import Any

import numpy as np

from dimsweep.engine.compiler import inlined, kernel
from dimsweep.engine.kernels.core.accounts import BEGINS, ENDS
from dimsweep.engine.kernels.core.compiling import long
from dimsweep.engine.kernels.core.queues import (
    append,
    insert,
    put,
    sort,
    take_after,
    take_all,
    take_first,
)
from dimsweep.engine.kernels.core.tables import NEVER, NONE, RUNNING
from dimsweep.engine.kernels.phase.classes import book_port, note_start, slots_of
from dimsweep.engine.kernels.phase.state import Sim, transfer_of
from dimsweep.engine.kinds import QueueOrder
from dimsweep.engine.topology.blocks import ENTRANCES


@inlined
def move_on(sim: Sim, chunk: int) -> None:
    """Register a chunk to be queued at its next phase's ports at the end of this round."""
    put(sim.st.moving, sim.st.chunks[chunk].order)


@inlined
def queue_chunks(sim: Sim, now: int) -> None:
    """Append the registered chunks to the queues of their next phase's ports."""
    st = sim.st
    sort(st.moving)
    n = take_all(st.moving)
    for i in range(n):
        chunk = st.chunks[st.moving.numbers[i] & 0xFFFFFFFF]
        if n == 1 and chunk.members == 1:
            port = st.ports[_port(sim, chunk, 0)]
            if port.serving < sim.s.shape.places and port.head == NONE:  # no need to queue
                append(port, st.entries, chunk.entry)
                _start_phase(sim, chunk, now)
                return
        for m in range(chunk.members):
            number = _port(sim, chunk, m)
            _enqueue(sim, number, chunk.entry + m)
            _touch(sim, number)


@inlined
def _enqueue(sim: Sim, number: int, entry: int) -> None:
    port, entries = sim.st.ports[number], sim.st.entries
    before, after = NONE, port.head
    if after >= 0 and (_is_message(sim, entry) or sim.s.shape.queue == QueueOrder.LIFO):
        while after >= 0 and _is_message(sim, after):
            before, after = after, entries[after].next
    elif after >= 0 and sim.s.shape.queue == QueueOrder.FIFO:
        before = port.tail
    elif after >= 0:
        # Behind the last one that does not rank after it: equals keep their order of arrival.
        rank = _queue_rank(sim, entry)
        while after >= 0 and _queue_rank(sim, after) <= rank:
            before, after = after, entries[after].next
    if before == NONE and port.head != NONE:  # which is first no more
        _touch_all(sim, sim.st.chunks[entries[port.head].chunk])
    insert(port, entries, before, entry)


@inlined
def _is_message(sim: Sim, entry: int) -> bool:
    """Return whether an entry is a point-to-point message, which precedes all chunks."""
    return bool(sim.times.phases[sim.st.chunks[sim.st.entries[entry].chunk].at].steps < 0)


@kernel
def _queue_rank(sim: Sim, entry: int) -> float:
    chunk = sim.st.chunks[sim.st.entries[entry].chunk]
    if _is_message(sim, entry):
        return -np.inf
    if sim.s.shape.queue == QueueOrder.PRIORITY:
        return -float(sim.s.forms[sim.s.flows[chunk.flow].form].priority)
    return float(sim.times.phases[chunk.at].size)


@inlined
def _touch(sim: Sim, number: int) -> None:
    """Mark a port that may start a chunk at the end of this round."""
    if not sim.st.ports[number].touched:
        sim.st.ports[number].touched = 1
        put(sim.st.touched, number)


@kernel
def _touch_all(sim: Sim, chunk: Any) -> None:
    """Mark all ports at which a chunk waits."""
    for m in range(chunk.members):
        _touch(sim, _port(sim, chunk, m))


@inlined
def start_phases(sim: Sim, now: int) -> None:
    """Start chunks at the marked ports: heads of all their queues, then passing chunks."""
    st, several = sim.st, False
    for i in range(st.touched.filled[0]):
        port = st.ports[st.touched.numbers[i]]
        while port.serving < sim.s.shape.places and port.head != NONE:
            chunk = st.chunks[st.entries[port.head].chunk]
            if chunk.members > 1:
                several = True
                if not _heads_all(sim, chunk) or not _ports_have_room(sim, chunk):
                    break
            _start_phase(sim, chunk, now)
    while several:
        several = _start_passing_chunks(sim, now)
    for i in range(take_all(st.touched)):
        st.ports[st.touched.numbers[i]].touched = 0


@kernel
def _start_passing_chunks(sim: Sim, now: int) -> bool:
    """Start chunks that overtake blocked ones; return whether there were any.

    A chunk is overtaken while another chunk heads the queue of one of its other members.  No chunk
    overtakes one that heads all its queues.  Of the chunks that could start, the first in a queue
    does. All are found before any starts, so the order in which queues are examined does not
    matter.
    """
    st = sim.st
    for i in range(st.touched.filled[0]):
        port = st.ports[st.touched.numbers[i]]
        if port.serving < sim.s.shape.places and port.head != NONE:
            entry = _find_passing(sim, port.head)
            if entry != NONE:
                put(st.passing, entry)
    n = take_all(st.passing)
    for i in range(n):
        chunk = st.chunks[st.entries[st.passing.numbers[i]].chunk]
        if _ports_have_room(sim, chunk):  # else it has been found at another port, too
            _start_phase(sim, chunk, now)
    return n > 0


@kernel
def _find_passing(sim: Sim, head: int) -> int:
    """Return the first entry behind ``head`` that may overtake the blocked ones, or NONE."""
    entries, chunks = sim.st.entries, sim.st.chunks
    if _heads_all(sim, chunks[entries[head].chunk]):
        return long(NONE)
    entry = long(head)
    while entry != NONE:
        chunk = chunks[entries[entry].chunk]
        if _can_pass(sim, chunk):
            return entry if _is_first_to_pass(sim, chunk) else long(NONE)
        entry = long(entries[entry].next)
    return long(NONE)


@kernel
def _heads_all(sim: Sim, chunk: Any) -> bool:
    """Return whether the chunk is at the head of all its queues."""
    for m in range(chunk.members):
        if sim.st.ports[_port(sim, chunk, m)].head != chunk.entry + m:
            return False
    return True


@kernel
def _ports_have_room(sim: Sim, chunk: Any) -> bool:
    """Return whether every port that the chunk needs has room."""
    for m in range(chunk.members):
        if sim.st.ports[_port(sim, chunk, m)].serving == sim.s.shape.places:
            return False
    return True


@kernel
def _can_pass(sim: Sim, chunk: Any) -> bool:
    """Return whether the chunk has room and every head of its queues is blocked elsewhere."""
    if not _ports_have_room(sim, chunk):
        return False
    for m in range(chunk.members):
        head = sim.st.ports[_port(sim, chunk, m)].head
        if _heads_all(sim, sim.st.chunks[sim.st.entries[head].chunk]):
            return False
    return True


@kernel
def _is_first_to_pass(sim: Sim, chunk: Any) -> bool:
    """Return whether no earlier chunk in any queue of this chunk could overtake as well."""
    for m in range(chunk.members):
        other = long(sim.st.ports[_port(sim, chunk, m)].head)
        while other != chunk.entry + m:
            if _can_pass(sim, sim.st.chunks[sim.st.entries[other].chunk]):
                return False
            other = long(sim.st.entries[other].next)
    return True


@inlined
def _start_phase(sim: Sim, chunk: Any, now: int) -> None:
    """Start the chunk's current phase at all ports that it needs."""
    st, phase, entry = sim.st, sim.times.phases[chunk.at], chunk.entry
    number = chunk.record + chunk.at - chunk.first
    critical = _as_transfer(sim, number - 1)
    if chunk.at == chunk.first:
        critical = st.flows[chunk.flow].critical
    for m in range(chunk.members):
        at = _port(sim, chunk, m)
        book_port(sim, _class(sim, chunk, m), at, BEGINS, now)
        port = st.ports[at]
        if port.head == entry + m:
            take_first(port, st.entries)
        else:
            _leave_queue(sim, port, entry + m)
        port.serving += 1
        port.busy += phase.hold
        if port.freed == now:
            critical = port.critical
    st.phase_critical[number] = critical
    if len(st.phase_start) > 0:
        st.phase_start[number] = now
    if phase.steps < 0 and phase.entrance != NONE:
        put(st.entering, chunk.order)
    else:
        _schedule_end(sim, chunk, now + phase.hold)


@kernel
def _leave_queue(sim: Sim, port: Any, entry: int) -> None:
    """Remove an entry that is not the first from a port's queue."""
    before = long(port.head)
    while sim.st.entries[before].next != entry:
        before = long(sim.st.entries[before].next)
    take_after(port, sim.st.entries, before, entry)


@inlined
def _schedule_end(sim: Sim, chunk: Any, due: int) -> None:
    """Schedule the end of a chunk's phase, in a slot of its first member's port."""
    shape, port = sim.s.shape, sim.times.phases[chunk.at].port
    slot = slots_of(sim, chunk.cls)[0] + shape.n_timed + port * shape.places
    while sim.st.due[slot] != NEVER:
        slot += 1
    sim.st.served[slot] = sim.st.entries[chunk.entry].chunk
    sim.rules.occupy(sim, slot)
    sim.st.due[slot] = due
    note_start(sim, chunk.cls, due)


@inlined
def occupy(sim: Sim, slot: int) -> None:
    """Do nothing: the model ignores the order in which ports begin to serve chunks."""


@kernel
def enter_targets(sim: Sim, now: int) -> None:
    """Let started point-to-point messages occupy their target's incoming link, one at a time.

    They are ordered by flow.  A message keeps its sender's port while it waits for messages before
    it.
    """
    s, st = sim.s, sim.st
    sort(st.entering)
    for i in range(take_all(st.entering)):
        chunk = st.chunks[st.entering.numbers[i] & 0xFFFFFFFF]
        phase = sim.times.phases[chunk.at]
        port = s.nodes[s.flows[chunk.flow].receiver].cls * s.shape.n_ports + phase.port
        entrance = st.entrances[port * ENTRANCES + phase.entrance]
        number, start = long(chunk.record), now
        if entrance.until > now:
            start = entrance.until
            st.phase_critical[number] = entrance.critical
            if len(st.phase_start) > 0:
                st.phase_start[number] = start
            st.ports[_port(sim, chunk, 0)].busy += start - now
        entrance.until = start + phase.hold
        entrance.critical = _as_transfer(sim, number)
        _schedule_end(sim, chunk, start + phase.hold)


@inlined
def _port(sim: Sim, chunk: Any, member: int) -> int:
    """Return the port at which the chunk's ``member``-th member waits."""
    return _class(sim, chunk, member) * sim.s.shape.n_ports + int(sim.times.phases[chunk.at].port)


@inlined
def _class(sim: Sim, chunk: Any, member: int) -> int:
    """Return the class of the chunk's ``member``-th member."""
    if member == 0:
        return int(chunk.cls)
    return int(sim.s.members[chunk.member_start + member].cls)


@inlined
def _as_transfer(sim: Sim, number: int) -> int:
    """Return interval ``number`` as critical predecessor of its port's next user: no latencies."""
    return transfer_of(number) if sim.rules.latency_after() else number


@inlined
def end_phase(sim: Sim, slot: int, now: int) -> None:
    """End the phase in a slot: free its ports and let the chunk continue."""
    st = sim.st
    st.due[slot] = NEVER
    c = st.served[slot]
    chunk = st.chunks[c]
    phase = sim.times.phases[chunk.at]
    number = chunk.record + chunk.at - chunk.first
    for m in range(chunk.members):
        at = _port(sim, chunk, m)
        port = st.ports[at]
        port.serving -= 1
        port.critical, port.freed = _as_transfer(sim, number), now
        if port.head != NONE:
            _touch(sim, at)
        book_port(sim, _class(sim, chunk, m), at, ENDS, now)
    chunk.at += 1
    if chunk.at < chunk.end and sim.times.phases[chunk.at].dim != NONE:
        move_on(sim, c)
        return
    flow = st.flows[chunk.flow]
    flow.left -= 1
    if now + phase.late >= flow.due:
        flow.due, flow.last = now + phase.late, number
    if flow.left == 0:
        if flow.due == now:
            finish_flow(sim, chunk.flow, number)
        else:
            _wait_for_latencies(sim, chunk.flow, phase.port, now)


@inlined
def _wait_for_latencies(sim: Sim, f: int, port: int, now: int) -> None:
    """Schedule the end of a flow, all of whose chunks are complete, after their latencies."""
    flows, flow = sim.st.flows, sim.st.flows[f]
    number = sim.s.members[sim.s.flows[f].member_start].cls  # the first member keeps the time
    flow.port = port
    _book_latencies(sim, f, BEGINS, now)
    late = sim.st.classes[number].late
    before, after = NONE, late.head
    while after >= 0 and (
        flows[after].due < flow.due or (flows[after].due == flow.due and flows[after].port <= port)
    ):
        before, after = after, flows[after].next
    insert(late, flows, before, f)
    if before == NONE:
        sim.st.due[slots_of(sim, number)[1] - 1] = flow.due
        note_start(sim, number, flow.due)


@inlined
def _book_latencies(sim: Sim, f: int, change: int, now: int) -> None:
    """Record that a flow's last latencies begin or end (``change``) at its members' ports."""
    for member in sim.s.members[sim.s.flows[f].member_start : sim.s.flows[f].member_end]:
        at = member.cls * sim.s.shape.n_ports + sim.st.flows[f].port
        book_port(sim, member.cls, at, change, now)


@inlined
def end_latencies(sim: Sim, cls: int, now: int) -> None:
    """Finish the flow of the class whose latencies have passed first."""
    late = sim.st.classes[cls].late
    f = take_first(late, sim.st.flows)
    due = sim.st.flows[late.head].due if late.head != NONE else NEVER
    sim.st.due[slots_of(sim, cls)[1] - 1] = due
    _book_latencies(sim, f, ENDS, now)
    finish_flow(sim, f, sim.st.flows[f].last)


@kernel
def finish_flow(sim: Sim, f: int, critical: int) -> None:
    """End the nodes of a flow at this instant; ``critical`` is the interval that completed it."""
    flow = sim.s.flows[f]
    for member in sim.s.members[flow.member_start : flow.member_end]:
        put(sim.st.ending, member.node)
        sim.st.nodes[member.node].critical = critical
    receiver = flow.receiver
    if receiver != NONE and sim.st.nodes[receiver].state == RUNNING:
        sim.st.nodes[receiver].critical = critical
        put(sim.st.ending, receiver)
