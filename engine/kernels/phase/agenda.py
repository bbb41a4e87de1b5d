"""When something ends next: in a class, and of all.

A slot holds the time at which what a timed stream runs, what a place at a port serves, or the first
of a class's flows that wait for latencies only, ends.
``State.tree`` keeps the earliest slot of every class, and over them the earliest of two and two as
in a tournament: its leaves are the classes, and 1 is its root.
"""

from engine.compiler import inlined
from engine.kernels.core.none import NEVER
from engine.kernels.phase.state import State, long
from engine.lower.program import Structure


@inlined
def class_due(st: State, cls: int) -> int:
    """When something ends next in a class, or NEVER."""
    return st.tree[(len(st.tree) >> 1) + cls]


@inlined
def set_class_due(st: State, cls: int, due: int) -> None:
    """Something ends next in the class when ``due``."""
    i = (len(st.tree) >> 1) + cls
    st.tree[i] = due
    while i > 1:
        due = min(due, st.tree[i ^ 1])
        i >>= 1
        if st.tree[i] == due:
            return
        st.tree[i] = due


@inlined
def note_start(st: State, cls: int, due: int) -> None:
    """Something began in the class that ends when ``due``."""
    if due < class_due(st, cls):
        set_class_due(st, cls, due)


@inlined
def earliest(st: State) -> tuple[int, int]:
    """When something ends next, and the first class in which it does; (NEVER, 0) if nothing."""
    now, i, leaf = st.tree[1], 1, len(st.tree) >> 1
    while i < leaf:
        i *= 2
        if st.tree[i] != now:
            i += 1
    return now, long(i - leaf)


@inlined
def next_on_streams(s: Structure, st: State, cls: int) -> int:
    """When one of the class's timed streams ends next what it runs."""
    due = long(NEVER)
    for i in range(s.shape.n_timed):
        due = min(due, st.stream_due[cls * s.shape.n_timed + i])
    return due


@inlined
def next_end(s: Structure, st: State, cls: int) -> int:
    """When something ends next in the class, by its slots."""
    due = next_on_streams(s, st, cls)
    places = places_of(s, cls)
    for place in range(places[0], places[1]):
        due = min(due, st.place_due[place])
    return min(due, st.flight_due[cls])


@inlined
def places_of(s: Structure, cls: int) -> tuple[int, int]:
    """The class's places: from, to."""
    per_class = s.shape.n_ports * s.shape.places
    return cls * per_class, (cls + 1) * per_class
