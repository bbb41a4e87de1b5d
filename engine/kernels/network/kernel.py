"""The network kernel: every NPU, every message, every link, compiled.

Each event is one step; when an instant has none left, operators and ports settle.
"""

from engine.compiler import compiled, kernel
from engine.kernels.core.by_reference import by_reference
from engine.kernels.core.none import LONGEST, NONE
from engine.kernels.network.carried import (
    carry,
    departures_to_plan,
    end_on_links,
    events_at_once,
    lacks_messages,
)
from engine.kernels.network.clock import later, next_now
from engine.kernels.network.edge_io import arrive_at_far_end, begin_at_far_end, end_at_far_end
from engine.kernels.network.entries import is_crossing
from engine.kernels.network.exchange import (
    begin_crossing,
    begin_exchange,
    complete,
    count_down,
    deliver,
    send_rounds,
)
from engine.kernels.network.links import (
    admit,
    ask,
    close,
    enter_link,
    find_room,
    free_parcel,
    give,
    give_back,
    grant,
    granted,
    let_go,
    release,
)
from engine.kernels.network.operators import end_operator, settle_operators
from engine.kernels.network.ports import arrive, has_left, settle_ports
from engine.kernels.network.reduction import begin_reductions, come_down, reach_gate
from engine.kernels.network.reduction import count_down as count_down_of_switch
from engine.kernels.network.servers import end_service
from engine.kernels.network.state import (
    ADMITTED,
    ARRIVE,
    BEGINNING,
    BEGUN,
    BY_PACKETS,
    CARRY,
    CLASHED,
    CLOSE,
    COMPLETE,
    CROWDED,
    DEPARTED,
    EXCHANGED,
    FINISHED,
    FREE,
    FULL,
    GAVE,
    GIVE,
    GRANTED,
    IN_LAST,
    KIND_BITS,
    LANDED,
    N_BEGINNING,
    N_SENDING,
    N_SPANS,
    NEXT,
    OPERATOR,
    OVERDUE,
    PARCELS_LEFT,
    PASS,
    PIECE,
    REDUCED,
    RELEASED,
    RING,
    RING_END,
    ROOMY,
    SENDING,
    SENT,
    SERVED,
    SETTLING,
    STUCK,
    SWITCHED,
    THROUGH,
    TIED,
    TOO_LONG,
    TOO_MANY,
    UNDER_WAY,
    State,
)
from engine.kernels.network.ties import begin_generation, begin_step
from engine.kernels.packet.agenda import LEFT, next_time
from engine.kernels.phase.state import DONE

_KIND = (1 << KIND_BITS) - 1


@compiled
def run(state: State) -> int:
    """Simulate until nothing is left to happen; returns the outcome.

    When it is FULL, it goes on if it is called again with larger arrays; when it is CARRY, after
    :func:`engine.kernels.network.carried.land`.
    """
    st = by_reference(state)
    counts = st.wires.clock.counts
    while True:
        if _is_full(st):
            return FULL
        begin_step(st.wires.clock)
        if _begins_something(st):
            continue
        what = next_now(st.wires.clock)
        if what >= 0:
            _happen(st, what & _KIND, what >> KIND_BITS)
        elif counts[SETTLING]:
            counts[SETTLING] = 0
            begin_generation(st.wires.clock)
            settle_operators(st)
            settle_ports(st)
        elif counts[OVERDUE]:
            return TOO_LONG
        elif counts[CROWDED]:
            return TOO_MANY
        elif st.wires.settings.folded and counts[CLASHED]:
            return TIED
        elif st.wires.settings.carried == BY_PACKETS and counts[UNDER_WAY] > 0:
            counts[NEXT] = min(next_time(st.wires.clock.agenda), LONGEST)
            return CARRY
        elif not carry(st.wires):
            break
    for i in range(len(st.nodes)):
        if st.nodes[i].state != DONE:
            return STUCK
    return FINISHED


@kernel
def _is_full(st: State) -> bool:
    """Whether the next step may find no room for what it makes."""
    counts = st.wires.clock.counts
    settings, clock = st.wires.settings, st.wires.clock
    planned = counts[RING_END] - counts[RING]
    return (
        counts[PARCELS_LEFT] < settings.need
        or clock.agenda.counts[LEFT] < settings.burst + departures_to_plan(st.wires)
        or counts[IN_LAST] > 0
        or planned + events_at_once(st.wires) > len(clock.ring)
        or counts[N_SPANS] == len(st.wires.spans)
        or lacks_messages(st.wires)
    )


@kernel
def _begins_something(st: State) -> bool:
    """Begin one of the phases that ports have started to serve, if there is one."""
    counts = st.wires.clock.counts
    if counts[SENT] < counts[N_SENDING]:
        counts[SENT] += 1
        port = st.lists[SENDING, counts[SENT] - 1]
        if is_crossing(st, st.wires.ports[port].serving):
            begin_crossing(st, port)
        else:
            begin_reductions(st, port)
        return True
    if counts[BEGUN] < counts[N_BEGINNING]:
        counts[BEGUN] += 1
        begin_exchange(st, st.lists[BEGINNING, counts[BEGUN] - 1])
        return True
    counts[SENT] = counts[N_SENDING] = counts[BEGUN] = counts[N_BEGINNING] = 0
    return False


@kernel
def _happen(st: State, kind: int, which: int) -> None:
    if kind == THROUGH:
        parcel = release(st.wires, which)
        _leave(st, which, parcel)
        _come(st, parcel)
    elif kind == RELEASED:
        grant(st.wires, which)
    elif kind == GRANTED:
        granted(st.wires, which)
    elif kind == COMPLETE:
        complete(st, which)
    elif kind == REDUCED:
        send_rounds(st, which)
    elif kind == FREE:
        _leave(st, which, release(st.wires, which))
    elif kind == PASS:
        if st.wires.parcels[which].what == SWITCHED:
            reach_gate(st, which)
        elif st.wires.parcels[which].what == PIECE:
            begin_at_far_end(st, which)
        else:
            st.wires.parcels[which].hop += 1
            ask(st.wires, which)
    elif kind == OPERATOR:
        end_operator(st, which)
    elif kind == ARRIVE:
        arrive(st, which)
    elif kind == ROOMY:
        enter_link(st.wires, which)
    elif kind == GIVE:
        give(st.wires, which)
    elif kind == GAVE:
        find_room(st.wires, which)
    elif kind == ADMITTED:
        ask(st.wires, which)
    elif kind == CLOSE:
        close(st.wires, which)
    elif kind == LANDED:
        _land(st, which)
    elif kind == DEPARTED:
        _depart(st, which)
    elif kind == SERVED:
        if end_service(st, which):
            end_operator(st, which)
    else:
        admit(st.wires, which)


@kernel
def _leave(st: State, link: int, parcel: int) -> None:
    """The last byte of a parcel has left where it was before the link."""
    p = st.wires.parcels[parcel]
    if st.wires.links[link].before != NONE:
        give_back(st.wires, st.wires.links[link].before, p.n_bytes)
        return
    if p.what == SWITCHED:
        if p.port != NONE:
            count_down_of_switch(st, p.port, 0)
        if p.hop != p.last:
            let_go(st.wires, parcel)
        return
    if p.what == PIECE:
        if p.hop != p.last:
            end_at_far_end(st, parcel)
        return
    whole = st.wires.parcels[p.whole]
    whole.leaving -= 1
    if whole.leaving == 0 and p.what == EXCHANGED:
        count_down(st, p.port)


@kernel
def _come(st: State, parcel: int) -> None:
    """A parcel has come to where its message goes."""
    p = st.wires.parcels[parcel]
    if p.what == SWITCHED:
        come_down(st, parcel)
        return
    if p.what == PIECE:
        arrive_at_far_end(st, parcel)
        return
    if st.wires.settings.window > 0:
        later(st.wires.clock, p.way, CLOSE, p.port)
    whole = p.whole + 0
    if whole != parcel:
        free_parcel(st.wires, parcel)
    st.wires.parcels[whole].coming -= 1
    if st.wires.parcels[whole].coming == 0:
        deliver(st, whole)


@kernel
def _land(st: State, parcel: int) -> None:
    """A message that something else carries is there; one of a flow has left only now."""
    end_on_links(st.wires, parcel)
    p = st.wires.parcels[parcel]
    if p.what == EXCHANGED and st.wires.settings.carried != BY_PACKETS:
        count_down(st, p.port)
    deliver(st, parcel)


@kernel
def _depart(st: State, parcel: int) -> None:
    """The last byte of a message in packets has left its port."""
    p = st.wires.parcels[parcel]
    place = st.wires.ports[p.port].place + 0
    if p.what == EXCHANGED:
        count_down(st, p.port)
    has_left(st, place)
