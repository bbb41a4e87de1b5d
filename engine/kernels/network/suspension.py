"""Messages that are suspended on a link for one that goes first.

See :mod:`engine.kernels.reference.crossing` for what this means.  A message is then another parcel
on each of its links, since it may wait for two of them at once; parcels *feed* those further on,
and what is planned of these is planned anew when that of their feeds is.
"""

from dimsweep.engine.compiler import kernel
from dimsweep.engine.kernels.core import pool
from dimsweep.engine.kernels.core.by_type import where_used
from dimsweep.engine.kernels.core.none import NONE
from dimsweep.engine.kernels.core.queue import append
from dimsweep.engine.kernels.network.clock import at_once, now_of, plan_anew
from dimsweep.engine.kernels.network.events import CROSSED, PASSED_ON, RELEASED
from dimsweep.engine.kernels.network.parcels import let_go, new_parcel, note_span, whole_ps
from dimsweep.engine.kernels.network.state import Wires

_SMALL = 1 << 31  # the product of two numbers below it is exact


@where_used("crossings")
@kernel
def prepare(w: Wires, parcel: int, begun: int) -> None:
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
        begun = w.feeds[begun].other + 0


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
def pass_on(w: Wires, parcel: int) -> int:
    """The far end of a parcel's link passes it on: as another one, which that one feeds."""
    number = new_parcel(w)
    w.crossings[parcel].further = 1
    w.parcels[number] = w.parcels[parcel]
    further = w.parcels[number]
    further.hop += 1
    further.whole, further.precedence = number, w.crossings[parcel].precedence
    prepare(w, number, NONE)
    _follow(w, parcel, number)
    let_go(w, parcel)
    return number


@where_used("crossings", NONE)
@kernel
def feeds_of_gate(w: Wires, gate: int) -> int:
    """The FEEDs of what has begun to arrive at a gate: the first, or NONE."""
    return w.begun[gate] + 0


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
    _end_feeds(w, w.begun[gate] + 0)
    w.begun[gate] = NONE


@kernel
def _new_feed(w: Wires, parcel: int) -> int:
    number = pool.pop(w.clock.counts[0].feeds, w.feeds)
    w.feeds[number].parcel = parcel
    w.parcels[parcel].leaving += 1
    return number


@kernel
def _end_feeds(w: Wires, first: int) -> None:
    while first != NONE:
        other = w.feeds[first].other + 0
        let_go(w, w.feeds[first].parcel)
        pool.push(w.clock.counts[0].feeds, w.feeds, first)
        first = other


@where_used("crossings")
@kernel
def begin(w: Wires, parcel: int) -> None:
    """A parcel has the link, unless it had to make way before it could begin."""
    if w.links[w.hops[w.parcels[parcel].hop]].holder != parcel:
        return
    crossing = w.crossings[parcel]
    crossing.since = crossing.at = now_of(w.clock)
    _plan(w, parcel)
    _replan_followers(w, parcel)


@where_used("crossings", False)
@kernel
def suspend(w: Wires, parcel: int) -> bool:
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
    _end_feeds(w, crossing.feeds + 0)
    if link.holder == parcel:
        link.held = 0
    at_once(w.clock, RELEASED, number)
    return number


@kernel
def _book_hold(w: Wires, parcel: int) -> None:
    """Account for a time in which a parcel held its link."""
    p, since, now = w.parcels[parcel], w.crossings[parcel].since + 0, now_of(w.clock)
    w.links[w.hops[p.hop]].busy += now - since
    if w.settings.record:
        note_span(w, since, now, w.hops[p.hop], p.entry)


@kernel
def _plan(w: Wires, parcel: int) -> None:
    """Plan the rest, with what is known now."""
    p, crossing, now = w.parcels[parcel], w.crossings[parcel], now_of(w.clock)
    tail, feed = 0, crossing.feeds + 0
    crossing.end = NONE
    while feed != NONE and tail != NONE:
        end = w.crossings[w.feeds[feed].parcel].end + 0
        tail = NONE if end == NONE else max(tail, end)
        feed = w.feeds[feed].other + 0
    if tail != NONE:
        crossing.end = max(now + crossing.transfer - crossing.sent, tail + crossing.head)
    plan_anew(w.clock, parcel, CROSSED, crossing.end)
    if p.hop != p.last and crossing.further == 0:  # on the last one it is there when it has crossed
        due = now + max(0, crossing.head - crossing.sent)
        plan_anew(w.clock, parcel, PASSED_ON, due)


@kernel
def _replan_followers(w: Wires, parcel: int) -> None:
    """Plan anew what a parcel feeds, since it has a new plan, or none for a while."""
    feed = w.crossings[parcel].followers.head + 0
    while feed != NONE:
        follower = w.feeds[feed].follower + 0
        crossing = w.crossings[follower]
        if crossing.since != NONE:
            crossing.sent = _progress(w, follower)
            crossing.at = now_of(w.clock)
            _plan(w, follower)
            _replan_followers(w, follower)
        feed = w.feeds[feed].next + 0


@kernel
def _progress(w: Wires, parcel: int) -> int:
    """How much of a parcel's transfer is done by now (ps): what its link could send, and no more
    than has arrived."""
    crossing, now = w.crossings[parcel], now_of(w.clock)
    if crossing.since == NONE:
        return crossing.sent + 0
    done, feed = crossing.sent + now - crossing.at, crossing.feeds + 0
    while feed != NONE:
        of = w.crossings[w.feeds[feed].parcel]
        if of.end != NONE and of.end <= now:
            received = crossing.transfer - max(0, crossing.head - (now - of.end))
        elif of.transfer == 0:
            received = 0
        else:
            received = _progress(w, w.feeds[feed].parcel + 0)
            received = max(0, _share(received, crossing.transfer, of.transfer) - crossing.head)
        done = min(done, received)
        feed = w.feeds[feed].other + 0
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
