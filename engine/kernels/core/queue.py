"""Queues of records of a table: what heads a queue names the record behind it, and so on.

A queue is a record with the fields ``head``, which is NONE where the queue is empty, and ``tail``,
which means nothing then; a table's records have a field ``next``, NONE for the last one.
"""

from typing import Any

from dimsweep.engine.compiler import inlined
from dimsweep.engine.kernels.core.none import NONE
from dimsweep.engine.lower.program import Table
from dimsweep.engine.records import record

QUEUE = record(head="i4", tail="i4")  # of its own, within another record


@inlined
def append(queue: Any, table: Table, number: int) -> None:
    """Put a record behind all others."""
    table[number].next = NONE
    if queue.head == NONE:
        queue.head = number
    else:
        table[queue.tail].next = number
    queue.tail = number


@inlined
def insert(queue: Any, table: Table, behind: int, number: int) -> None:
    """Put a record behind another one of the queue, or, behind NONE, before all."""
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
    """Put a record behind all whose key is not higher; ``keys`` has one for each of the table."""
    if queue.head == NONE or keys[queue.tail] <= keys[number]:
        append(queue, table, number)
        return
    behind, after = NONE, queue.head + 0
    while keys[after] <= keys[number]:
        behind, after = after, table[after].next + 0
    insert(queue, table, behind, number)


@inlined
def take_first(queue: Any, table: Table) -> int:
    """Take the first record of a queue that is not empty; its number."""
    number = queue.head + 0
    queue.head = table[number].next
    return number


@inlined
def take_behind(queue: Any, table: Table, before: int, number: int) -> None:
    """Take a record that stands behind the one ``before``, or, behind NONE, first."""
    after = table[number].next + 0
    if before == NONE:
        queue.head = after
    else:
        table[before].next = after
    if after == NONE:
        queue.tail = before
