"""Pools: the records of a table that nobody uses, each naming the next one in its field ``next``.

A pool is a record with the fields of POOL.  Where counters are an array, ``counts[first]`` is the
record that is taken next, and ``counts[left]`` how many are left.  Whoever takes one has made sure
that some are.
"""

from typing import Any

import numpy as np

from engine.compiler import inlined
from engine.lower.program import Longs, Table

POOL = np.dtype([("first", "i4"), ("left", "i4")])  # the record that is taken next; how many are


@inlined
def pop(pool: Any, table: Table) -> int:
    """Take a record out of the pool; its number."""
    number = pool.first + 0
    pool.first = table[number].next
    pool.left -= 1
    return number


@inlined
def push(pool: Any, table: Table, number: int) -> None:
    """Put a record into the pool again."""
    table[number].next = pool.first
    pool.first = number
    pool.left += 1


def with_more(pool: Table, table: Table) -> Table:
    """The table with twice as many records, and one at least; the new ones are in the pool, which
    is the row of POOL of one that has rows."""
    n = len(table)
    more = np.concatenate([table, np.zeros(max(n, 1), table.dtype)])
    more["next"][n:] = np.append(np.arange(n + 1, len(more)), pool["first"])
    pool["first"] = n
    pool["left"] += len(more) - n
    return more


@inlined
def take(table: Table, counts: Longs, first: int, left: int) -> int:
    """Take a record out of the pool; its number."""
    number = counts[first]
    counts[first] = table[number].next
    counts[left] -= 1
    return number


@inlined
def give_back(table: Table, counts: Longs, first: int, left: int, number: int) -> None:
    """Put a record into the pool again."""
    table[number].next = counts[first]
    counts[first] = number
    counts[left] += 1
