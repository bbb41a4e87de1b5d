"""Linked queues of a table's records, free lists, worklists and followers, for compiled code.

A *queue* is a record with the fields ``head`` (NONE: the queue is empty) and ``tail`` (undefined
while it is empty).  A *free list* (a record of POOL) holds the unused records of a table.  Both
link records by their field ``next``, which is NONE in the last one.  A *worklist* holds numbers to
process at the end of a round.  *Followers* are flows that wait for another flow.
"""

from typing import Any, NamedTuple

import numpy as np

from dimsweep.engine.compiler import inlined, kernel
from dimsweep.engine.kernels.core.compiling import long
from dimsweep.engine.kernels.core.tables import NONE
from dimsweep.engine.lower.program import Longs, Table
from dimsweep.engine.records import new_table, record

POOL = record(first="i4", left="i4")  # a free list: its first record, and its length


@inlined
def take_free(pool: Any, table: Table) -> int:
    """Take a record from the free list and return its number."""
    number = long(pool.first)
    pool.first = table[number].next
    pool.left -= 1
    return number


@inlined
def put_free(pool: Any, table: Table, number: int) -> None:
    """Put a record back on the free list."""
    table[number].next = pool.first
    pool.first = number
    pool.left += 1


def new_free_table(n: int, of: "np.dtype[np.void]") -> Table:
    """Return a table of ``n`` records, all free; its free list is (0, n)."""
    return new_table(n, of, next=np.append(np.arange(1, n), NONE)[:n])


def double_table(pool: Table, table: Table) -> Table:
    """Return the table with twice as many records (at least one); the new records are free."""
    more = np.concatenate([table, np.zeros(max(len(table), 1), table.dtype)])
    add_free(pool, more, len(table))
    return more


def add_free(pool: Table, table: Table, first: int) -> None:
    """Put all records from number ``first`` on at the head of the free list."""
    table["next"][first:] = np.append(np.arange(first + 1, len(table)), pool["first"])
    pool["first"] = first
    pool["left"] += len(table) - first


QUEUE = record(head="i4", tail="i4")  # of its own, within another record


@inlined
def append(queue: Any, table: Table, number: int) -> None:
    """Append a record to the queue."""
    table[number].next = NONE
    if queue.head == NONE:
        queue.head = number
    else:
        table[queue.tail].next = number
    queue.tail = number


@inlined
def insert(queue: Any, table: Table, behind: int, number: int) -> None:
    """Insert a record behind record ``behind`` of the queue; NONE inserts it at the head."""
    if behind == NONE:
        table[number].next = queue.head
        queue.head = number
    else:
        table[number].next = table[behind].next
        table[behind].next = number
    if table[number].next == NONE:
        queue.tail = number


@inlined
def insert_in_order(queue: Any, table: Table, keys: Any, number: int) -> None:
    """Insert a record behind all records of the queue with an equal or lower key.

    ``keys`` holds one key for each record of the table.
    """
    if queue.head == NONE or keys[queue.tail] <= keys[number]:
        append(queue, table, number)
        return
    behind, after = NONE, long(queue.head)
    while keys[after] <= keys[number]:
        behind, after = after, long(table[after].next)
    insert(queue, table, behind, number)


@inlined
def take_first(queue: Any, table: Table) -> int:
    """Remove the first record of a queue that is not empty; return its number."""
    number = long(queue.head)
    queue.head = table[number].next
    return number


@inlined
def take_after(queue: Any, table: Table, before: int, number: int) -> None:
    """Remove the record behind record ``before`` of the queue; NONE removes the head."""
    after = long(table[number].next)
    if before == NONE:
        queue.head = after
    else:
        table[before].next = after
    if after == NONE:
        queue.tail = before


class Worklist(NamedTuple):
    """A list of numbers with a fixed capacity; the first ``filled`` of ``numbers`` are valid."""

    numbers: Longs
    filled: Longs  # (1,)


def new_worklist(room: int) -> Worklist:
    """Return an empty worklist with capacity for ``room`` numbers."""
    return Worklist(np.zeros(room, dtype=np.int64), np.zeros(1, dtype=np.int64))


@inlined
def put(worklist: Worklist, number: int) -> None:
    """Append a number to the list."""
    worklist.numbers[worklist.filled[0]] = number
    worklist.filled[0] += 1


@inlined
def take_all(worklist: Worklist) -> int:
    """Empty the worklist and return its length; ``numbers`` stays valid until :func:`put`."""
    n = long(worklist.filled[0])
    worklist.filled[0] = 0
    return n


@inlined
def remove(worklist: Worklist, number: int) -> None:
    """Remove a number from the list; the others keep their order."""
    kept = 0
    for i in range(worklist.filled[0]):
        other = worklist.numbers[i]
        if other != number:
            worklist.numbers[kept] = other
            kept += 1
    worklist.filled[0] = kept


@inlined
def sort(worklist: Worklist) -> None:
    """Sort the numbers in ascending order; they are nearly always sorted already."""
    for i in range(1, worklist.filled[0]):
        number, j = worklist.numbers[i], i
        while j > 0 and worklist.numbers[j - 1] > number:
            worklist.numbers[j] = worklist.numbers[j - 1]
            j -= 1
        worklist.numbers[j] = number


@kernel
def sort_by(worklist: Worklist, keys: Any, scratch: Longs) -> None:
    """Sort the numbers of a worklist by ``keys[number]``; the sort is stable.

    It is a bottom-up merge sort, skipped if the numbers are in order, as they mostly are.
    ``scratch`` has the capacity of the list.
    """
    numbers, n, at = worklist.numbers, long(worklist.filled[0]), 1
    while at < n and keys[numbers[at - 1]] <= keys[numbers[at]]:
        at += 1
    width = 1 if at < n else n
    while width < n:
        for start in range(0, n, 2 * width):
            middle, end = min(start + width, n), min(start + 2 * width, n)
            for i in range(start, middle):
                scratch[i] = numbers[i]
            one, other = start, middle
            for at in range(start, end):
                if one == middle:
                    break
                if other < end and keys[numbers[other]] < keys[scratch[one]]:
                    numbers[at] = numbers[other]
                    other += 1
                else:
                    numbers[at] = scratch[one]
                    one += 1
        width *= 2


EDGE = record(follower="i4", next="i4")


@kernel
def link_followers(
    flows: Table, edges: Table, n: int, first: int, after: Longs, after_from: Longs
) -> int:
    """Append each flow from ``first`` on to the follower list of each unfinished flow it waits for.

    ``n`` is the number of entries of ``edges`` in use; the new number is returned.
    """
    for i in range(len(after_from) - 1):
        for k in range(after_from[i], after_from[i + 1]):
            before = flows[after[k]]
            if before.done:
                continue
            edges[n].follower = first + i
            edges[n].next = NONE
            if before.followers < 0:
                before.followers = n
            else:
                edges[before.last_follower].next = n
            before.last_follower = n
            flows[first + i].waits += 1
            n += 1
    return n
