"""The main loop of the network kernel: it takes one event after another.

When an instant has no events left, operators and ports settle.
"""

from dimsweep.engine.compiler import compiled, kernel
from dimsweep.engine.kernels.core.compiling import by_reference, long
from dimsweep.engine.kernels.core.tables import DONE, NONE
from dimsweep.engine.kernels.network import clock, exchange, gates, links, operators, ports
from dimsweep.engine.kernels.network.carrying import advance, land
from dimsweep.engine.kernels.network.clock import (
    begin_generation,
    begin_step,
    plan_later,
    take_event,
)
from dimsweep.engine.kernels.network.links import drop_reference, free_parcel
from dimsweep.engine.kernels.network.operators import is_crossing
from dimsweep.engine.kernels.network.state import EXCHANGED, PIECE, SWITCHED, State

_KIND = (1 << clock.KIND_BITS) - 1


@compiled
def run(state: State) -> int:
    """Simulate until no event is left; return the outcome.

    The outcome FULL asks the caller to enlarge tables and call again.  CARRY asks the caller to
    call again after :meth:`engine.kernels.network.carrying.Packets.carry`.
    """
    st = by_reference(state)
    counts = st.wires.clock.counts[0]
    while True:
        if _is_full(st):
            return clock.FULL
        begin_step(st.wires.clock)
        if _begin_next_phase(st):
            continue
        what = take_event(st.wires.clock)
        if what >= 0:
            _dispatch(st, what & _KIND, what >> clock.KIND_BITS)
        elif counts.settling:
            counts.settling = 0
            begin_generation(st.wires.clock)
            operators.settle_operators(st)
            ports.settle_ports(st)
        elif counts.overdue:
            return clock.TOO_LONG
        elif counts.crowded:
            return clock.TOO_MANY
        elif st.wires.settings.folded and counts.clashed:
            return clock.TIED
        else:
            went = advance(st.wires)
            if went == clock.ELSEWHERE:
                return clock.CARRY
            if went == clock.AT_END:
                break
    for i in range(len(st.nodes)):
        if st.nodes[i].state != DONE:
            return clock.STUCK
    return clock.FINISHED


@kernel
def _is_full(st: State) -> bool:
    """Return whether the tables may be too small for the parcels, events or spans of a step."""
    w = st.wires
    counts, need = w.clock.counts[0], w.settings.need
    planned = counts.ring_end - counts.ring
    # All messages in flight may land at once, and all their departures may become known.
    burst = w.settings.burst + counts.under_way
    return (
        counts.parcels.left < need
        or w.clock.agenda.counts[0].free.left < burst
        or counts.in_last > 0
        or planned + len(w.clock.agenda.events) + burst > len(w.clock.ring)
        or (w.settings.record and counts.n_spans + need > len(w.spans))
        or (len(w.messages) > 0 and counts.n_messages + need > len(w.messages))
        or (w.settings.suspends and counts.feeds.left < need)
    )


@kernel
def _begin_next_phase(st: State) -> bool:
    """Begin the next phase that was assigned to a port; return whether one was waiting."""
    counts = st.wires.clock.counts[0]
    if counts.sent < st.sending.filled[0]:
        counts.sent += 1
        port = st.sending.numbers[counts.sent - 1]
        if is_crossing(st, st.wires.ports[port].serving):
            exchange.begin_crossing(st, port)
        else:
            exchange.begin_reductions(st, port)
        return True
    if counts.begun < st.beginning.filled[0]:
        counts.begun += 1
        exchange.begin_exchange(st, st.beginning.numbers[counts.begun - 1])
        return True
    counts.sent = counts.begun = st.sending.filled[0] = st.beginning.filled[0] = 0
    return False


@kernel
def _dispatch(st: State, kind: int, which: int) -> None:
    if kind == clock.THROUGH:
        parcel = links.release_link(st.wires, which)
        _leave_previous_hop(st, which, parcel)
        _arrive(st, parcel)
    elif kind == clock.RELEASED:
        links.grant_link(st.wires, which)
    elif kind == clock.GRANTED:
        links.begin_after_grant(st.wires, which)
    elif kind == clock.COMPLETE:
        exchange.complete_round(st, which)
    elif kind == clock.REDUCED:
        exchange.send_rounds(st, which)
    elif kind == clock.FREE:
        _leave_previous_hop(st, which, links.release_link(st.wires, which))
    elif kind == clock.PASS or kind == clock.PASSED_ON:
        _pass_on(st, which)
    elif kind == clock.OPERATOR:
        operators.end_operator(st, which)
    elif kind == clock.ARRIVE:
        ports.end_latencies(st, which)
    elif kind == clock.FOUND_ROOM:
        links.enter_link(st.wires, which)
    elif kind == clock.RETURNING_ROOM:
        links.return_room(st.wires, which)
    elif kind == clock.RETURNED_ROOM:
        links.take_room(st.wires, which)
    elif kind == clock.ADMITTED:
        links.cross(st.wires, which, NONE)
    elif kind == clock.LEAVE_WINDOW:
        links.leave_window(st.wires, which)
    elif kind == clock.LANDED:
        _land(st, which)
    elif kind == clock.DEPARTED:
        _depart(st, which)
    elif kind == clock.CROSSED:
        is_last = st.wires.parcels[which].hop == st.wires.parcels[which].last
        _leave_previous_hop(st, links.end_crossing(st.wires, which), which)
        if is_last:
            _arrive(st, which)
    elif kind == clock.SERVED:
        operators.end_service(st, which)
    else:
        links.admit(st.wires, which)


@kernel
def _pass_on(st: State, parcel: int) -> None:
    """Let the device at the far end of a parcel's link forward the parcel."""
    what = long(st.wires.parcels[parcel].kind)
    if what >= SWITCHED:
        gates.reach_gate(st, parcel)
    else:
        links.cross_next(st.wires, parcel)


@kernel
def _leave_previous_hop(st: State, link: int, parcel: int) -> None:
    """Handle a parcel's last byte leaving the device before ``link``."""
    p = st.wires.parcels[parcel]
    if st.wires.links[link].before != NONE:
        links.plan_return(st.wires, st.wires.links[link].before, p.n_bytes)
        return
    if p.kind == SWITCHED:
        if p.port != NONE:
            ports.count_down(st, p.port, 0, st.wires.settings.endpoint_delay)
        if p.hop != p.last:
            drop_reference(st.wires, parcel)
        return
    if p.kind == PIECE:
        if p.hop != p.last:
            gates.finish_hop(st, parcel)
        return
    if st.wires.settings.suspends:  # it is another parcel on each link
        if p.kind == EXCHANGED and p.hop == p.first:
            ports.count_down(st, p.port, 0, 0)
        if p.hop != p.last:
            drop_reference(st.wires, parcel)
        return
    whole = st.wires.parcels[p.message]
    whole.leaving -= 1
    if whole.leaving == 0 and p.kind == EXCHANGED:
        ports.count_down(st, p.port, 0, 0)


@kernel
def _arrive(st: State, parcel: int) -> None:
    """Handle the arrival of a parcel at its destination."""
    p = st.wires.parcels[parcel]
    if p.kind == SWITCHED:
        exchange.arrive_at_target(st, parcel)
        return
    if p.kind == PIECE:
        gates.arrive_stored(st, parcel)
        return
    if st.wires.settings.window > 0:
        plan_later(st.wires.clock, p.way, clock.LEAVE_WINDOW, p.port)
    whole = long(p.message)
    if whole != parcel:
        free_parcel(st.wires, parcel)
    st.wires.parcels[whole].arriving -= 1
    if st.wires.parcels[whole].arriving == 0:
        exchange.deliver(st, whole)


@kernel
def _land(st: State, parcel: int) -> None:
    """Handle the arrival of a message that was carried as a flow or as packets."""
    leaves, p = land(st.wires, parcel), st.wires.parcels[parcel]
    if leaves and p.kind == EXCHANGED:
        ports.count_down(st, p.port, 0, 0)
    exchange.deliver(st, parcel)


@kernel
def _depart(st: State, parcel: int) -> None:
    """Handle the departure from its port of the last byte of a message carried as packets."""
    p = st.wires.parcels[parcel]
    place = long(st.wires.ports[p.port].place)
    if p.kind == EXCHANGED:
        ports.count_down(st, p.port, 0, 0)
    ports.note_departure(st, place)
