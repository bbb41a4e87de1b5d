"""Classes of ranks: their next event, their time account, and accesses to shared memories.

A class has *slots* for the intervals in progress: one for each stream that times an operator, one
for each place at its ports, and a last one for the first of its flows that wait for latencies only.
``State.due`` holds the end time of each slot, or NEVER.  ``State.tree`` is a tournament tree over
the earliest end of every class: its leaves are the classes, and 1 is its root.

Time is booked as in :mod:`engine.kernels.core.accounts`, inside chains as well.  A class has at
most one access to a shared memory in flight, and all ranks of a class have it at once.
"""

import numpy as np

from dimsweep.engine.compiler import inlined, kernel
from dimsweep.engine.kernels.core.accounts import (
    BEGINS,
    ENDS,
    access_time,
    begin_access,
    book,
    change_flight,
    change_port,
    continue_access,
    serve,
)
from dimsweep.engine.kernels.core.compiling import long
from dimsweep.engine.kernels.core.tables import NEVER, NONE
from dimsweep.engine.kernels.phase.phase_time import round_half_up
from dimsweep.engine.kernels.phase.state import Sim


@inlined
def class_due(sim: Sim, cls: int) -> int:
    """Return the time at which the next interval of a class ends, or NEVER."""
    return sim.st.tree[(len(sim.st.tree) >> 1) + cls]


@inlined
def set_class_due(sim: Sim, cls: int, due: int) -> None:
    """Set the time at which the next interval of a class ends, and update the tournament tree."""
    i = (len(sim.st.tree) >> 1) + cls
    sim.st.tree[i] = due
    while i > 1:
        due = min(due, sim.st.tree[i ^ 1])
        i >>= 1
        if sim.st.tree[i] == due:
            return
        sim.st.tree[i] = due


@inlined
def note_start(sim: Sim, cls: int, due: int) -> None:
    """Register that an interval of the class ends at ``due``."""
    if due < class_due(sim, cls):
        set_class_due(sim, cls, due)


@inlined
def begin_on_stream(sim: Sim, node: int, due: int) -> None:
    """Occupy the slot of a node's stream until ``due``."""
    cls = sim.s.nodes[node].cls
    sim.st.due[slot_of(sim, node)] = due
    note_start(sim, cls, due)


@inlined
def earliest_end(sim: Sim) -> tuple[int, int]:
    """Return the time at which the next interval ends, and its class; (NEVER, 0) if none."""
    now, i, leaf = sim.st.tree[1], 1, len(sim.st.tree) >> 1
    while i < leaf:
        i *= 2
        if sim.st.tree[i] != now:
            i += 1
    return now, long(i - leaf)


@inlined
def next_end(sim: Sim, cls: int) -> int:
    """Return the earliest end time among the slots of a class."""
    due, slots = long(NEVER), slots_of(sim, cls)
    for slot in range(slots[0], slots[1]):
        due = min(due, sim.st.due[slot])
    return due


@inlined
def slots_of(sim: Sim, cls: int) -> tuple[int, int]:
    """Return the range (from, to) of the slots of a class."""
    shape = sim.s.shape
    n = shape.n_timed + shape.n_ports * shape.places + 1
    return cls * n, (cls + 1) * n


@inlined
def stream_of(sim: Sim, cls: int, slot: int) -> int:
    """Return the stream that a slot of a class belongs to."""
    return cls * sim.s.shape.n_streams + slot - slots_of(sim, cls)[0]


@inlined
def slot_of(sim: Sim, node: int) -> int:
    """Return the slot of the stream on which a node runs."""
    cls = sim.s.nodes[node].cls
    return slots_of(sim, cls)[0] + sim.s.nodes[node].stream - cls * sim.s.shape.n_streams


@inlined
def book_class(sim: Sim, number: int, now: int) -> None:
    """Add the time since a class's last change to its account; call before each change."""
    cls = sim.st.classes[number]
    if cls.clock == now:
        return
    while cls.mark_due < now:
        _pass_mark(sim, number)
    _book(sim, number, now)


@inlined
def _book(sim: Sim, number: int, now: int) -> None:
    cls = sim.st.classes[number]
    computes = sim.st.streams[number * sim.s.shape.n_streams].node >= 0 and not cls.pauses
    book(cls, computes, now)


@inlined
def begin_chain(sim: Sim, node: int, now: int) -> int:
    """Start a chain on a class; its first link computes.  Return the chain's duration (ps)."""
    cls, chain = sim.st.classes[sim.s.nodes[node].cls], sim.s.nodes[node].tally
    cls.mark = 2 * sim.s.chains[chain].start + 1  # the first link has begun
    cls.mark_due = now + sim.st.marks[cls.mark].due
    return sim.st.chains[chain].duration


@kernel
def _pass_mark(sim: Sim, number: int) -> None:
    """Book the next begin or end of a link in the chain that a class runs."""
    cls = sim.st.classes[number]
    mark = sim.st.marks[cls.mark]
    _book(sim, number, cls.mark_due)
    link = sim.s.links[mark.link]
    port = number * sim.s.shape.n_ports + link.port
    if link.form == NONE:
        cls.pauses = not mark.begins
    elif mark.begins:
        change_flight(cls, sim.st.tally_exposed, number, link.tally, BEGINS)
        change_port(cls, sim.st.ports[port], BEGINS)
        sim.st.ports[port].busy += sim.st.links[mark.link].busy
    else:
        change_port(cls, sim.st.ports[port], ENDS)
        change_flight(cls, sim.st.tally_exposed, number, link.tally, ENDS)
    cls.mark += 1
    cls.mark_due += sim.st.marks[cls.mark].due - mark.due


@inlined
def book_flight(sim: Sim, node: int, change: int, now: int) -> None:
    """Record that a node's communication begins or ends (``change``) to be in flight."""
    cls, tally = sim.s.nodes[node].cls, sim.s.nodes[node].tally
    book_class(sim, cls, now)
    change_flight(sim.st.classes[cls], sim.st.tally_exposed, cls, tally, change)


@inlined
def book_port(sim: Sim, cls: int, number: int, change: int, now: int) -> None:
    """Record that a phase begins or ends (``change``) at a port of a class."""
    book_class(sim, cls, now)
    change_port(sim.st.classes[cls], sim.st.ports[number], change)


@inlined
def is_served(sim: Sim, cls: int, node: int) -> bool:
    """Return whether shared servers are moving bytes of the class's memory access ``node``."""
    return bool(sim.s.nodes[node].service != NONE and sim.st.accesses[cls].node == node)


@kernel
def join_servers(sim: Sim, node: int, now: int) -> None:
    """Begin a memory access; its end is computed at the end of the round."""
    access = sim.st.accesses[sim.s.nodes[node].cls]
    access.node = node
    begin_access(access, now)
    _note_shift(sim, node, 1)


@kernel
def leave_servers(sim: Sim, node: int, now: int) -> int:
    """Release the servers of a memory access; return the time when its latency has passed."""
    sim.st.accesses[sim.s.nodes[node].cls].node = NONE
    sim.st.left_at[node] = sim.st.counts[0].shifts
    _note_shift(sim, node, -1)
    return now + sim.s.services[sim.s.nodes[node].service].latency


@kernel
def _note_shift(sim: Sim, node: int, sign: int) -> None:
    serve(sim.st.servers, sim.s.nodes[node].service, sign)
    shift = sim.st.shifts[sim.st.counts[0].shifts]
    shift.node, shift.sign, shift.weight = node, sign, 0.0
    sim.st.counts[0].shifts += 1
    sim.st.counts[0].unsettled = 1


@kernel
def settle_servers(sim: Sim, now: int) -> None:
    """Recompute the server shares and end times of all memory accesses in flight."""
    sim.st.counts[0].unsettled = 0
    for cls in range(sim.s.shape.n_classes):
        access = sim.st.accesses[cls]
        if access.node < 0:
            continue
        takes = access_time(sim.st.servers, sim.s.nodes[access.node].service)
        if takes != access.duration:
            due = now + np.int64(round_half_up(continue_access(access, takes, now)))
            sim.st.due[slot_of(sim, access.node)] = due
            set_class_due(sim, cls, next_end(sim, cls))
