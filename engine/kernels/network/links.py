"""Parcels on their way: links take one at a time, first in first out, or suspend one for another.

See :mod:`engine.kernels.reference.links` for the model; the order of events is the order of the
SimPy resources there: a parcel that asks for a free link, for room or for a place in a window gets
it at the end of what this instant has planned so far, and so does the next one after a release.

**Suspension.**  A message that may be suspended is another parcel on each of its links, since it
may wait for two of them at once.  Parcels *feed* those further on; when a parcel is planned anew,
so are the parcels that it feeds.
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
    at_once,
    clash_with,
    go_to_next,
    later,
    now_of,
    plan_anew,
)
from dimsweep.engine.kernels.network.state import SWITCHED, Wires
from dimsweep.engine.kernels.phase.phase_time import whole

CLASS_BITS = 32  # of a parcel's precedence: its messages' class is above them


@inlined
def precedence_of(of: int, began: int) -> int:
    """What a parcel is put in order by: its class, and then a number: whoever began first goes
    first.  Number 0 of a class is what was suspended."""
    return of << CLASS_BITS | began + 1


@kernel
def new_parcel(w: Wires) -> int:
    return queues.take_free(w.clock.counts[0].parcels, w.parcels)


@kernel
def free_parcel(w: Wires, parcel: int) -> None:
    queues.put_free(w.clock.counts[0].parcels, w.parcels, parcel)


@kernel
def let_go(w: Wires, parcel: int) -> None:
    """One of the things has happened to a parcel on one link that somebody waits for: all of it
    has left, it has begun to arrive, or what it feeds needs it no longer."""
    p = w.parcels[parcel]
    p.leaving -= 1
    if p.leaving == 0:
        free_parcel(w, parcel)


@kernel
def whole_ps(picoseconds: float) -> int:
    """Whole picoseconds, or more than a run may last."""
    return int(min(whole(picoseconds), float(LONGEST)))


@kernel
def note_span(w: Wires, start: int, end: int, place: int, entry: int) -> None:
    """Record when something was held, and for what."""
    span = w.spans[w.clock.counts[0].n_spans]
    w.clock.counts[0].n_spans += 1
    span.start, span.end, span.place, span.entry = start, end, place, entry


# --- where several share a link ------------------------------------------------------------------


@kernel
def set_out(w: Wires, parcel: int, route: int) -> int:
    """Note a message, the one that was counted last, on its links; its number."""
    p, number, now = w.parcels[parcel], w.clock.counts[0].n_messages - 1, now_of(w.clock)
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
def end_on_links(w: Wires, parcel: int) -> None:
    """The last byte of a message has left all its links."""
    p, now = w.parcels[parcel], now_of(w.clock)
    w.clock.counts[0].under_way -= 1
    for hop in range(p.first, p.last + 1):
        link = w.links[w.hops[hop]]
        link.queue -= 1
        link.busy += 0 if link.queue else now


_SMALL = 1 << 31  # the product of two numbers below it is exact


@where_used("crossings")
@kernel
def prepare_crossing(w: Wires, parcel: int, begun: int) -> None:
    """A parcel is about to ask for its link.  ``begun`` is what feeds it, in part or in
    whole: the first of some FEEDs, or NONE if all of its bytes have arrived."""
    p, crossing = w.parcels[parcel], w.crossings[parcel]
    link = w.links[w.hops[p.hop]]
    crossing.transfer = whole_ps(p.n_bytes * link.per_byte)
    crossing.head = whole_ps(min(w.settings.packet, p.n_bytes) * link.per_byte)
    crossing.precedence = p.precedence
    crossing.sent = crossing.at = crossing.further = 0
    crossing.since = crossing.end = crossing.feeds = crossing.followers.head = NONE
    p.leaving = 2
    while begun != NONE:
        _follow(w, w.feeds[begun].parcel, parcel)
        begun = long(w.feeds[begun].other)


@kernel
def _follow(w: Wires, parcel: int, follower: int) -> None:
    """A parcel feeds another one, which is told of new plans as long as there can be any."""
    number, crossing = _new_feed(w, parcel), w.crossings[parcel]
    feed = w.feeds[number]
    feed.follower, feed.other = follower, w.crossings[follower].feeds
    w.crossings[follower].feeds = number
    if crossing.end == NONE or crossing.end > now_of(w.clock):
        append(crossing.followers, w.feeds, number)


@where_used("crossings", NONE)
@kernel
def pass_crossing_on(w: Wires, parcel: int) -> int:
    """The far end of a parcel's link passes it on: as another one, which that one feeds."""
    number = new_parcel(w)
    w.crossings[parcel].further = 1
    w.parcels[number] = w.parcels[parcel]
    further = w.parcels[number]
    further.hop += 1
    further.whole, further.precedence = number, w.crossings[parcel].precedence
    prepare_crossing(w, number, NONE)
    _follow(w, parcel, number)
    let_go(w, parcel)
    return number


@where_used("crossings", NONE)
@kernel
def feeds_of_gate(w: Wires, gate: int) -> int:
    """The FEEDs of what has begun to arrive at a gate: the first, or NONE."""
    return long(w.begun[gate])


@where_used("crossings")
@kernel
def feed_gate(w: Wires, gate: int, parcel: int) -> None:
    """A parcel has begun to arrive at a gate, and will feed what the gate launches."""
    number = _new_feed(w, parcel)
    w.crossings[parcel].further = 1
    w.feeds[number].other = w.begun[gate]
    w.begun[gate] = number


@where_used("crossings")
@kernel
def leave_gate(w: Wires, gate: int) -> None:
    """A gate has launched what it does, and may be reached again."""
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
        let_go(w, w.feeds[first].parcel)
        queues.put_free(w.clock.counts[0].feeds, w.feeds, first)
        first = other


@where_used("crossings")
@kernel
def start_crossing(w: Wires, parcel: int) -> None:
    """A parcel has the link, unless it had to make way before it could begin."""
    if w.links[w.hops[w.parcels[parcel].hop]].holder != parcel:
        return
    crossing = w.crossings[parcel]
    crossing.since = crossing.at = now_of(w.clock)
    _plan(w, parcel)
    _replan_followers(w, parcel)


@where_used("crossings", False)
@kernel
def suspend_crossing(w: Wires, parcel: int) -> bool:
    """The link is another parcel's from now on; whether something is left to go on with."""
    crossing, now = w.crossings[parcel], now_of(w.clock)
    if crossing.end == now:
        return False  # its last byte is on the link
    if crossing.since != NONE:
        crossing.sent = _progress(w, parcel)
        if now > crossing.since:
            _book_hold(w, parcel)
    crossing.since = crossing.end = NONE
    plan_anew(w.clock, parcel, CROSSED, NONE)
    plan_anew(w.clock, parcel, PASSED_ON, NONE)
    _replan_followers(w, parcel)
    return True


@where_used("crossings", NONE)
@kernel
def end_crossing(w: Wires, parcel: int) -> int:
    """The last byte of a parcel is on its link; returns the link, which may be another's now."""
    p, crossing = w.parcels[parcel], w.crossings[parcel]
    number = w.hops[p.hop]
    link = w.links[number]
    link.n_bytes += p.n_bytes
    _book_hold(w, parcel)
    crossing.since = crossing.followers.head = NONE
    _end_feeds(w, long(crossing.feeds))
    if link.holder == parcel:
        link.held = 0
    at_once(w.clock, RELEASED, number)
    return number


@kernel
def _book_hold(w: Wires, parcel: int) -> None:
    """Account for a time in which a parcel held its link."""
    p, since, now = w.parcels[parcel], w.crossings[parcel].since, now_of(w.clock)
    w.links[w.hops[p.hop]].busy += now - since
    if w.settings.record:
        note_span(w, since, now, w.hops[p.hop], p.entry)


@kernel
def _plan(w: Wires, parcel: int) -> None:
    """Plan the rest, with what is known now."""
    p, crossing, now = w.parcels[parcel], w.crossings[parcel], now_of(w.clock)
    tail, feed = 0, long(crossing.feeds)
    crossing.end = NONE
    while feed != NONE and tail != NONE:
        end = long(w.crossings[w.feeds[feed].parcel].end)
        tail = NONE if end == NONE else max(tail, end)
        feed = long(w.feeds[feed].other)
    if tail != NONE:
        crossing.end = max(now + crossing.transfer - crossing.sent, tail + crossing.head)
    plan_anew(w.clock, parcel, CROSSED, crossing.end)
    if p.hop != p.last and crossing.further == 0:  # on the last one it is there when it has crossed
        due = now + max(0, crossing.head - crossing.sent)
        plan_anew(w.clock, parcel, PASSED_ON, due)


@kernel
def _replan_followers(w: Wires, parcel: int) -> None:
    """Plan anew what a parcel feeds, since it has a new plan, or none for a while."""
    feed = long(w.crossings[parcel].followers.head)
    while feed != NONE:
        follower = long(w.feeds[feed].follower)
        crossing = w.crossings[follower]
        if crossing.since != NONE:
            crossing.sent = _progress(w, follower)
            crossing.at = now_of(w.clock)
            _plan(w, follower)
            _replan_followers(w, follower)
        feed = long(w.feeds[feed].next)


@kernel
def _progress(w: Wires, parcel: int) -> int:
    """How much of a parcel's transfer is done by now (ps): what its link could send, and no more
    than has arrived."""
    crossing, now = w.crossings[parcel], now_of(w.clock)
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
            received = max(0, _share(received, crossing.transfer, of.transfer) - crossing.head)
        done = min(done, received)
        feed = long(w.feeds[feed].other)
    return done


@kernel
def _share(part: int, of: int, whole: int) -> int:
    """``part * of / whole``, rounded up; ``part`` is not more than ``whole``."""
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
    """A parcel asks for its first link, or for a place in its port's window before."""
    if w.settings.window > 0:
        _ask_window(w, parcel)
    else:
        cross(w, parcel, NONE)


@inlined
def advance_links(w: Wires) -> int:
    """Go to the next instant at which something happens."""
    return go_to_next(w.clock)


@inlined
def land_from_links(w: Wires, parcel: int) -> bool:
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
        at_once(w.clock, clock.ADMITTED, take_first(port.window, w.parcels))


@kernel
def close(w: Wires, port: int) -> None:
    """A parcel has left the port's window."""
    clash_with(w.clock, w.ports[port].asked)
    w.ports[port].released = w.clock.counts[0].step
    w.ports[port].in_window -= 1
    at_once(w.clock, clock.CLOSED, port)


# --- links ---------------------------------------------------------------------------------------


@inlined
def cross(w: Wires, parcel: int, begun: int) -> None:
    """Take a parcel over its next link.  Where it may be suspended, ``begun`` is what feeds it:
    the first of some FEEDs, or NONE if all of its bytes have arrived."""
    if w.settings.suspends:
        prepare_crossing(w, parcel, begun)
    ask(w, parcel)


@inlined
def go_on(w: Wires, parcel: int) -> None:
    """Take a parcel that the far end may pass on over its next link."""
    if w.settings.suspends:
        parcel = pass_crossing_on(w, parcel)
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
        held = long(link.holder)
        if w.parcels[held].precedence >> CLASS_BITS > p.precedence >> CLASS_BITS:
            link.held = 0
        else:
            held = NONE
    _queue(w, number, parcel)
    grant(w, number)
    if held != NONE and suspend_crossing(w, held):
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
        at_once(w.clock, clock.GRANTED, link.holder)


@kernel
def granted(w: Wires, parcel: int) -> None:
    """The parcel enters the link once there is room for all of it at the far end."""
    if w.settings.suspends:
        start_crossing(w, parcel)
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
        at_once(w.clock, clock.ROOMY, link.waits)
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
        later(w.clock, end - now, clock.THROUGH, number)
        return
    later(w.clock, end - now, clock.FREE, number)
    later(w.clock, head, clock.PASS, parcel)


@kernel
def release(w: Wires, number: int) -> int:
    """The last byte of what holds a link is on it; returns that parcel."""
    clash_with(w.clock, w.links[number].asked)
    w.links[number].released = w.clock.counts[0].step
    w.links[number].held = 0
    at_once(w.clock, clock.RELEASED, number)
    return w.links[number].holder


@kernel
def give_back(w: Wires, before: int, n_bytes: float) -> None:
    """Give room at the far end of a link back, when that link's latency has passed, too."""
    if w.links[before].room < 0:
        return
    giver = new_parcel(w)
    w.parcels[giver].n_bytes, w.parcels[giver].hop = n_bytes, before
    later(w.clock, w.links[before].latency, clock.GIVE, giver)


@kernel
def give(w: Wires, giver: int) -> None:
    """Let a link have back the room at its far end that ``giver`` names."""
    number = long(w.parcels[giver].hop)
    _fill(w, number)
    w.links[number].left += room_of(w.parcels[giver].n_bytes)
    free_parcel(w, giver)
    at_once(w.clock, clock.GAVE, number)
