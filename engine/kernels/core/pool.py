"""Pools: the records of a table that nobody uses, each naming the next one in its field ``next``.

A pool is a record with the fields of POOL.  Whoever takes a record has made sure that some are
left.
"""

from typing import Any

import numpy as np

from dimsweep.engine.compiler import inlined
from dimsweep.engine.kernels.core.none import NONE
from dimsweep.engine.lower.program import Table
from dimsweep.engine.records import new_table, record

POOL = record(first="i4", left="i4")  # the record that is taken next; how many are


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


def pooled(n: int, of: "np.dtype[np.void]") -> Table:
    """A table of ``n`` records, all of them in its pool, (0, n)."""
    return new_table(n, of, next=np.append(np.arange(1, n), NONE)[:n])


def with_more(pool: Table, table: Table) -> Table:
    """The table with twice as many records, and one at least; the new ones are in the pool, which
    is the row of POOL of one that has rows."""
    more = np.concatenate([table, np.zeros(max(len(table), 1), table.dtype)])
    give(pool, more, len(table))
    return more


def give(pool: Table, table: Table, first: int) -> None:
    """Put the records from ``first`` on into the pool, of which they are the next to be taken."""
    table["next"][first:] = np.append(np.arange(first + 1, len(table)), pool["first"])
    pool["first"] = first
    pool["left"] += len(table) - first
