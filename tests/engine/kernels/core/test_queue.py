"""Queues and pools against lists, as plain Python: kernels compile the same functions."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.kernels.core import pool, queue
from engine.kernels.core.none import NONE

_FREE, _LEFT = 0, 1
_N = 8


def plain(function: Any) -> Any:
    """What is compiled."""
    return function.py_func


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
    line.head, counts = NONE, np.array([0, _N])
    table.next[:] = np.append(np.arange(1, _N), NONE)
    known: list[int] = []
    for what, place in steps:
        place = min(place, len(known))
        if what in ("append", "insert") and counts[_LEFT]:
            number = int(plain(pool.take)(table, counts, _FREE, _LEFT))
            assert number not in known
            if what == "append":
                plain(queue.append)(line, table, number)
                known.append(number)
            else:
                behind = known[place - 1] if place else NONE
                plain(queue.insert)(line, table, behind, number)
                known.insert(place, number)
        elif what in ("first", "any") and known:
            place = 0 if what == "first" else min(place, len(known) - 1)
            number = known.pop(place)
            if what == "first":
                assert plain(queue.take_first)(line, table) == number
            else:
                before = known[place - 1] if place else NONE
                plain(queue.take_behind)(line, table, before, number)
            plain(pool.give_back)(table, counts, _FREE, _LEFT, number)
        assert queued(line, table) == known
        assert counts[_LEFT] == _N - len(known)
        assert not known or line.tail == known[-1]
