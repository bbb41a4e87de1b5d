"""Functions that are compiled only for states that have what they work on."""

from typing import NamedTuple

import numpy as np

from dimsweep.engine.compiler import compiled, kernel
from dimsweep.engine.fingerprint import fingerprint
from dimsweep.engine.kernels.core.compiling import UNUSED, by_reference, where_used
from dimsweep.engine.lower.program import Table

ROW = np.dtype([("a", "i8")])


class _State(NamedTuple):
    rows: Table


@where_used("rows", -1)
@kernel
def _first(state: _State, more: int) -> int:
    return state.rows[0].a + more


@where_used("rows")
@kernel
def _add(state: _State, more: int) -> None:
    state.rows[0].a += more


@compiled
def _run(state: _State) -> int:
    st = by_reference(state)
    _add(st, 2)
    return _first(st, 10)


def test_what_a_state_does_not_use_is_a_constant() -> None:
    """A field that there is not would not compile."""
    assert _run(_State(np.zeros(1, ROW))) == 12
    assert _run(_State(np.zeros(0, UNUSED))) == -1


def test_uncompiled_it_is_the_same() -> None:
    assert _first(_State(np.zeros(0, UNUSED)), 3) == -1


def test_what_is_done_where_it_is_used_is_part_of_the_fingerprint() -> None:
    def two(otherwise: int, more: int) -> str:
        @where_used("rows", otherwise)
        @kernel
        def one(state: _State) -> int:
            return state.rows[0].a + more

        return fingerprint(one)

    assert len({two(0, 1), two(0, 2), two(1, 1)}) == 3
