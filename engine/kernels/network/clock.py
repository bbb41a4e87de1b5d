"""What happens when: later events on the calendar, those of this instant in a ring.

The tie rule is SimPy's, and so the witness's: what happens at one instant happens in the order in
which it was planned.  Whatever was planned before this instant comes first; then what this instant
plans for itself; when nothing is left of it, operators and ports settle
(:mod:`engine.kernels.network.kernel`), which may plan more for it.
"""

from engine.compiler import inlined, kernel
from engine.kernels.core.none import LONGEST
from engine.kernels.network.state import (
    GENERATION_END,
    KIND_BITS,
    OVERDUE,
    RING,
    RING_END,
    SETTLING,
    Clock,
)
from engine.kernels.network.ties import begin_generation
from engine.kernels.packet.agenda import EMPTY, NOW, UNTIL, plan, take


@inlined
def now_of(c: Clock) -> int:
    return c.agenda.counts[NOW]


@inlined
def at_once(c: Clock, kind: int, which: int) -> None:
    """Plan an event for this instant."""
    end = c.counts[RING_END]
    c.ring[end & (len(c.ring) - 1)] = which << KIND_BITS | kind
    c.counts[RING_END] = end + 1


@kernel
def later(c: Clock, delay: int, kind: int, which: int) -> None:
    """Plan an event in ``delay`` ps."""
    now = c.agenda.counts[NOW]
    if delay == 0:
        at_once(c, kind, which)
    elif delay >= LONGEST - now:
        c.counts[OVERDUE] = 1
    else:
        plan(c.agenda, now + delay, which << KIND_BITS | kind)


@inlined
def touch(c: Clock) -> None:
    """Settle at the end of this instant."""
    c.counts[SETTLING] = 1


@inlined
def next_now(c: Clock) -> int:
    """The next event of this instant, or a negative number."""
    first = c.counts[RING]
    if first == c.counts[RING_END]:
        return EMPTY
    if first == c.counts[GENERATION_END]:
        c.counts[GENERATION_END] = c.counts[RING_END]
        begin_generation(c)
    c.counts[RING] = first + 1
    return c.ring[first & (len(c.ring) - 1)]


@kernel
def next_instant(c: Clock, until: int) -> bool:
    """Go to the next instant at which something happens, if it is not after ``until``; whether
    there is one."""
    counts, found = c.agenda.counts, False
    counts[UNTIL] = until
    while True:
        what = take(c.agenda)
        if what < 0:
            break
        found = True
        counts[UNTIL] = counts[NOW]
        end = c.counts[RING_END]
        c.ring[end & (len(c.ring) - 1)] = what
        c.counts[RING_END] = end + 1
    return found


@inlined
def sum_of(one: int, other: int) -> int:
    """The sum of two times, LONGEST if it is longer."""
    return LONGEST if one > LONGEST - other else one + other
