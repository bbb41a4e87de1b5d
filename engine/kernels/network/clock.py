"""The clock of a run: kinds of events, their order, and ties.

The tie rule is that of SimPy, and therefore of the reference kernel: events of one instant happen
in the order in which they were planned.  Events planned before this instant come first (from the
calendar), then events that this instant plans for itself (in a ring).  When no event is left,
operators and ports settle (:mod:`engine.kernels.network.kernel`), which may plan more events for
the instant.

Events of a parcel that may be suspended may be replanned, so they are in a heap; their number among
all planned events determines their turn.

**Ties.**  A folded run (:mod:`engine.kernels.network.run`) simulates one rank for many, so it
cannot know which of two ranks' messages would request a link first.  Within an instant, events come
in *generations*: events that a generation plans for the same instant form the next one, for every
rank alike.  The order is therefore open only between two steps of one generation that change the
same record.  It matters only where the results differ: two steps request one link, or one requests
it as the other releases it.  The folded run is then abandoned.  The order within one step is fixed.
"""

from dimsweep.engine.compiler import inlined, kernel
from dimsweep.engine.kernels.core.agenda import (
    EMPTY,
    cancel_due,
    next_number,
    next_time,
    plan,
    take,
    take_due,
)
from dimsweep.engine.kernels.core.agenda import plan_due as plan_in_heap
from dimsweep.engine.kernels.core.compiling import where_used
from dimsweep.engine.kernels.core.tables import LONGEST, NEVER, NONE
from dimsweep.engine.kernels.network.state import Accounts, Clock

FREE = 0  # a link: the last byte of what holds it is on it
THROUGH = 1  # a link: as FREE, and it is the last one of the route
PASS = 2  # a parcel: the far end may pass it on
GRANTED = 3  # a parcel: it heads the queue of a free link
FOUND_ROOM = 4  # a parcel: it has found room at the link's far end
RELEASED = 5  # a link: free for the next one
RETURNING_ROOM = 6  # a parcel that gives room back
RETURNED_ROOM = 7  # a link: there is more room at its far end
ADMITTED = 8  # a parcel: its port's window has room
LEAVE_WINDOW = 9  # a port: a parcel leaves its window
LEFT_WINDOW = 10  # a port: its window has room
COMPLETE = 11  # a strand: all that it waits for has arrived
REDUCED = 12  # a strand: and reduced
OPERATOR = 13  # a node ends
ARRIVE = 14  # a member of a flow: the latencies behind its last chunk have passed
LANDED = 15  # a parcel that something else carries: it has arrived
SERVED = 16  # a node: the bytes of its access have moved, as was foreseen at some time
DEPARTED = 17  # a parcel that packets carry: its last byte has left its port
CROSSED = 18  # a parcel that may be suspended: its last byte is on its link
PASSED_ON = 19  # a parcel that may be suspended: the far end may pass it on
KIND_BITS = 5

# Outcomes of a run, after the phase kernel's.  FULL: enlarge the arrays, then continue.  TOO_MANY:
# more messages than allowed.  CARRY: advance the packets, at most to ``counts.next``.
FINISHED, STUCK, TOO_LONG, TIED, FULL, TOO_MANY, CARRY = range(7)

# Result of advancing a carrier: to an instant, to the end, or another kernel must advance first.
ADVANCED, AT_END, ELSEWHERE = range(3)


@inlined
def begin_step(c: Clock) -> None:
    """Count a step: one event, the begin of one phase, or one settlement of operators and ports."""
    c.counts[0].step += 1


@inlined
def begin_generation(c: Clock) -> None:
    """Let the present step be the first one of a new generation of events."""
    c.counts[0].generation = c.counts[0].step


@inlined
def clash_with(c: Clock, other: int) -> None:
    """Record a tie if ``other``, a step that changed the same record, is of this generation."""
    if other >= c.counts[0].generation and other != c.counts[0].step:
        c.counts[0].clashed = 1


@inlined
def book_sent(c: Clock, a: Accounts, rank: int, dim: int, n_bytes: float) -> None:
    """Add bytes to the account of what a rank sends into a dimension.

    Sums are rounded, so unequal sizes must be added in a known order: else a tie is recorded.
    """
    account = a.ports[rank, dim]
    account.bytes_sent += n_bytes
    if account.first_sent < c.counts[0].generation:
        account.first_sent = c.counts[0].step
    elif account.last_sent != n_bytes:
        account.unequal = c.counts[0].step
    account.last_sent = n_bytes
    if account.unequal >= c.counts[0].generation:
        clash_with(c, account.first_sent)


@inlined
def current_time(c: Clock) -> int:
    """Return the present time (ps)."""
    return c.agenda.counts[0].now


@inlined
def plan_now(c: Clock, kind: int, which: int) -> None:
    """Plan an event of ``kind`` for record number ``which`` at the present time."""
    _number_event(c, NONE)
    _push(c, which << KIND_BITS | kind)


@where_used("plans")
@kernel
def _number_event(c: Clock, number: int) -> None:
    """Give the event at the end of the ring ``number``, or a new number if NONE."""
    if number == NONE:
        number = next_number(c.agenda)
    c.numbers[c.counts[0].ring_end & (len(c.ring) - 1)] = number


@inlined
def _push(c: Clock, what: int) -> None:
    end = c.counts[0].ring_end
    c.ring[end & (len(c.ring) - 1)] = what
    c.counts[0].ring_end = end + 1


@kernel
def plan_later(c: Clock, delay: int, kind: int, which: int) -> None:
    """Plan an event of ``kind`` for record number ``which`` in ``delay`` ps."""
    now = c.agenda.counts[0].now
    if delay == 0:
        plan_now(c, kind, which)
    elif delay >= LONGEST - now:
        c.counts[0].overdue = 1
    else:
        plan(c.agenda, now + delay, which << KIND_BITS | kind)


@kernel
def replan(c: Clock, parcel: int, kind: int, due: int) -> None:
    """Move the event CROSSED or PASSED_ON of a parcel to time ``due``, or cancel it (NONE)."""
    number = 2 * parcel + kind - CROSSED
    if due == NONE or due >= LONGEST:
        cancel_due(c.plans, c.order, number)
        c.counts[0].overdue |= due != NONE
    else:
        c.plans[number].number = next_number(c.agenda)
        plan_in_heap(c.plans, c.order, number, due)


@inlined
def request_settling(c: Clock) -> None:
    """Request that operators and ports settle at the end of this instant."""
    c.counts[0].settling = 1


@inlined
def take_event(c: Clock) -> int:
    """Take and return the next event of this instant; EMPTY if none is left."""
    first = c.counts[0].ring
    planned = _take_planned(c, first)
    if planned >= 0:
        return planned
    if first == c.counts[0].ring_end:
        return EMPTY
    if first == c.counts[0].generation_end:
        c.counts[0].generation_end = c.counts[0].ring_end
        begin_generation(c)
    c.counts[0].ring = first + 1
    return c.ring[first & (len(c.ring) - 1)]


@where_used("plans", EMPTY)
@kernel
def _take_planned(c: Clock, first: int) -> int:
    """Take the heap's next event if it is due now and precedes event ``first`` of the ring."""
    if _next_planned(c) > current_time(c):
        return EMPTY
    plan = c.plans[c.order[1]]
    if first != c.counts[0].ring_end and plan.number > c.numbers[first & (len(c.ring) - 1)]:
        return EMPTY
    number = take_due(c.plans, c.order)
    return number >> 1 << KIND_BITS | CROSSED + (number & 1)


@where_used("plans", NEVER)
@kernel
def _next_planned(c: Clock) -> int:
    """Return the time of the next event in the heap."""
    return c.plans[c.order[1]].due if c.order[0] > 0 else NEVER


@kernel
def advance_to_event(c: Clock, until: int) -> bool:
    """Advance to the next instant with an event, at most to ``until``; return if one exists."""
    agenda, found, due = c.agenda.counts[0], False, _next_planned(c)
    if due <= until:
        until, found = due, True
        if next_time(c.agenda) > until:
            agenda.now = until
    agenda.until = until
    while True:
        what = take(c.agenda)
        if what < 0:
            break
        found = True
        agenda.until = agenda.now
        _number_event(c, agenda.current)
        _push(c, what)
    return found


@kernel
def advance_to_next(c: Clock) -> int:
    """Advance to the next instant with an event; return ADVANCED or AT_END."""
    return ADVANCED if advance_to_event(c, LONGEST) else AT_END


@kernel
def set_time(c: Clock, time: int) -> None:
    """Set the time; no planned event may be earlier."""
    c.agenda.counts[0].now = time
    if time >= LONGEST:
        c.counts[0].overdue = 1


@inlined
def add_times(one: int, other: int) -> int:
    """Return the sum of two times, at most LONGEST."""
    return LONGEST if one > LONGEST - other else one + other
