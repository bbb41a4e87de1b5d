"""What a class does with its time: compute, or communication that no compute hides.

Communication is exposed while the class computes nothing.  An instant of it is shared equally among
the operators in flight, and among the ports that serve the class.  A class adds up one such share
from the beginning; an operator's, or a port's, is what is added from when it begins to when it
ends.
"""

from engine.compiler import inlined, kernel
from engine.kernels.phase.state import State
from engine.lower.program import NO_FORM, Structure


@inlined
def account(s: Structure, st: State, number: int, now: int) -> None:
    """Book the time since the class last changed.  Call it before the class changes."""
    cls = st.classes[number]
    if cls["clock"] == now:
        return
    while cls["mark_due"] < now:
        _pass_mark(s, st, number)
    _book(s, st, number, now)


@inlined
def _book(s: Structure, st: State, number: int, now: int) -> None:
    cls = st.classes[number]
    span = now - cls["clock"]
    cls["clock"] = now
    if st.streams[number * s.shape.n_streams]["node"] >= 0 and not cls["pauses"]:
        cls["compute"] += span
    elif cls["in_flight"] > 0:
        cls["exposed"] += span
        cls["per_operator"] += _share(span, cls["in_flight"])
        if cls["serving"] > 0:
            cls["per_port"] += _share(span, cls["serving"])
        else:
            cls["unserved"] += span


@inlined
def begin_chain(s: Structure, st: State, node: int, now: int) -> int:
    """The class runs a chain, whose first link computes; returns how long it takes."""
    cls, chain = st.classes[s.nodes[node]["cls"]], s.nodes[node]["tally"]
    cls["mark"] = 2 * s.chains[chain]["start"] + 1  # the first link has begun
    cls["mark_due"] = now + st.marks[cls["mark"]]["due"]
    return st.chains[chain]["duration"]


@kernel
def _pass_mark(s: Structure, st: State, number: int) -> None:
    """A link of the class's chain begins or ends."""
    cls, mark = st.classes[number], st.marks[st.classes[number]["mark"]]
    _book(s, st, number, cls["mark_due"])
    link = s.links[mark["link"]]
    port = number * s.shape.n_ports + link["port"]
    if link["form"] == NO_FORM:
        cls["pauses"] = not mark["begins"]
    elif mark["begins"]:
        _enter_flight(st, number, link["tally"])
        _enter_port(st, number, port)
        st.ports[port]["busy"] += st.links[mark["link"]]["busy"]
    else:
        _leave_port(st, number, port)
        _leave_flight(st, number, link["tally"])
    cls["mark"] += 1
    cls["mark_due"] += st.marks[cls["mark"]]["due"] - mark["due"]


@inlined
def _share(span: int, n: int) -> float:
    return float(span) if n == 1 else span / n  # division is slow, and n is nearly always 1


@inlined
def begin_communication(s: Structure, st: State, node: int, now: int) -> None:
    """One more operator of the node's class is in flight."""
    cls, tally = s.nodes[node]["cls"], s.nodes[node]["tally"]
    account(s, st, cls, now)
    _enter_flight(st, cls, tally)


@inlined
def _enter_flight(st: State, cls: int, tally: int) -> None:
    st.classes[cls]["in_flight"] += 1
    st.tally_exposed[cls, tally] -= st.classes[cls]["per_operator"]


@inlined
def end_communication(s: Structure, st: State, node: int, now: int) -> None:
    """The opposite of :func:`begin_communication`."""
    cls, tally = s.nodes[node]["cls"], s.nodes[node]["tally"]
    account(s, st, cls, now)
    _leave_flight(st, cls, tally)


@inlined
def _leave_flight(st: State, cls: int, tally: int) -> None:
    st.classes[cls]["in_flight"] -= 1
    st.tally_exposed[cls, tally] += st.classes[cls]["per_operator"]


@inlined
def begin_at_port(s: Structure, st: State, cls: int, number: int, now: int) -> None:
    """One more phase is under way from a port of the class."""
    account(s, st, cls, now)
    _enter_port(st, cls, number)


@inlined
def _enter_port(st: State, cls: int, number: int) -> None:
    port = st.ports[number]
    if port["under_way"] == 0:
        st.classes[cls]["serving"] += 1
        port["exposed"] -= st.classes[cls]["per_port"]
    port["under_way"] += 1


@inlined
def end_at_port(s: Structure, st: State, cls: int, number: int, now: int) -> None:
    """The opposite of :func:`begin_at_port`."""
    account(s, st, cls, now)
    _leave_port(st, cls, number)


@inlined
def _leave_port(st: State, cls: int, number: int) -> None:
    port = st.ports[number]
    port["under_way"] -= 1
    if port["under_way"] == 0:
        st.classes[cls]["serving"] -= 1
        port["exposed"] += st.classes[cls]["per_port"]
