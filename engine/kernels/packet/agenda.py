"""What happens when: a calendar queue (Brown, 1988) whose order is exact.

Events are ordered by time and then by number, as they were planned.  Near events lie in a ring of
buckets, each a sorted list; a bitmap of two levels finds the next bucket that holds one.  Events
beyond the ring lie in a binary heap.

Where much happens at the same time lists are long, and what is planned goes into them one behind
the other: so each list knows what was last put between others, and the next search begins there.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.kernels.core import pool
from engine.kernels.core.none import NEVER, NONE
from engine.kernels.packet.compile import inlined, kernel
from engine.kernels.packet.machine import lowest
from engine.lower.program import Ints, Longs, Table

BUCKETS = 1 << 16  # unless somebody wants fewer; a power of two, of 4096 at least

EVENT = np.dtype(
    [
        ("time", "i8"),
        ("number", "i8"),
        ("what", "i4"),
        ("next", "i4"),  # of its bucket, or of the free ones
    ]
)
# Entries of ``counts``.
# TIMERS: how many of the planned events can make nobody send by themselves.
# UNTIL: the last tick of which events are taken.
NOW, CURRENT, NUMBERS, FREE, FAR, SHIFT, LEFT, TIMERS, UNTIL = range(9)
EMPTY, LATER = -1, -2  # what ``take`` returns instead of an event


class Agenda(NamedTuple):
    """The events that are planned."""

    events: Table  # (capacity,) of EVENT
    ends: Ints  # (buckets, 3): a bucket's first event, its last, the last put between; or -1
    bits: NDArray[np.uint64]  # (buckets / 64,): which buckets hold one
    words: NDArray[np.uint64]  # (buckets / 4096,): which words of ``bits`` are not zero
    far: Ints  # (capacity,): a heap of events beyond the ring
    counts: Longs


def new_agenda(capacity: int, shift: int, buckets: int = BUCKETS) -> Agenda:
    """An empty agenda for ``capacity`` events; a bucket is 2^shift ticks wide."""
    events = np.zeros(capacity, EVENT)
    events["next"] = np.arange(1, capacity + 1)
    events["next"][-1] = NONE
    counts = np.zeros(9, np.int64)
    counts[LEFT] = capacity
    counts[UNTIL] = np.iinfo(np.int64).max
    counts[SHIFT] = shift
    return Agenda(
        events,
        np.full((buckets, 3), NONE, np.int32),
        np.zeros(buckets // 64, np.uint64),
        np.zeros(buckets // 4096, np.uint64),
        np.zeros(capacity, np.int32),
        counts,
    )


def enlarged_agenda(a: Agenda, capacity: int) -> Agenda:
    """The same events with room for ``capacity``."""
    old = len(a.events)
    more = np.zeros(capacity - old, EVENT)
    more["next"] = np.arange(old + 1, capacity + 1)
    more["next"][-1] = a.counts[FREE]
    a.counts[FREE] = old
    a.counts[LEFT] += capacity - old
    far = np.concatenate([a.far, np.zeros(capacity - old, np.int32)])
    return a._replace(events=np.concatenate([a.events, more]), far=far)


@inlined
def next_number(a: Agenda) -> int:
    number = a.counts[NUMBERS]
    a.counts[NUMBERS] = number + 1
    return number


@inlined
def plan(a: Agenda, time: int, what: int) -> int:
    """Plan an event behind all that are planned for this time; returns its number."""
    number = next_number(a)
    plan_as(a, time, number, what)
    return number


@inlined
def plan_timer(a: Agenda, time: int, what: int) -> int:
    """Plan an event that changes a rate, but makes nobody send; returns its number."""
    a.counts[TIMERS] += 1
    return plan(a, time, what)


@inlined
def passed(a: Agenda, time: int, number: int) -> bool:
    """Whether the event of this time and number is over or under way."""
    now = a.counts[NOW]
    return time < now or (time == now and number <= a.counts[CURRENT])


@inlined
def plan_as(a: Agenda, time: int, number: int, what: int) -> None:
    """Plan an event with a number that was taken before."""
    event = pool.take(a.events, a.counts, FREE, LEFT)
    record = a.events[event]
    record.time = time
    record.number = number
    record.what = what
    shift = a.counts[SHIFT]
    if (time >> shift) - (a.counts[NOW] >> shift) >= len(a.ends):
        _push_far(a, event)
    else:
        _put(a, event)


@inlined
def _bucket(a: Agenda, time: int) -> int:
    return (time >> a.counts[SHIFT]) & (len(a.ends) - 1)


@inlined
def _put(a: Agenda, event: int) -> None:
    events = a.events
    bucket = _bucket(a, events[event].time)
    last = a.ends[bucket, 1]
    if last < 0:
        events[event].next = NONE
        a.ends[bucket, 0] = event
        a.ends[bucket, 1] = event
        word = bucket >> 6
        a.bits[word] |= np.uint64(1) << np.uint64(bucket & 63)
        a.words[word >> 6] |= np.uint64(1) << np.uint64(word & 63)
    elif _before(events, last, event):
        events[event].next = NONE
        events[last].next = event
        a.ends[bucket, 1] = event
    elif _before(events, event, a.ends[bucket, 0]):
        events[event].next = a.ends[bucket, 0]
        a.ends[bucket, 0] = event
    else:
        first, recent = a.ends[bucket, 0], a.ends[bucket, 2]
        at = np.int64(first if recent < 0 or _before(events, event, recent) else recent)
        while _before(events, events[at].next, event):
            at = events[at].next
        events[event].next = events[at].next
        events[at].next = event
        a.ends[bucket, 2] = event


@inlined
def _before(events: Table, one: int, other: int) -> bool:
    if events[one].time != events[other].time:
        return events[one].time < events[other].time
    return events[one].number < events[other].number


@inlined
def take(a: Agenda) -> int:
    """Go to the next event; returns WHAT it is.

    EMPTY if there is none, LATER if it is after UNTIL; then nothing changes.
    """
    bucket = _next_bucket(a)
    if a.counts[FAR] > 0 and (bucket < 0 or _before(a.events, a.far[0], a.ends[bucket, 0])):
        event = a.far[0] + 0
        if a.events[event].time > a.counts[UNTIL]:
            return LATER
        _pop_far(a)
    elif bucket < 0:
        return EMPTY
    else:
        event = a.ends[bucket, 0] + 0
        if a.events[event].time > a.counts[UNTIL]:
            return LATER
        _leave_bucket(a, bucket)
    record = a.events[event]
    a.counts[NOW] = record.time
    a.counts[CURRENT] = record.number
    pool.give_back(a.events, a.counts, FREE, LEFT, event)
    return record.what


@inlined
def next_time(a: Agenda) -> int:
    """When the next event is, or the end of time."""
    bucket = _next_bucket(a)
    if a.counts[FAR] > 0 and (bucket < 0 or _before(a.events, a.far[0], a.ends[bucket, 0])):
        return a.events[a.far[0]].time + 0
    return NEVER if bucket < 0 else a.events[a.ends[bucket, 0]].time + 0


@inlined
def _leave_bucket(a: Agenda, bucket: int) -> None:
    """The first event of a bucket is no longer in it."""
    event = a.ends[bucket, 0]
    after = a.events[event].next
    if a.ends[bucket, 2] == event:
        a.ends[bucket, 2] = NONE
    a.ends[bucket, 0] = after
    if after < 0:
        a.ends[bucket, 1] = NONE
        word = bucket >> 6
        a.bits[word] &= ~(np.uint64(1) << np.uint64(bucket & 63))
        if a.bits[word] == 0:
            a.words[word >> 6] &= ~(np.uint64(1) << np.uint64(word & 63))


@inlined
def upcoming(a: Agenda) -> int:
    """WHAT happens next, if it does so within the present bucket's time; or -1."""
    event = a.ends[_bucket(a, a.counts[NOW]), 0]
    return a.events[event].what if event >= 0 else NONE


@inlined
def _next_bucket(a: Agenda) -> int:
    """The first bucket that holds an event, from the present one on and around the ring."""
    start = _bucket(a, a.counts[NOW])
    word = start >> 6
    found = a.bits[word] >> np.uint64(start & 63)
    if found:
        return start + lowest(found)
    n_words, n_tops = len(a.bits), len(a.words)
    top, offset = word >> 6, (word & 63) + 1
    if offset < 64:
        found = a.words[top] >> np.uint64(offset)
        if found:
            word = (top << 6) + offset + lowest(found)
            return (word << 6) + lowest(a.bits[word])
    for i in range(1, n_tops + 1):
        other = (top + i) % n_tops
        if a.words[other]:
            word = (other << 6) + lowest(a.words[other])
            return (word << 6) + lowest(a.bits[word % n_words])
    return NONE


@kernel
def _push_far(a: Agenda, event: int) -> None:
    at = a.counts[FAR]
    a.counts[FAR] = at + 1
    while at > 0:
        above = (at - 1) >> 1
        if _before(a.events, a.far[above], event):
            break
        a.far[at] = a.far[above]
        at = above
    a.far[at] = event


@kernel
def _pop_far(a: Agenda) -> None:
    n = a.counts[FAR] - 1
    a.counts[FAR] = n
    moved, at = a.far[n], 0
    while 2 * at + 1 < n:
        below = 2 * at + 1
        if below + 1 < n and _before(a.events, a.far[below + 1], a.far[below]):
            below += 1
        if _before(a.events, moved, a.far[below]):
            break
        a.far[at] = a.far[below]
        at = below
    a.far[at] = moved
