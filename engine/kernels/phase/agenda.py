"""When something ends next: in a class, and of all.

A class has slots: one for each stream that times what it runs, one for each place at its ports, and
the last one for the first of its flows that wait for latencies only.  ``State.due`` says when that
ends, or NEVER.  ``State.tree`` keeps the earliest slot of every class, and over them the earliest
of two and two as in a tournament: its leaves are the classes, and 1 is its root.
"""

from dimsweep.engine.compiler import inlined
from dimsweep.engine.kernels.core.none import NEVER
from dimsweep.engine.kernels.phase.state import Sim, long


@inlined
def class_due(sim: Sim, cls: int) -> int:
    """When something ends next in a class, or NEVER."""
    return sim.st.tree[(len(sim.st.tree) >> 1) + cls]


@inlined
def set_class_due(sim: Sim, cls: int, due: int) -> None:
    """Something ends next in the class when ``due``."""
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
    """Something began in the class that ends when ``due``."""
    if due < class_due(sim, cls):
        set_class_due(sim, cls, due)


@inlined
def begin_on_stream(sim: Sim, node: int, due: int) -> None:
    """The node's timed stream runs it until ``due``."""
    cls = sim.s.nodes[node].cls
    sim.st.due[slot_of(sim, node)] = due
    note_start(sim, cls, due)


@inlined
def earliest(sim: Sim) -> tuple[int, int]:
    """When something ends next, and the first class in which it does; (NEVER, 0) if nothing."""
    now, i, leaf = sim.st.tree[1], 1, len(sim.st.tree) >> 1
    while i < leaf:
        i *= 2
        if sim.st.tree[i] != now:
            i += 1
    return now, long(i - leaf)


@inlined
def next_end(sim: Sim, cls: int) -> int:
    """When something ends next in the class, by its slots."""
    due, slots = long(NEVER), slots_of(sim, cls)
    for slot in range(slots[0], slots[1]):
        due = min(due, sim.st.due[slot])
    return due


@inlined
def slots_of(sim: Sim, cls: int) -> tuple[int, int]:
    """The class's slots: from, to."""
    shape = sim.s.shape
    n = shape.n_timed + shape.n_ports * shape.places + 1
    return cls * n, (cls + 1) * n


@inlined
def stream_of(sim: Sim, cls: int, slot: int) -> int:
    """The class's timed stream of a slot."""
    return cls * sim.s.shape.n_streams + slot - slots_of(sim, cls)[0]


@inlined
def slot_of(sim: Sim, node: int) -> int:
    """The slot of the node's timed stream."""
    cls = sim.s.nodes[node].cls
    return slots_of(sim, cls)[0] + sim.s.nodes[node].stream - cls * sim.s.shape.n_streams
