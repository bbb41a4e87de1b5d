"""Queues and pools against lists, as plain Python: kernels compile the same functions."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine.compiler import compiled
from dimsweep.engine.kernels.core import queues
from dimsweep.engine.kernels.core.tables import NONE
from dimsweep.engine.lower.program import Table
from dimsweep.engine.records import new_table, record
from tests.support.examples import examples

_N = 8


def plain(function: Any) -> Any:
    """Return a kernel's Python function, which calls Python's own int for ``long``."""

    def run(*arguments: Any) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(queues, "long", int)
            return function.py_func(*arguments)

    return run


def records(n: int, *names: str) -> Any:
    return np.zeros(n, [(name, "i4") for name in names]).view(np.recarray)


def queued(line: Any, table: Any) -> list[int]:
    found, at = [], int(line.head)
    while at != NONE:
        found.append(at)
        at = int(table[at].next)
    return found


@given(
    st.lists(st.tuples(st.sampled_from(["append", "insert", "first", "any"]), st.integers(0, 9)))
)
def test_a_queue_is_a_list(steps: list[tuple[str, int]]) -> None:
    line, table = records(1, "head", "tail")[0], records(_N, "next")
    free = np.zeros(1, queues.POOL).view(np.recarray)[0]
    line.head = free.first = NONE
    queues.add_free(free, table, 0)
    known: list[int] = []
    for what, place in steps:
        place = min(place, len(known))
        if what in ("append", "insert") and free.left:
            number = int(plain(queues.take_free)(free, table))
            assert number not in known
            if what == "append":
                plain(queues.append)(line, table, number)
                known.append(number)
            else:
                behind = known[place - 1] if place else NONE
                plain(queues.insert)(line, table, behind, number)
                known.insert(place, number)
        elif what in ("first", "any") and known:
            place = 0 if what == "first" else min(place, len(known) - 1)
            number = known.pop(place)
            if what == "first":
                assert plain(queues.take_first)(line, table) == number
            else:
                before = known[place - 1] if place else NONE
                plain(queues.take_after)(line, table, before, number)
            plain(queues.put_free)(free, table, number)
        assert queued(line, table) == known
        assert free.left == _N - len(known)
        assert not known or line.tail == known[-1]


_WAITS = record(next="i4", key="i8")


@compiled
def _queue_all(of: Table, table: Table) -> None:
    for number in range(len(table)):
        queues.insert_in_order(of[0], table, table["key"], number)


@examples(40)
@given(st.lists(st.integers(0, 5), max_size=12))
def test_in_order_of_keys_equals_as_they_came(keys: list[int]) -> None:
    of, table = new_table(1, queues.QUEUE, head=NONE), new_table(len(keys), _WAITS, key=keys)
    _queue_all(of, table)
    known = sorted(range(len(keys)), key=lambda number: keys[number])
    assert queued(of.view(np.recarray)[0], table.view(np.recarray)) == known
    assert not known or of["tail"][0] == known[-1]
