"""Event calendars: a heap, and a calendar queue (Brown, 1988) with an exact order.

Events are ordered by time and then by number, in the order of planning.  The calendar keeps near
events in a ring of buckets, each a sorted queue; a bitmap of two levels finds the next bucket that
holds an event.  Events beyond the ring are in the heap.

Where many events have equal times, queues are long, and new events are inserted one after another.
Therefore each queue remembers the event that was last inserted between others, and the next search
begins there.

The heap is binary and orders records of any table with the fields ``due``, ``number`` and ``at``
(the record's position in ``order``, or NONE), so a planned record can be replanned or cancelled.
``order[0]`` is the number of planned records, and ``order[1]`` is the record that is due next.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.compiler import inlined, kernel
from dimsweep.engine.kernels.core import queues
from dimsweep.engine.kernels.core.compiling import long, lowest_bit
from dimsweep.engine.kernels.core.queues import POOL, QUEUE, append, insert, take_first
from dimsweep.engine.kernels.core.tables import NEVER, NONE
from dimsweep.engine.lower.program import Ints, Table
from dimsweep.engine.records import record


@kernel
def plan_due(table: Table, order: Ints, record: int, due: int) -> None:
    """Plan a record for tick ``due``; replaces its earlier plan, if any."""
    table[record].due = due
    at = long(table[record].at)
    if at == NONE:
        at = order[0] = order[0] + 1
    _sink(table, order, _rise(table, order, at, record), record)


@kernel
def cancel_due(table: Table, order: Ints, record: int) -> None:
    """Cancel the plan of a record, if there is one."""
    at = long(table[record].at)
    if at == NONE:
        return
    table[record].at = NONE
    last = long(order[order[0]])
    order[0] -= 1
    if last != record:
        _sink(table, order, _rise(table, order, at, last), last)


@inlined
def take_due(table: Table, order: Ints) -> int:
    """Return the record that is due next, and remove it from the heap."""
    first = long(order[1])
    cancel_due(table, order, first)
    return first


@kernel
def _rise(table: Table, order: Ints, at: int, record: int) -> int:
    """Move records of the heap down from ``at`` until ``record`` fits; return its position."""
    while at > 1 and is_before(table, record, order[at >> 1]):
        _place(table, order, at, order[at >> 1])
        at >>= 1
    return at


@kernel
def _sink(table: Table, order: Ints, at: int, record: int) -> None:
    """Put a record into the heap at position ``at``, or below if records there are due earlier."""
    n = long(order[0])
    while 2 * at <= n:
        below = 2 * at
        if below < n and is_before(table, order[below + 1], order[below]):
            below += 1
        if not is_before(table, order[below], record):
            break
        _place(table, order, at, order[below])
        at = below
    _place(table, order, at, record)


@inlined
def _place(table: Table, order: Ints, at: int, record: int) -> None:
    order[at] = record
    table[record].at = at


@inlined
def is_before(table: Table, one: int, other: int) -> bool:
    """Return whether record ``one`` is due earlier than record ``other``."""
    if table[one].due != table[other].due:
        return table[one].due < table[other].due
    return table[one].number < table[other].number


BUCKETS = 1 << 16  # unless somebody wants fewer; a power of two, of 4096 at least

EVENT = record(
    due="i8",  # tick
    number="i8",  # among events of a tick the lower one is first
    code="i4",
    next="i4",  # of its bucket, or of the free ones
    at="i4",  # its place in the heap
)
# A queue, and what was last put between others; as long as it is, none lies in two cache lines.
BUCKET = record(queue=QUEUE, recent="i8")
CLOCK = record(
    now="i8",  # when the event is that was taken last, and
    current="i8",  # its number
    until="i8",  # the last tick of which events are taken
    numbers="i8",  # that were given to events
    timers="i8",  # planned events that can make nobody send by themselves
    free=POOL,  # events that are not planned
    shift="i1",  # a bucket is 2^shift ticks wide
)
EMPTY, LATER = -1, -2  # what ``take`` returns instead of an event


class Agenda(NamedTuple):
    """The planned events of a run: a ring of buckets for near events, and a heap for far ones."""

    events: Table  # (capacity,) of EVENT
    buckets: Table  # of BUCKET
    bits: NDArray[np.uint64]  # (buckets / 64,): which buckets hold one
    words: NDArray[np.uint64]  # (buckets / 4096,): which words of ``bits`` are not zero
    far: Ints  # (capacity + 1,): events beyond the ring (engine.kernels.core.agenda)
    counts: Table  # (1,) of CLOCK


def new_agenda(capacity: int, shift: int, buckets: int = BUCKETS) -> Agenda:
    """Return an empty agenda for ``capacity`` events; a bucket is 2^shift ticks wide."""
    events, ring, counts = np.zeros(capacity, EVENT), np.zeros(buckets, BUCKET), np.zeros(1, CLOCK)
    ring["queue"]["head"] = ring["recent"] = NONE
    counts["until"], counts["shift"] = NEVER, shift
    queues.add_free(counts["free"][0], events, 0)
    bits = np.zeros(buckets // 64, np.uint64)
    far = np.zeros(capacity + 1, np.int32)
    return Agenda(events, ring, bits, bits[: len(bits) // 64].copy(), far, counts)


def enlarge_agenda(a: Agenda) -> Agenda:
    """Return the agenda with twice the capacity."""
    events = queues.double_table(a.counts["free"][0], a.events)
    return a._replace(events=events, far=np.resize(a.far, len(events) + 1))


@inlined
def next_number(a: Agenda) -> int:
    """Return the next event number, reserved for an event that may be planned later or never."""
    number = a.counts[0].numbers
    a.counts[0].numbers = number + 1
    return number


@inlined
def plan(a: Agenda, time: int, code: int) -> int:
    """Plan an event for ``time``, after all events planned for that time; return its number."""
    number = next_number(a)
    plan_numbered(a, time, number, code)
    return number


@inlined
def plan_timer(a: Agenda, time: int, code: int) -> int:
    """Plan an event that changes a rate but triggers no transmission; return its number."""
    a.counts[0].timers += 1
    return plan(a, time, code)


@inlined
def has_passed(a: Agenda, time: int, number: int) -> bool:
    """Return whether the event of this time and number is over or being processed."""
    now = a.counts[0].now
    return time < now or (time == now and number <= a.counts[0].current)


@inlined
def plan_numbered(a: Agenda, time: int, number: int, code: int) -> None:
    """Plan an event with a number that :func:`next_number` reserved."""
    clock = a.counts[0]
    event = queues.take_free(clock.free, a.events)
    e = a.events[event]
    e.due = time
    e.number = number
    e.code = code
    if (time >> clock.shift) - (clock.now >> clock.shift) < len(a.buckets):
        _put(a, event)
    else:
        e.at = NONE
        plan_due(a.events, a.far, event, time)


@inlined
def _bucket(a: Agenda, time: int) -> int:
    return (time >> a.counts[0].shift) & (len(a.buckets) - 1)


@inlined
def _put(a: Agenda, event: int) -> None:
    """Insert an event into its bucket's queue, most often at the end."""
    bucket, events = _bucket(a, a.events[event].due), a.events
    recent, queue = a.buckets[bucket].recent, a.buckets[bucket].queue
    if queue.head == NONE:
        append(queue, events, event)
        word = bucket >> 6
        a.bits[word] |= np.uint64(1) << np.uint64(bucket & 63)
        a.words[word >> 6] |= np.uint64(1) << np.uint64(word & 63)
    elif is_before(events, queue.tail, event):
        append(queue, events, event)
    elif is_before(events, event, queue.head):
        insert(queue, events, NONE, event)
    else:
        is_behind = recent != NONE and is_before(events, recent, event)
        at: Any = recent if is_behind else long(queue.head)
        while is_before(events, events[at].next, event):
            at = long(events[at].next)
        insert(queue, events, at, event)
        a.buckets[bucket].recent = event


@inlined
def take(a: Agenda) -> int:
    """Advance to the next event and return its code.

    Return EMPTY if no event is left, and LATER if the next one is after ``until``; then nothing
    changes.
    """
    clock, bucket = a.counts[0], _next_bucket(a)
    is_far = _far_is_next(a, bucket)
    if bucket < 0 and not is_far:
        return EMPTY
    event: Any = long(a.far[1] if is_far else a.buckets[bucket].queue.head)
    e = a.events[event]
    if e.due > clock.until:
        return LATER
    if is_far:
        take_due(a.events, a.far)
    else:
        _leave_bucket(a, bucket)
    clock.now = e.due
    clock.current = e.number
    queues.put_free(clock.free, a.events, event)
    return e.code


@inlined
def next_time(a: Agenda) -> int:
    """Return the time of the next event, or NEVER."""
    bucket = _next_bucket(a)
    if _far_is_next(a, bucket):
        return a.events[a.far[1]].due
    return NEVER if bucket < 0 else a.events[a.buckets[bucket].queue.head].due


@inlined
def _far_is_next(a: Agenda, bucket: int) -> bool:
    """Return whether the first event of the heap is due before the events of ``bucket``."""
    if a.far[0] == 0:
        return False
    return bucket < 0 or is_before(a.events, a.far[1], a.buckets[bucket].queue.head)


@inlined
def _leave_bucket(a: Agenda, bucket: int) -> None:
    """Remove the first event of a bucket."""
    b = a.buckets[bucket]
    if take_first(b.queue, a.events) == b.recent:
        b.recent = NONE
    if b.queue.head == NONE:
        word = bucket >> 6
        a.bits[word] &= ~(np.uint64(1) << np.uint64(bucket & 63))
        if a.bits[word] == 0:
            a.words[word >> 6] &= ~(np.uint64(1) << np.uint64(word & 63))


@inlined
def peek_event(a: Agenda) -> int:
    """Return the code of the next event if it is in the present bucket, or NONE."""
    event = a.buckets[_bucket(a, a.counts[0].now)].queue.head
    return a.events[event].code if event >= 0 else NONE


@inlined
def _next_bucket(a: Agenda) -> int:
    """Return the first bucket with an event, from the present one around the ring; or NONE."""
    start = _bucket(a, a.counts[0].now)
    word = start >> 6
    found = a.bits[word] >> np.uint64(start & 63)
    if found:
        return start + lowest_bit(found)
    top, offset = word >> 6, (word & 63) + 1
    if offset < 64:
        found = a.words[top] >> np.uint64(offset)
        if found:
            word = (top << 6) + offset + lowest_bit(found)
            return (word << 6) + lowest_bit(a.bits[word])
    for i in range(1, len(a.words) + 1):
        other = (top + i) & (len(a.words) - 1)
        if a.words[other]:
            word = (other << 6) + lowest_bit(a.words[other])
            return (word << 6) + lowest_bit(a.bits[word])
    return NONE
