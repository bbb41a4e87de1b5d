"""When things happen in a run: kinds of events, their order, and ties.

The tie rule is SimPy's, and so the witness's: events of one instant happen in the order in which
they were planned.  Events planned before this instant come first (from the calendar), then events
that this instant plans for itself (in a ring); when none is left, operators and ports settle
(:mod:`engine.kernels.network.kernel`), which may plan more for it.

Events of a parcel that may be suspended may be planned anew, so they are in a heap; their number
among all planned events says when their turn comes.

**Ties.**  A folded run (:mod:`engine.kernels.network.run`) simulates one rank for many, so it
cannot know which of two ranks' messages would ask for a link first.  Within an instant, events come
in *generations*: events that a generation plans for the same instant are the next one, for every
rank alike.  So the order is open only between two steps of one generation that change the same
thing, and matters only where the results differ: two ask for the same link, or one asks as the
other releases it.  The run is then given up.  The order within one step is fixed.
"""

from dimsweep.engine.compiler import inlined, kernel
from dimsweep.engine.kernels.core.agenda import (
    EMPTY,
    give_up_due,
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
THROUGH = 1  # a link: likewise, and it is the last one
PASS = 2  # a parcel: the far end may pass it on
GRANTED = 3  # a parcel: it heads the queue of a free link
ROOMY = 4  # a parcel: it has found room at the link's far end
RELEASED = 5  # a link: free for the next one
GIVE = 6  # a parcel that gives room back
GAVE = 7  # a link: there is more room at its far end
ADMITTED = 8  # a parcel: its port's window has room
CLOSE = 9  # a port: a parcel leaves its window
CLOSED = 10  # a port: its window has room
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

# Outcomes of a run, those of the phase kernel first.  FULL: arrays must be enlarged, then it goes
# on.  TOO_MANY: more messages than allowed.  CARRY: packets are to go on, to ``counts.next`` at
# most.
FINISHED, STUCK, TOO_LONG, TIED, FULL, TOO_MANY, CARRY = range(7)

# How a carrier has gone to the next instant: to one, to none, or only another kernel can.
WENT_ON, AT_END, ELSEWHERE = range(3)


@inlined
def begin_step(c: Clock) -> None:
    """Count a step: an event, the begin of a phase, or settling."""
    c.counts[0].step += 1


@inlined
def begin_generation(c: Clock) -> None:
    """This step begins another generation."""
    c.counts[0].generation = c.counts[0].step


@inlined
def clash_with(c: Clock, other: int) -> None:
    """Note a clash if this step, and the one ``other`` that did the same, are of one generation."""
    if other >= c.counts[0].generation and other != c.counts[0].step:
        c.counts[0].clashed = 1


@inlined
def book_sent(c: Clock, a: Accounts, rank: int, dim: int, n_bytes: float) -> None:
    """Book bytes that a rank sends: unequal sizes must be added in a known order, since sums are
    rounded."""
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
def now_of(c: Clock) -> int:
    return c.agenda.counts[0].now


@inlined
def at_once(c: Clock, kind: int, which: int) -> None:
    """Plan an event for this instant."""
    _number(c, NONE)
    _put(c, which << KIND_BITS | kind)


@where_used("plans")
@kernel
def _number(c: Clock, number: int) -> None:
    """Number the next event in the ring: as it was planned before this instant, or (NONE) now."""
    if number == NONE:
        number = next_number(c.agenda)
    c.numbers[c.counts[0].ring_end & (len(c.ring) - 1)] = number


@inlined
def _put(c: Clock, what: int) -> None:
    end = c.counts[0].ring_end
    c.ring[end & (len(c.ring) - 1)] = what
    c.counts[0].ring_end = end + 1


@kernel
def later(c: Clock, delay: int, kind: int, which: int) -> None:
    """Plan an event in ``delay`` ps."""
    now = c.agenda.counts[0].now
    if delay == 0:
        at_once(c, kind, which)
    elif delay >= LONGEST - now:
        c.counts[0].overdue = 1
    else:
        plan(c.agenda, now + delay, which << KIND_BITS | kind)


@kernel
def plan_anew(c: Clock, parcel: int, kind: int, due: int) -> None:
    """Plan CROSSED or PASSED_ON of a parcel for a time, or for none (NONE), instead of when it was
    planned before."""
    number = 2 * parcel + kind - CROSSED
    if due == NONE or due >= LONGEST:
        give_up_due(c.plans, c.order, number)
        c.counts[0].overdue |= due != NONE
    else:
        c.plans[number].number = next_number(c.agenda)
        plan_in_heap(c.plans, c.order, number, due)


@inlined
def touch(c: Clock) -> None:
    """Settle at the end of this instant."""
    c.counts[0].settling = 1


@inlined
def next_now(c: Clock) -> int:
    """The next event of this instant, or a negative number."""
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
    """What is due next in the heap, if it is due now, and before the ``first`` in the ring."""
    if _next_planned(c) > now_of(c):
        return EMPTY
    plan = c.plans[c.order[1]]
    if first != c.counts[0].ring_end and plan.number > c.numbers[first & (len(c.ring) - 1)]:
        return EMPTY
    number = take_due(c.plans, c.order)
    return number >> 1 << KIND_BITS | CROSSED + (number & 1)


@where_used("plans", NEVER)
@kernel
def _next_planned(c: Clock) -> int:
    """When something in the heap is due."""
    return c.plans[c.order[1]].due if c.order[0] > 0 else NEVER


@kernel
def next_instant(c: Clock, until: int) -> bool:
    """Go to the next instant at which something happens, if it is not after ``until``; whether
    there is one."""
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
        _number(c, agenda.current)
        _put(c, what)
    return found


@kernel
def go_to_next(c: Clock) -> int:
    """Go to the next instant at which something happens: WENT_ON, or AT_END if nothing does."""
    return WENT_ON if next_instant(c, LONGEST) else AT_END


@kernel
def go_to(c: Clock, time: int) -> None:
    """Go on, but not beyond what is planned."""
    c.agenda.counts[0].now = time
    if time >= LONGEST:
        c.counts[0].overdue = 1


@inlined
def sum_of(one: int, other: int) -> int:
    """The sum of two times, LONGEST if it is longer."""
    return LONGEST if one > LONGEST - other else one + other
