"""Parcels on links: one at a time, first in, first out, or suspended for a more urgent one.

:mod:`engine.kernels.reference.links` describes the model.  Events have the order of the SimPy
resources there: a parcel that requests a free link, buffer room or a place in a window gets it
after all events planned so far for this instant, and so does the next parcel after a release.

**Suspension.**  A message that may be suspended is a separate parcel on each of its links, since it
may wait for two of them at once.  A parcel *feeds* the parcels on later links that forward its
bytes; when a parcel is replanned, so are the parcels that it feeds.
"""

import math

from dimsweep.engine.compiler import inlined, kernel
from dimsweep.engine.kernels.core import queues
from dimsweep.engine.kernels.core.compiling import long, where_used
from dimsweep.engine.kernels.core.queues import append, insert_in_order, take_first
from dimsweep.engine.kernels.core.tables import LONGEST, NONE
from dimsweep.engine.kernels.flow.shares import share_at
from dimsweep.engine.kernels.network import clock
from dimsweep.engine.kernels.network.clock import (
    CROSSED,
    PASSED_ON,
    RELEASED,
    advance_to_next,
    clash_with,
    current_time,
    plan_later,
    plan_now,
    replan,
)
from dimsweep.engine.kernels.network.state import SWITCHED, Wires
from dimsweep.engine.kernels.phase.phase_time import round_half_up

CLASS_BITS = 32  # of a parcel's precedence: its messages' class is above them


@inlined
def precedence_of(of: int, began: int) -> int:
    """Return a parcel's sort key: by class ``of``, then by start ``began``; lower goes first.

    Key 0 of a class is reserved for a suspended parcel.
    """
    return of << CLASS_BITS | began + 1


@kernel
def new_parcel(w: Wires) -> int:
    """Take a parcel from the free list and return its number."""
    return queues.take_free(w.clock.counts[0].parcels, w.parcels)


@kernel
def free_parcel(w: Wires, parcel: int) -> None:
    """Return a parcel to the free list."""
    queues.put_free(w.clock.counts[0].parcels, w.parcels, parcel)


@kernel
def drop_reference(w: Wires, parcel: int) -> None:
    """Drop one reference to a parcel on one link; free the parcel with the last one.

    References are: bytes that have not left, an arrival that has not begun, and each parcel it
    feeds.
    """
    p = w.parcels[parcel]
    p.leaving -= 1
    if p.leaving == 0:
        free_parcel(w, parcel)


@kernel
def round_ps(picoseconds: float) -> int:
    """Round a duration to whole picoseconds, at most LONGEST."""
    return int(min(round_half_up(picoseconds), float(LONGEST)))


@kernel
def note_span(w: Wires, start: int, end: int, place: int, entry: int) -> None:
    """Record the interval in which link or port ``place`` was held by ``entry``."""
    span = w.spans[w.clock.counts[0].n_spans]
    w.clock.counts[0].n_spans += 1
    span.start, span.end, span.place, span.entry = start, end, place, entry


# --- where several share a link ------------------------------------------------------------------


@kernel
def register_message(w: Wires, parcel: int, route: int) -> int:
    """Register a message, the last one counted, on the links of its route; return its number."""
    p, number, now = w.parcels[parcel], w.clock.counts[0].n_messages - 1, current_time(w.clock)
    message = w.messages[number]
    message.n_bytes, message.start, message.parcel = p.n_bytes, now, parcel
    message.entry, message.route = p.entry, route
    w.clock.counts[0].under_way += 1
    for hop in range(p.first, p.last + 1):
        link = w.links[w.hops[hop]]
        link.n_bytes += p.n_bytes * share_at(w.flows.shares, hop)
        link.busy -= 0 if link.queue else now
        link.queue += 1
        link.longest = max(link.longest, link.queue - 1)
    return number


@kernel
def unregister_message(w: Wires, parcel: int) -> None:
    """Remove a message from the links of its route after its last byte."""
    p, now = w.parcels[parcel], current_time(w.clock)
    w.clock.counts[0].under_way -= 1
    for hop in range(p.first, p.last + 1):
        link = w.links[w.hops[hop]]
        link.queue -= 1
        link.busy += 0 if link.queue else now


_SMALL = 1 << 31  # the product of two numbers below it is exact


@where_used("crossings")
@kernel
def prepare_crossing(w: Wires, parcel: int, begun: int) -> None:
    """Prepare a parcel that may be suspended to request its link.

    ``begun`` is the first FEED of the parcels that feed it, or NONE if all its bytes have arrived.
    """
    p, crossing = w.parcels[parcel], w.crossings[parcel]
    link = w.links[w.hops[p.hop]]
    crossing.transfer = round_ps(p.n_bytes * link.per_byte)
    crossing.head = round_ps(min(w.settings.packet, p.n_bytes) * link.per_byte)
    crossing.precedence = p.precedence
    crossing.sent = crossing.at = crossing.further = 0
    crossing.since = crossing.end = crossing.feeds = crossing.followers.head = NONE
    p.leaving = 2
    while begun != NONE:
        _add_follower(w, w.feeds[begun].parcel, parcel)
        begun = long(w.feeds[begun].other)


@kernel
def _add_follower(w: Wires, parcel: int, follower: int) -> None:
    """Let ``parcel`` feed ``follower``, which is then replanned whenever ``parcel`` is."""
    number, crossing = _new_feed(w, parcel), w.crossings[parcel]
    feed = w.feeds[number]
    feed.follower, feed.other = follower, w.crossings[follower].feeds
    w.crossings[follower].feeds = number
    if crossing.end == NONE or crossing.end > current_time(w.clock):
        append(crossing.followers, w.feeds, number)


@where_used("crossings", NONE)
@kernel
def pass_crossing_on(w: Wires, parcel: int) -> int:
    """Return a new parcel for the next link of a message; ``parcel`` feeds the new one."""
    number = new_parcel(w)
    w.crossings[parcel].further = 1
    w.parcels[number] = w.parcels[parcel]
    further = w.parcels[number]
    further.hop += 1
    further.message, further.precedence = number, w.crossings[parcel].precedence
    prepare_crossing(w, number, NONE)
    _add_follower(w, parcel, number)
    drop_reference(w, parcel)
    return number


@where_used("crossings", NONE)
@kernel
def feeds_of_gate(w: Wires, gate: int) -> int:
    """Return the first FEED of the parcels that have begun to arrive at a gate, or NONE."""
    return long(w.begun[gate])


@where_used("crossings")
@kernel
def feed_gate(w: Wires, gate: int, parcel: int) -> None:
    """Note at a gate that a parcel has begun to arrive.

    A gate holds outgoing parcels until the parcels that they need have begun to arrive.
    """
    number = _new_feed(w, parcel)
    w.crossings[parcel].further = 1
    w.feeds[number].other = w.begun[gate]
    w.begun[gate] = number


@where_used("crossings")
@kernel
def leave_gate(w: Wires, gate: int) -> None:
    """Clear the feeds of a gate after it has started its launches."""
    _end_feeds(w, long(w.begun[gate]))
    w.begun[gate] = NONE


@kernel
def _new_feed(w: Wires, parcel: int) -> int:
    number = queues.take_free(w.clock.counts[0].feeds, w.feeds)
    w.feeds[number].parcel = parcel
    w.parcels[parcel].leaving += 1
    return number


@kernel
def _end_feeds(w: Wires, first: int) -> None:
    while first != NONE:
        other = long(w.feeds[first].other)
        drop_reference(w, w.feeds[first].parcel)
        queues.put_free(w.clock.counts[0].feeds, w.feeds, first)
        first = other


@where_used("crossings")
@kernel
def start_crossing(w: Wires, parcel: int) -> None:
    """Start a parcel on its link, unless it was suspended before it could begin."""
    if w.links[w.hops[w.parcels[parcel].hop]].holder != parcel:
        return
    crossing = w.crossings[parcel]
    crossing.since = crossing.at = current_time(w.clock)
    _plan_crossing(w, parcel)
    _replan_followers(w, parcel)


@where_used("crossings", False)
@kernel
def suspend_crossing(w: Wires, parcel: int) -> bool:
    """Take the link from a parcel; return whether some of its bytes are left to send."""
    crossing, now = w.crossings[parcel], current_time(w.clock)
    if crossing.end == now:
        return False  # its last byte is on the link
    if crossing.since != NONE:
        crossing.sent = _progress(w, parcel)
        if now > crossing.since:
            _book_hold(w, parcel)
    crossing.since = crossing.end = NONE
    replan(w.clock, parcel, CROSSED, NONE)
    replan(w.clock, parcel, PASSED_ON, NONE)
    _replan_followers(w, parcel)
    return True


@where_used("crossings", NONE)
@kernel
def end_crossing(w: Wires, parcel: int) -> int:
    """Release the link after a parcel's last byte; return the link.

    The link may already be held by another parcel.
    """
    p, crossing = w.parcels[parcel], w.crossings[parcel]
    number = w.hops[p.hop]
    link = w.links[number]
    link.n_bytes += p.n_bytes
    _book_hold(w, parcel)
    crossing.since = crossing.followers.head = NONE
    _end_feeds(w, long(crossing.feeds))
    if link.holder == parcel:
        link.held = 0
    plan_now(w.clock, RELEASED, number)
    return number


@kernel
def _book_hold(w: Wires, parcel: int) -> None:
    """Record the interval in which a parcel held its link."""
    p, since, now = w.parcels[parcel], w.crossings[parcel].since, current_time(w.clock)
    w.links[w.hops[p.hop]].busy += now - since
    if w.settings.record:
        note_span(w, since, now, w.hops[p.hop], p.entry)


@kernel
def _plan_crossing(w: Wires, parcel: int) -> None:
    """Plan the end of a parcel's crossing from the planned ends of the parcels that feed it."""
    p, crossing, now = w.parcels[parcel], w.crossings[parcel], current_time(w.clock)
    tail, feed = 0, long(crossing.feeds)
    crossing.end = NONE
    while feed != NONE and tail != NONE:
        end = long(w.crossings[w.feeds[feed].parcel].end)
        tail = NONE if end == NONE else max(tail, end)
        feed = long(w.feeds[feed].other)
    if tail != NONE:
        crossing.end = max(now + crossing.transfer - crossing.sent, tail + crossing.head)
    replan(w.clock, parcel, CROSSED, crossing.end)
    if p.hop != p.last and crossing.further == 0:  # on the last one it is there when it has crossed
        due = now + max(0, crossing.head - crossing.sent)
        replan(w.clock, parcel, PASSED_ON, due)


@kernel
def _replan_followers(w: Wires, parcel: int) -> None:
    """Replan the crossings of all parcels that ``parcel`` feeds."""
    feed = long(w.crossings[parcel].followers.head)
    while feed != NONE:
        follower = long(w.feeds[feed].follower)
        crossing = w.crossings[follower]
        if crossing.since != NONE:
            crossing.sent = _progress(w, follower)
            crossing.at = current_time(w.clock)
            _plan_crossing(w, follower)
            _replan_followers(w, follower)
        feed = long(w.feeds[feed].next)


@kernel
def _progress(w: Wires, parcel: int) -> int:
    """Return the completed part of a parcel's transfer, as ps at the link's rate.

    It is what the link could send so far, limited by the bytes that have arrived.
    """
    crossing, now = w.crossings[parcel], current_time(w.clock)
    if crossing.since == NONE:
        return crossing.sent
    done, feed = crossing.sent + now - crossing.at, long(crossing.feeds)
    while feed != NONE:
        of = w.crossings[w.feeds[feed].parcel]
        if of.end != NONE and of.end <= now:
            received = crossing.transfer - max(0, crossing.head - (now - of.end))
        elif of.transfer == 0:
            received = 0
        else:
            received = _progress(w, long(w.feeds[feed].parcel))
            received = max(0, _scale_up(received, crossing.transfer, of.transfer) - crossing.head)
        done = min(done, received)
        feed = long(w.feeds[feed].other)
    return done


@kernel
def _scale_up(part: int, of: int, whole: int) -> int:
    """Return ``part * of / whole``, rounded up; ``part`` is at most ``whole``."""
    if of == whole:
        return part
    if part < _SMALL and of < _SMALL:
        return -(-part * of // whole)
    found = rest = 0  # bit by bit, since the product may not be a number of 64 bits
    for bit in range(62, -1, -1):
        found, rest = 2 * found, 2 * rest
        if rest >= whole:
            found, rest = found + 1, rest - whole
        if of >> bit & 1:
            rest += part
            if rest >= whole:
                found, rest = found + 1, rest - whole
    return found + 1 if rest else found


# --- as a carrier --------------------------------------------------------------------------------


@inlined
def hand_to_links(w: Wires, parcel: int, _: int) -> None:
    """Send a new parcel: request its first link, or first a place in its port's window."""
    if w.settings.window > 0:
        _ask_window(w, parcel)
    else:
        cross(w, parcel, NONE)


@inlined
def advance_links(w: Wires) -> int:
    """Advance to the next instant with an event; return ADVANCED or AT_END."""
    return advance_to_next(w.clock)


@inlined
def land_from_links(w: Wires, parcel: int) -> bool:
    """Return False: on links, departures and arrivals are separate events."""
    return False


# --- windows -------------------------------------------------------------------------------------


@kernel
def _ask_window(w: Wires, parcel: int) -> None:
    """Request a place in the window (limit of messages in flight) of the parcel's port."""
    port_number = w.parcels[parcel].port
    port = w.ports[port_number]
    clash_with(w.clock, port.asked)
    clash_with(w.clock, port.released)
    port.asked = w.clock.counts[0].step
    append(port.window, w.parcels, parcel)
    admit(w, port_number)


@kernel
def admit(w: Wires, port_number: int) -> None:
    """Admit the next waiting parcel to a port's window if a place is free."""
    port = w.ports[port_number]
    if port.window.head != NONE and port.in_window < w.settings.window:
        port.in_window += 1
        plan_now(w.clock, clock.ADMITTED, take_first(port.window, w.parcels))


@kernel
def leave_window(w: Wires, port: int) -> None:
    """Free the place of a parcel in its port's window."""
    clash_with(w.clock, w.ports[port].asked)
    w.ports[port].released = w.clock.counts[0].step
    w.ports[port].in_window -= 1
    plan_now(w.clock, clock.LEFT_WINDOW, port)


# --- links ---------------------------------------------------------------------------------------


@inlined
def cross(w: Wires, parcel: int, begun: int) -> None:
    """Request the present link of a parcel.

    Where messages may be suspended, ``begun`` is the first FEED of the parcels that feed it, or
    NONE if all its bytes have arrived.
    """
    if w.settings.suspends:
        prepare_crossing(w, parcel, begun)
    request_link(w, parcel)


@inlined
def cross_next(w: Wires, parcel: int) -> None:
    """Request the next link for a parcel that the far end of its link may forward."""
    if w.settings.suspends:
        parcel = pass_crossing_on(w, parcel)
    else:
        w.parcels[parcel].hop += 1
    request_link(w, parcel)


@kernel
def request_link(w: Wires, parcel: int) -> None:
    """Queue a parcel for its link; grant the link if it is free.

    Where messages may be suspended, a holder of a later class is suspended at once, and continues
    before other parcels of its class.
    """
    p = w.parcels[parcel]
    number = w.hops[p.hop]
    link, held = w.links[number], NONE
    clash_with(w.clock, link.asked)
    clash_with(w.clock, link.released)
    link.asked = w.clock.counts[0].step
    if w.settings.suspends and link.held:
        held = long(link.holder)
        if w.parcels[held].precedence >> CLASS_BITS > p.precedence >> CLASS_BITS:
            link.held = 0
        else:
            held = NONE
    _queue(w, number, parcel)
    grant_link(w, number)
    if held != NONE and suspend_crossing(w, held):
        first = w.parcels[held].precedence >> CLASS_BITS << CLASS_BITS
        w.parcels[held].precedence = first
        _queue(w, number, held)
    link.longest = max(link.longest, link.queue)


@inlined
def _queue(w: Wires, number: int, parcel: int) -> None:
    """Insert a parcel into a link's queue, behind parcels of an equal or earlier precedence."""
    link = w.links[number]
    link.queue += 1
    if w.settings.ordered:
        insert_in_order(link, w.parcels, w.parcels["precedence"], parcel)
    else:
        append(link, w.parcels, parcel)


@kernel
def grant_link(w: Wires, number: int) -> None:
    """Give a free link to the next waiting parcel, if there is one."""
    link = w.links[number]
    if link.head != NONE and link.held == 0:
        link.queue -= 1
        link.held, link.holder = 1, take_first(link, w.parcels)
        plan_now(w.clock, clock.GRANTED, link.holder)


@kernel
def begin_after_grant(w: Wires, parcel: int) -> None:
    """Let a parcel enter the granted link once the far end has buffer room for all of it."""
    if w.settings.suspends:
        start_crossing(w, parcel)
        return
    p = w.parcels[parcel]
    link = w.links[w.hops[p.hop]]
    if p.kind >= SWITCHED or p.hop == p.last or link.room < 0:
        enter_link(w, parcel)
        return
    link.waits = parcel
    take_room(w, w.hops[p.hop])


@kernel
def take_room(w: Wires, number: int) -> None:
    """Reserve buffer room at a link's far end for the waiting parcel, if enough is free."""
    link = w.links[number]
    if link.waits == NONE:
        return
    _note_room_change(w, number)
    room = whole_bytes(w.parcels[link.waits].n_bytes)
    if room <= link.left:
        link.left -= room
        plan_now(w.clock, clock.FOUND_ROOM, link.waits)
        link.waits = NONE


@kernel
def _note_room_change(w: Wires, number: int) -> None:
    """Record a tie if the free buffer room at a link's far end changes twice in a generation."""
    clash_with(w.clock, w.links[number].filled)
    w.links[number].filled = w.clock.counts[0].step


@kernel
def whole_bytes(n_bytes: float) -> int:
    """Round up to whole bytes, so that reserved and returned buffer room add up exactly."""
    return max(1, math.ceil(n_bytes))


@kernel
def enter_link(w: Wires, parcel: int) -> None:
    """Let a parcel hold the link until its last byte is on it."""
    p, now = w.parcels[parcel], current_time(w.clock)
    number = w.hops[p.hop]
    link = w.links[number]
    link.waits = NONE
    head = round_ps(min(w.settings.packet, p.n_bytes) * link.per_byte)
    end = max(now + round_ps(p.n_bytes * link.per_byte), p.tail + head)
    p.tail = end
    link.n_bytes += p.n_bytes
    link.busy += end - now
    link.before = w.hops[p.hop - 1] if p.hop > p.first else NONE
    if w.settings.record:
        note_span(w, now, end, number, p.entry)
    if p.hop == p.last:
        plan_later(w.clock, end - now, clock.THROUGH, number)
        return
    plan_later(w.clock, end - now, clock.FREE, number)
    plan_later(w.clock, head, clock.PASS, parcel)


@kernel
def release_link(w: Wires, number: int) -> int:
    """Release a link after its holder's last byte; return the holder."""
    clash_with(w.clock, w.links[number].asked)
    w.links[number].released = w.clock.counts[0].step
    w.links[number].held = 0
    plan_now(w.clock, clock.RELEASED, number)
    return w.links[number].holder


@kernel
def plan_return(w: Wires, before: int, n_bytes: float) -> None:
    """Plan the return of buffer room at the far end of a link, after that link's latency."""
    if w.links[before].room < 0:
        return
    giver = new_parcel(w)
    w.parcels[giver].n_bytes, w.parcels[giver].hop = n_bytes, before
    plan_later(w.clock, w.links[before].latency, clock.RETURNING_ROOM, giver)


@kernel
def return_room(w: Wires, giver: int) -> None:
    """Return the buffer room that parcel ``giver`` stands for to its link's far end."""
    number = long(w.parcels[giver].hop)
    _note_room_change(w, number)
    w.links[number].left += whole_bytes(w.parcels[giver].n_bytes)
    free_parcel(w, giver)
    plan_now(w.clock, clock.RETURNED_ROOM, number)
