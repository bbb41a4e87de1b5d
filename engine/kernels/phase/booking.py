"""What a class does with its time: compute, or communication that no compute hides.

Communication is exposed while the class computes nothing.  An instant of it is shared equally among
the operators in flight, and among the ports that serve the class.  A class adds up one such share
from the beginning; an operator's, or a port's, is what is added from when it begins to when it
ends.
"""

from engine.kernels.jit import inlined
from engine.kernels.phase.state import State
from engine.lower.program import Structure


@inlined
def account(s: Structure, st: State, number: int, now: int) -> None:
    """Book the time since the class last changed.  Call it before the class changes."""
    cls = st.classes[number]
    span = now - cls["clock"]
    if span == 0:
        return
    cls["clock"] = now
    if st.streams[number * s.shape.n_streams]["node"] >= 0:
        cls["compute"] += span
    elif cls["in_flight"] > 0:
        cls["exposed"] += span
        cls["per_operator"] += _share(span, cls["in_flight"])
        if cls["serving"] > 0:
            cls["per_port"] += _share(span, cls["serving"])
        else:
            cls["unserved"] += span


@inlined
def _share(span: int, n: int) -> float:
    return float(span) if n == 1 else span / n  # division is slow, and n is nearly always 1


@inlined
def begin_communication(s: Structure, st: State, node: int, now: int) -> None:
    """One more operator of the node's class is in flight."""
    cls, tally = s.nodes[node]["cls"], s.nodes[node]["tally"]
    account(s, st, cls, now)
    st.classes[cls]["in_flight"] += 1
    st.tally_exposed[cls, tally] -= st.classes[cls]["per_operator"]


@inlined
def end_communication(s: Structure, st: State, node: int, now: int) -> None:
    """The opposite of :func:`begin_communication`."""
    cls, tally = s.nodes[node]["cls"], s.nodes[node]["tally"]
    account(s, st, cls, now)
    st.classes[cls]["in_flight"] -= 1
    st.tally_exposed[cls, tally] += st.classes[cls]["per_operator"]


@inlined
def begin_at_port(s: Structure, st: State, cls: int, number: int, now: int) -> None:
    """One more phase is under way from a port of the class."""
    account(s, st, cls, now)
    port = st.ports[number]
    if port["under_way"] == 0:
        st.classes[cls]["serving"] += 1
        port["exposed"] -= st.classes[cls]["per_port"]
    port["under_way"] += 1


@inlined
def end_at_port(s: Structure, st: State, cls: int, number: int, now: int) -> None:
    """The opposite of :func:`begin_at_port`."""
    account(s, st, cls, now)
    port = st.ports[number]
    port["under_way"] -= 1
    if port["under_way"] == 0:
        st.classes[cls]["serving"] -= 1
        port["exposed"] += st.classes[cls]["per_port"]
