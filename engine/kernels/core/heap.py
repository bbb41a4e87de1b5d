"""What is due next: a binary heap of the records of a table, each of which knows its place in it.

``order[0]`` says how many are planned, and ``order[1]`` is the record that is due next.  Records
have the fields ``due``, ``number``, by which two go on that are due at once, and ``at``, their
place in ``order``, or NONE.  So what is planned may be planned anew, or be given up.
"""

from dimsweep.engine.compiler import inlined, kernel
from dimsweep.engine.kernels.core.none import NONE
from dimsweep.engine.lower.program import Ints, Table


@kernel
def plan(table: Table, order: Ints, record: int, due: int) -> None:
    """Something is due for a record at a tick, instead of what was, if anything was."""
    table[record].due = due
    at = table[record].at + 0
    if at == NONE:
        at = order[0] = order[0] + 1
    _sink(table, order, _rise(table, order, at, record), record)


@kernel
def give_up(table: Table, order: Ints, record: int) -> None:
    """Nothing is due any more for a record, if anything was."""
    at = table[record].at + 0
    if at == NONE:
        return
    table[record].at = NONE
    last = order[order[0]] + 0
    order[0] -= 1
    if last != record:
        _sink(table, order, _rise(table, order, at, last), last)


@inlined
def take_first(table: Table, order: Ints) -> int:
    """The record for which something is due next; nothing is any more."""
    first = order[1] + 0
    give_up(table, order, first)
    return first


@kernel
def _rise(table: Table, order: Ints, at: int, record: int) -> int:
    """The place that a record finds above ``at``."""
    while at > 1 and before(table, record, order[at >> 1]):
        _put(table, order, at, order[at >> 1])
        at >>= 1
    return at


@kernel
def _sink(table: Table, order: Ints, at: int, record: int) -> None:
    """Put a record at ``at``, or below."""
    n = order[0] + 0
    while 2 * at <= n:
        below = 2 * at
        if below < n and before(table, order[below + 1], order[below]):
            below += 1
        if not before(table, order[below], record):
            break
        _put(table, order, at, order[below])
        at = below
    _put(table, order, at, record)


@inlined
def _put(table: Table, order: Ints, at: int, record: int) -> None:
    order[at] = record
    table[record].at = at


@inlined
def before(table: Table, one: int, other: int) -> bool:
    """Whether one record is due earlier than another one."""
    if table[one].due != table[other].due:
        return table[one].due < table[other].due
    return table[one].number < table[other].number
