"""Worklists: what is put on one comes off it in that order, or sorted."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.compiler import compiled
from engine.kernels.core.by_reference import by_reference
from engine.kernels.core.worklist import Worklist, put, sort, take_all
from engine.lower.program import Longs
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
    work = Worklist(np.zeros(9, dtype=np.int64), np.zeros(1, dtype=np.int64))
    for numbers in rounds:
        n = _through(work, np.array(numbers, dtype=np.int64), in_order)
        assert work.numbers[:n].tolist() == (sorted(numbers) if in_order else numbers)
        assert work.filled[0] == 0
