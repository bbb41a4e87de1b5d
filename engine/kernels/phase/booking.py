"""What classes do with their time (:mod:`engine.kernels.core.accounts`), inside chains as well."""

from dimsweep.engine.compiler import inlined, kernel
from dimsweep.engine.kernels.core import accounts
from dimsweep.engine.kernels.core.accounts import BEGINS, ENDS, change_flight, change_port
from dimsweep.engine.kernels.core.none import NONE
from dimsweep.engine.kernels.phase.state import Sim


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
    computes = sim.st.streams[number * sim.s.shape.n_streams].node >= 0 and not cls.pauses
    accounts.book(cls, computes, now)


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
    """The node's communication BEGINS or ENDS to be in flight."""
    cls, tally = sim.s.nodes[node].cls, sim.s.nodes[node].tally
    account(sim, cls, now)
    change_flight(sim.st.classes[cls], sim.st.tally_exposed, cls, tally, change)


@inlined
def book_port(sim: Sim, cls: int, number: int, change: int, now: int) -> None:
    """A phase BEGINS or ENDS to be under way from a port of the class."""
    account(sim, cls, now)
    change_port(sim.st.classes[cls], sim.st.ports[number], change)
