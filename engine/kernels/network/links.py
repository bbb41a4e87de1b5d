"""Parcels on their way: links take one at a time, first in first out.

See :mod:`engine.kernels.reference.transport` for what this means; the order of events is that of
the SimPy resources there: who asks for a free link, for room or for a place in a window has it at
the end of what this instant has planned so far, and so does whoever comes next after a release.
"""

import math

from engine.compiler import kernel
from engine.kernels.core import pool
from engine.kernels.core.none import LONGEST, NONE
from engine.kernels.core.queue import append, insert, take_first
from engine.kernels.network.carried import hand_over
from engine.kernels.network.clock import at_once, later, now_of
from engine.kernels.network.state import (
    ADMITTED,
    BY_LINKS,
    CLOSED,
    CROWDED,
    FREE,
    FREE_PARCEL,
    GAVE,
    GIVE,
    GRANTED,
    N_MESSAGES,
    N_SPANS,
    PARCELS_LEFT,
    PASS,
    RELEASED,
    ROOMY,
    STEP,
    SWITCHED,
    THROUGH,
    Wires,
)
from engine.kernels.network.ties import clash_with
from engine.kernels.phase.phase_time import whole


@kernel
def new_parcel(w: Wires) -> int:
    return pool.take(w.parcels, w.clock.counts, FREE_PARCEL, PARCELS_LEFT)


@kernel
def free_parcel(w: Wires, parcel: int) -> None:
    pool.give_back(w.parcels, w.clock.counts, FREE_PARCEL, PARCELS_LEFT, parcel)


@kernel
def let_go(w: Wires, parcel: int) -> None:
    """One of two things has happened to a parcel that is on one link only: all of it has left, or
    it has begun to come."""
    p = w.parcels[parcel]
    p.leaving -= 1
    if p.leaving == 0:
        free_parcel(w, parcel)


@kernel
def whole_ps(picoseconds: float) -> int:
    """Whole picoseconds, or more than a run may last."""
    return int(min(whole(picoseconds), float(LONGEST)))


@kernel
def n_parts(w: Wires, route: int, n_bytes: float) -> int:
    """In how many parts a message travels, so that two fit the smallest room on its way."""
    room = w.routes[route].room
    return 1 if room < 0 else max(1, math.ceil(2 * n_bytes / room))


@kernel
def send(
    w: Wires,
    what: int,
    port: int,
    entry: int,
    n_bytes: float,
    route_number: int,
    strand: int,
    slot: int,
    late: int,
    precedence: int,
) -> None:
    """Send a message from a port's NPU over a route."""
    if w.clock.counts[CROWDED]:
        return
    route, parts = w.routes[route_number], n_parts(w, route_number, n_bytes)
    w.clock.counts[N_MESSAGES] += parts
    if w.clock.counts[N_MESSAGES] > w.settings.max_messages:
        w.clock.counts[CROWDED] = 1
        return
    first = NONE
    for _ in range(parts):
        number = new_parcel(w)
        first = number if first == NONE else first
        p = w.parcels[number]
        p.n_bytes, p.tail, p.late, p.way = n_bytes / parts, now_of(w.clock), late, route.way
        p.first = p.hop = route.start
        p.last, p.what, p.port = route.end - 1, what, port
        p.strand, p.slot, p.whole, p.entry = strand, slot, first, entry
        p.leaving = p.coming = parts
        p.precedence = precedence
        if w.settings.carried != BY_LINKS:
            hand_over(w, number, route_number)
        elif w.settings.window > 0:
            _ask_window(w, number)
        else:
            ask(w, number)


# --- windows -------------------------------------------------------------------------------------


@kernel
def _ask_window(w: Wires, parcel: int) -> None:
    port_number = w.parcels[parcel].port
    port = w.ports[port_number]
    clash_with(w.clock, port.asked)
    clash_with(w.clock, port.released)
    port.asked = w.clock.counts[STEP]
    w.parcels[parcel].next = NONE
    if port.window_head == NONE:
        port.window_head = parcel
    else:
        w.parcels[port.window_tail].next = parcel
    port.window_tail = parcel
    admit(w, port_number)


@kernel
def admit(w: Wires, port_number: int) -> None:
    """Let the next parcel into the port's window, if there is one and a place."""
    port = w.ports[port_number]
    parcel = port.window_head + 0
    if parcel != NONE and port.in_window < w.settings.window:
        port.window_head = w.parcels[parcel].next
        port.in_window += 1
        at_once(w.clock, ADMITTED, parcel)


@kernel
def close(w: Wires, port: int) -> None:
    """A parcel has left the port's window."""
    clash_with(w.clock, w.ports[port].asked)
    w.ports[port].released = w.clock.counts[STEP]
    w.ports[port].in_window -= 1
    at_once(w.clock, CLOSED, port)


# --- links ---------------------------------------------------------------------------------------


@kernel
def ask(w: Wires, parcel: int) -> None:
    """Ask for a turn on the parcel's next link."""
    p = w.parcels[parcel]
    number = w.hops[p.hop]
    link = w.links[number]
    clash_with(w.clock, link.asked)
    clash_with(w.clock, link.released)
    link.asked = w.clock.counts[STEP]
    if (
        link.head == NONE
        or not w.settings.ordered
        or w.parcels[link.tail].precedence <= p.precedence
    ):
        append(link, w.parcels, parcel)
    else:
        behind, at = NONE, link.head + 0
        while w.parcels[at].precedence <= p.precedence:
            behind, at = at, w.parcels[at].next + 0
        insert(link, w.parcels, behind, parcel)
    link.queue += 1
    grant(w, number)
    link.longest = max(link.longest, link.queue)


@kernel
def grant(w: Wires, number: int) -> None:
    """Give a free link to the next parcel, if there is one."""
    link = w.links[number]
    if link.head != NONE and link.held == 0:
        link.queue -= 1
        link.held = 1
        at_once(w.clock, GRANTED, take_first(link, w.parcels))


@kernel
def granted(w: Wires, parcel: int) -> None:
    """The parcel enters the link once there is room for all of it at the far end."""
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
        at_once(w.clock, ROOMY, link.waits)
        link.waits = NONE


@kernel
def _fill(w: Wires, number: int) -> None:
    """The room at a link's far end changes."""
    clash_with(w.clock, w.links[number].filled)
    w.links[number].filled = w.clock.counts[STEP]


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
    link.holder = parcel
    link.before = w.hops[p.hop - 1] if p.hop > p.first else NONE
    if w.settings.record:
        note_span(w, now, end, number, p.entry)
    if p.hop == p.last:
        later(w.clock, end - now, THROUGH, number)
        return
    later(w.clock, end - now, FREE, number)
    later(w.clock, head, PASS, parcel)


@kernel
def note_span(w: Wires, start: int, end: int, place: int, entry: int) -> None:
    """Record when something was held, and for what."""
    span = w.spans[w.clock.counts[N_SPANS]]
    w.clock.counts[N_SPANS] += 1
    span.start, span.end, span.place, span.entry = start, end, place, entry


@kernel
def release(w: Wires, number: int) -> int:
    """The last byte of what holds a link is on it; returns that parcel."""
    clash_with(w.clock, w.links[number].asked)
    w.links[number].released = w.clock.counts[STEP]
    w.links[number].held = 0
    at_once(w.clock, RELEASED, number)
    return w.links[number].holder


@kernel
def give_back(w: Wires, before: int, n_bytes: float) -> None:
    """Give room at the far end of a link back, when that link's latency has passed, too."""
    if w.links[before].room < 0:
        return
    giver = new_parcel(w)
    w.parcels[giver].n_bytes, w.parcels[giver].hop = n_bytes, before
    later(w.clock, w.links[before].latency, GIVE, giver)


@kernel
def give(w: Wires, giver: int) -> None:
    """Let a link have back the room at its far end that ``giver`` names."""
    number = w.parcels[giver].hop + 0
    _fill(w, number)
    w.links[number].left += room_of(w.parcels[giver].n_bytes)
    free_parcel(w, giver)
    at_once(w.clock, GAVE, number)
