"""Pools: the records of a table that nobody uses, each naming the next one in its field ``next``.

Of a pool, ``counts[first]`` is the record that is taken next, and ``counts[left]`` how many are
left.  Whoever takes one has made sure that some are.
"""

from engine.compiler import inlined
from engine.lower.program import Longs, Table


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
