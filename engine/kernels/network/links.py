"""Parcels on their way: links take one at a time, first in first out.

See :mod:`engine.kernels.reference.transport` for what this means; the order of events is that of
the SimPy resources there: who asks for a free link, for room or for a place in a window has it at
the end of what this instant has planned so far, and so does whoever comes next after a release.
"""

import math

from dimsweep.engine.compiler import inlined, kernel
from dimsweep.engine.kernels.core.none import NONE
from dimsweep.engine.kernels.core.queue import append, insert_in_order, take_first
from dimsweep.engine.kernels.network import events
from dimsweep.engine.kernels.network.clock import at_once, go_to_next, later, now_of
from dimsweep.engine.kernels.network.parcels import (
    CLASS_BITS,
    free_parcel,
    new_parcel,
    note_span,
    whole_ps,
)
from dimsweep.engine.kernels.network.state import SWITCHED, Wires
from dimsweep.engine.kernels.network.suspension import begin, pass_on, prepare, suspend
from dimsweep.engine.kernels.network.ties import clash_with

# --- as a carrier --------------------------------------------------------------------------------


@inlined
def hand_over(w: Wires, parcel: int, _: int) -> None:
    """A parcel asks for its first link, or for a place in its port's window before."""
    if w.settings.window > 0:
        _ask_window(w, parcel)
    else:
        cross(w, parcel, NONE)


@inlined
def advance(w: Wires) -> int:
    """Go to the next instant at which something happens."""
    return go_to_next(w.clock)


@inlined
def land(w: Wires, parcel: int) -> bool:
    """Links tell by events of their own when a parcel has left and come."""
    return False


# --- windows -------------------------------------------------------------------------------------


@kernel
def _ask_window(w: Wires, parcel: int) -> None:
    """Ask for a place in the window of the parcel's port."""
    port_number = w.parcels[parcel].port
    port = w.ports[port_number]
    clash_with(w.clock, port.asked)
    clash_with(w.clock, port.released)
    port.asked = w.clock.counts[0].step
    append(port.window, w.parcels, parcel)
    admit(w, port_number)


@kernel
def admit(w: Wires, port_number: int) -> None:
    """Let the next parcel into the port's window, if there is one and a place."""
    port = w.ports[port_number]
    if port.window.head != NONE and port.in_window < w.settings.window:
        port.in_window += 1
        at_once(w.clock, events.ADMITTED, take_first(port.window, w.parcels))


@kernel
def close(w: Wires, port: int) -> None:
    """A parcel has left the port's window."""
    clash_with(w.clock, w.ports[port].asked)
    w.ports[port].released = w.clock.counts[0].step
    w.ports[port].in_window -= 1
    at_once(w.clock, events.CLOSED, port)


# --- links ---------------------------------------------------------------------------------------


@inlined
def cross(w: Wires, parcel: int, begun: int) -> None:
    """Take a parcel over its next link.  Where it may be suspended, ``begun`` is what feeds it:
    the first of some FEEDs, or NONE if all of its bytes have arrived."""
    if w.settings.suspends:
        prepare(w, parcel, begun)
    ask(w, parcel)


@inlined
def go_on(w: Wires, parcel: int) -> None:
    """Take a parcel that the far end may pass on over its next link."""
    if w.settings.suspends:
        parcel = pass_on(w, parcel)
    else:
        w.parcels[parcel].hop += 1
    ask(w, parcel)


@kernel
def ask(w: Wires, parcel: int) -> None:
    """Ask for a turn on the parcel's next link, which what goes later has to leave at once where
    messages are suspended; it goes on before its equals."""
    p = w.parcels[parcel]
    number = w.hops[p.hop]
    link, held = w.links[number], NONE
    clash_with(w.clock, link.asked)
    clash_with(w.clock, link.released)
    link.asked = w.clock.counts[0].step
    if w.settings.suspends and link.held:
        held = link.holder + 0
        if w.parcels[held].precedence >> CLASS_BITS > p.precedence >> CLASS_BITS:
            link.held = 0
        else:
            held = NONE
    _queue(w, number, parcel)
    grant(w, number)
    if held != NONE and suspend(w, held):
        first = w.parcels[held].precedence >> CLASS_BITS << CLASS_BITS
        w.parcels[held].precedence = first
        _queue(w, number, held)
    link.longest = max(link.longest, link.queue)


@inlined
def _queue(w: Wires, number: int, parcel: int) -> None:
    """Put a parcel into a link's queue, behind what goes first and its equals."""
    link = w.links[number]
    link.queue += 1
    if w.settings.ordered:
        insert_in_order(link, w.parcels, w.parcels["precedence"], parcel)
    else:
        append(link, w.parcels, parcel)


@kernel
def grant(w: Wires, number: int) -> None:
    """Give a free link to the next parcel, if there is one."""
    link = w.links[number]
    if link.head != NONE and link.held == 0:
        link.queue -= 1
        link.held, link.holder = 1, take_first(link, w.parcels)
        at_once(w.clock, events.GRANTED, link.holder)


@kernel
def granted(w: Wires, parcel: int) -> None:
    """The parcel enters the link once there is room for all of it at the far end."""
    if w.settings.suspends:
        begin(w, parcel)
        return
    p = w.parcels[parcel]
    link = w.links[w.hops[p.hop]]
    if p.what >= SWITCHED or p.hop == p.last or link.room < 0:
        enter_link(w, parcel)
        return
    link.waits = parcel
    find_room(w, w.hops[p.hop])


@kernel
def find_room(w: Wires, number: int) -> None:
    """Take room at a link's far end for the parcel that waits for it, if there is enough."""
    link = w.links[number]
    if link.waits == NONE:
        return
    _fill(w, number)
    room = room_of(w.parcels[link.waits].n_bytes)
    if room <= link.left:
        link.left -= room
        at_once(w.clock, events.ROOMY, link.waits)
        link.waits = NONE


@kernel
def _fill(w: Wires, number: int) -> None:
    """The room at a link's far end changes."""
    clash_with(w.clock, w.links[number].filled)
    w.links[number].filled = w.clock.counts[0].step


@kernel
def room_of(n_bytes: float) -> int:
    """Whole bytes, so that the sum of what is taken and given back is exact."""
    return max(1, math.ceil(n_bytes))


@kernel
def enter_link(w: Wires, parcel: int) -> None:
    """The parcel has the link for itself, until its last byte is on it."""
    p, now = w.parcels[parcel], now_of(w.clock)
    number = w.hops[p.hop]
    link = w.links[number]
    link.waits = NONE
    head = whole_ps(min(w.settings.packet, p.n_bytes) * link.per_byte)
    end = max(now + whole_ps(p.n_bytes * link.per_byte), p.tail + head)
    p.tail = end
    link.n_bytes += p.n_bytes
    link.busy += end - now
    link.before = w.hops[p.hop - 1] if p.hop > p.first else NONE
    if w.settings.record:
        note_span(w, now, end, number, p.entry)
    if p.hop == p.last:
        later(w.clock, end - now, events.THROUGH, number)
        return
    later(w.clock, end - now, events.FREE, number)
    later(w.clock, head, events.PASS, parcel)


@kernel
def release(w: Wires, number: int) -> int:
    """The last byte of what holds a link is on it; returns that parcel."""
    clash_with(w.clock, w.links[number].asked)
    w.links[number].released = w.clock.counts[0].step
    w.links[number].held = 0
    at_once(w.clock, events.RELEASED, number)
    return w.links[number].holder


@kernel
def give_back(w: Wires, before: int, n_bytes: float) -> None:
    """Give room at the far end of a link back, when that link's latency has passed, too."""
    if w.links[before].room < 0:
        return
    giver = new_parcel(w)
    w.parcels[giver].n_bytes, w.parcels[giver].hop = n_bytes, before
    later(w.clock, w.links[before].latency, events.GIVE, giver)


@kernel
def give(w: Wires, giver: int) -> None:
    """Let a link have back the room at its far end that ``giver`` names."""
    number = w.parcels[giver].hop + 0
    _fill(w, number)
    w.links[number].left += room_of(w.parcels[giver].n_bytes)
    free_parcel(w, giver)
    at_once(w.clock, events.GAVE, number)
