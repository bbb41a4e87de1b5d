"""What a class does with its time: compute, or communication that no compute hides.

Communication is exposed while the class computes nothing.  An instant of it is shared equally among
the operators in flight, and among the ports that serve the class.  A class adds up one such share
from the beginning; an operator's, or a port's, is what is added from when it begins to when it
ends.
"""

from engine.compiler import inlined, kernel
from engine.kernels.core.none import NONE
from engine.kernels.phase.state import Sim

BEGINS, ENDS = 1, -1


@inlined
def account(sim: Sim, number: int, now: int) -> None:
    """Book the time since the class last changed.  Call it before the class changes."""
    cls = sim.st.classes[number]
    if cls.clock == now:
        return
    while cls.mark_due < now:
        _pass_mark(sim, number)
    _book(sim, number, now)


@inlined
def _book(sim: Sim, number: int, now: int) -> None:
    cls = sim.st.classes[number]
    span = now - cls.clock
    cls.clock = now
    if sim.st.streams[number * sim.s.shape.n_streams].node >= 0 and not cls.pauses:
        cls.compute += span
    elif cls.in_flight > 0:
        cls.exposed += span
        cls.per_operator += _share(span, cls.in_flight)
        if cls.serving > 0:
            cls.per_port += _share(span, cls.serving)
        else:
            cls.unserved += span


@inlined
def begin_chain(sim: Sim, node: int, now: int) -> int:
    """The class runs a chain, whose first link computes; returns how long it takes."""
    cls, chain = sim.st.classes[sim.s.nodes[node].cls], sim.s.nodes[node].tally
    cls.mark = 2 * sim.s.chains[chain].start + 1  # the first link has begun
    cls.mark_due = now + sim.st.marks[cls.mark].due
    return sim.st.chains[chain].duration


@kernel
def _pass_mark(sim: Sim, number: int) -> None:
    """A link of the class's chain begins or ends."""
    cls = sim.st.classes[number]
    mark = sim.st.marks[cls.mark]
    _book(sim, number, cls.mark_due)
    link = sim.s.links[mark.link]
    port = number * sim.s.shape.n_ports + link.port
    if link.form == NONE:
        cls.pauses = not mark.begins
    elif mark.begins:
        _change_flight(sim, number, link.tally, BEGINS)
        _change_port(sim, number, port, BEGINS)
        sim.st.ports[port].busy += sim.st.links[mark.link].busy
    else:
        _change_port(sim, number, port, ENDS)
        _change_flight(sim, number, link.tally, ENDS)
    cls.mark += 1
    cls.mark_due += sim.st.marks[cls.mark].due - mark.due


@inlined
def _share(span: int, n: int) -> float:
    return float(span) if n == 1 else span / n  # division is slow, and n is nearly always 1


@inlined
def book_flight(sim: Sim, node: int, change: int, now: int) -> None:
    """The node's communication BEGINS or ENDS to be in flight."""
    cls = sim.s.nodes[node].cls
    account(sim, cls, now)
    _change_flight(sim, cls, sim.s.nodes[node].tally, change)


@inlined
def _change_flight(sim: Sim, number: int, tally: int, change: int) -> None:
    cls = sim.st.classes[number]
    cls.in_flight += change
    sim.st.tally_exposed[number, tally] -= change * cls.per_operator


@inlined
def book_port(sim: Sim, cls: int, number: int, change: int, now: int) -> None:
    """A phase BEGINS or ENDS to be under way from a port of the class."""
    account(sim, cls, now)
    _change_port(sim, cls, number, change)


@inlined
def _change_port(sim: Sim, number: int, at: int, change: int) -> None:
    cls, port = sim.st.classes[number], sim.st.ports[at]
    if port.under_way == (change == ENDS):  # the first one to begin, or the last one to end
        cls.serving += change
        port.exposed -= change * cls.per_port
    port.under_way += change
