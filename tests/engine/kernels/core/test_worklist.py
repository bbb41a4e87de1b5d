"""Worklists: what is put on one comes off it in that order, or sorted."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine.compiler import compiled
from dimsweep.engine.kernels.core.compiling import by_reference
from dimsweep.engine.kernels.core.queues import (
    Worklist,
    new_worklist,
    put,
    remove,
    sort,
    sort_by,
    take_all,
)
from dimsweep.engine.lower.program import Longs
from tests.support.examples import examples


@compiled
def _through(new: Worklist, numbers: Longs, in_order: bool) -> int:
    """Put the numbers on the list, sort it if so said, and empty it; how many there were."""
    work = by_reference(new)
    for number in numbers:
        put(work, number)
    if in_order:
        sort(work)
    return take_all(work)


@examples(30)
@given(st.lists(st.lists(st.integers(-(2**62), 2**62), max_size=9), max_size=4), st.booleans())
def test_as_a_list_does(rounds: list[list[int]], in_order: bool) -> None:
    work = new_worklist(9)
    for numbers in rounds:
        n = _through(work, np.array(numbers, dtype=np.int64), in_order)
        assert work.numbers[:n].tolist() == (sorted(numbers) if in_order else numbers)
        assert work.filled[0] == 0


@compiled
def _by_key(new: Worklist, keys: Longs, without: int) -> int:
    """Sort all numbers there are keys of, the last first, by them, and take one out."""
    work = by_reference(new)
    for number in range(len(keys)):
        put(work, len(keys) - 1 - number)
    sort_by(work, keys, np.zeros(len(keys), dtype=np.int64))
    remove(work, without)
    return work.filled[0]


@examples(60)
@given(st.lists(st.integers(0, 6), max_size=30), st.integers(0, 30))
def test_by_keys_those_with_the_same_one_as_they_came(keys: list[int], without: int) -> None:
    work = new_worklist(30)
    n = _by_key(work, np.array(keys, dtype=np.int64), without)
    known = sorted(range(len(keys)), key=lambda number: (keys[number], -number))
    assert work.numbers[:n].tolist() == [number for number in known if number != without]
