"""What happens when: later events on the calendar, those of this instant in a ring.

The tie rule is SimPy's, and so the witness's: what happens at one instant happens in the order in
which it was planned.  Whatever was planned before this instant comes first; then what this instant
plans for itself; when nothing is left of it, operators and ports settle
(:mod:`engine.kernels.network.kernel`), which may plan more for it.

What becomes of a parcel that may be suspended may be planned anew, so it lies in a heap; its number
among all that is planned says when it comes in turn.
"""

from dimsweep.engine.compiler import inlined, kernel
from dimsweep.engine.kernels.core.heap import give_up, take_first
from dimsweep.engine.kernels.core.heap import plan as plan_in_heap
from dimsweep.engine.kernels.core.agenda import EMPTY, next_number, next_time, plan, take
from dimsweep.engine.kernels.core.by_type import where_used
from dimsweep.engine.kernels.core.none import LONGEST, NEVER, NONE
from dimsweep.engine.kernels.network.events import AT_END, CROSSED, KIND_BITS, WENT_ON
from dimsweep.engine.kernels.network.state import Clock
from dimsweep.engine.kernels.network.ties import begin_generation


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
        give_up(c.plans, c.order, number)
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
    number = take_first(c.plans, c.order)
    return number >> 1 << KIND_BITS | CROSSED + (number & 1)


@where_used("plans", NEVER)
@kernel
def _next_planned(c: Clock) -> int:
    """When something in the heap is due."""
    return c.plans[c.order[1]].due + 0 if c.order[0] > 0 else NEVER


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
