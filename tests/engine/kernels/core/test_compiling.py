"""A compiled function reads and writes a state by reference as it would the state itself."""

import sys
from typing import Any, NamedTuple

import numpy as np

from dimsweep.engine.compiler import compiled, inlined, is_cached, kernel
from dimsweep.engine.kernels.core.compiling import by_reference


class Inner(NamedTuple):
    table: np.ndarray[tuple[int, int], np.dtype[np.int64]]
    flag: bool


class Alike(NamedTuple):  # Numba keeps fields of one type in an array
    one: np.ndarray[tuple[int], np.dtype[np.int64]]
    other: np.ndarray[tuple[int], np.dtype[np.int64]]


class State(NamedTuple):
    scale: float
    inner: Inner
    alike: Alike


@kernel
def _double(inner: Inner) -> None:
    inner.table[1, 0] *= 2 if inner.flag else 3
    row = inner.table[0]
    row[-1] += inner.table[:, np.int32(1)].sum()


@kernel
def _step(state: State) -> None:
    _double(state.inner)
    state.alike.other[0] += int(state.scale * state.inner.table[1, 0]) + len(state.alike.one)


@compiled
def _steps(state: State, n: int) -> int:
    s = by_reference(state)
    for _ in range(n):
        _step(s)
    return int(s.alike.other[0])


def _state(flag: bool) -> State:
    table = np.arange(6).reshape(2, 3)
    return State(0.5, Inner(table, flag), Alike(np.zeros(4, np.int64), np.ones(2, np.int64)))


def test_the_same_as_uncompiled() -> None:
    for flag in (True, False):
        compiled, plain = _state(flag), _state(flag)
        expected = 1
        for _ in range(5):
            plain.inner.table[1, 0] *= 2 if flag else 3
            plain.inner.table[0, -1] += plain.inner.table[:, 1].sum()
            expected += int(0.5 * plain.inner.table[1, 0]) + 4
        assert _steps(compiled, 5) == expected
        assert np.array_equal(compiled.inner.table, plain.inner.table)


def test_arrays_belong_to_who_made_them() -> None:
    state = _state(True)
    before = sys.getrefcount(state.alike.other), sys.getrefcount(state.inner.table)
    for _ in range(50):
        _steps(state, 3)
    assert (sys.getrefcount(state.alike.other), sys.getrefcount(state.inner.table)) == before


def test_uncompiled_it_is_the_state() -> None:
    state = _state(True)
    assert by_reference(state) is state


class Hooks(NamedTuple):
    """Functions that a state holds, nested as a kernel's rules are."""

    step: Any
    table: np.ndarray[tuple[int], np.dtype[np.int64]]


class Outer(NamedTuple):
    hooks: Hooks
    scale: int


@inlined
def _add(outer: Outer, n: int) -> int:
    return int(outer.hooks.table[0]) + n * outer.scale


@inlined
def _take(outer: Outer, n: int) -> int:
    return int(outer.hooks.table[0]) - n * outer.scale


@compiled
def _stepped(table: np.ndarray[tuple[int], np.dtype[np.int64]], n: int) -> tuple[int, int]:
    one = by_reference(Outer(Hooks(_add, table), 3))
    other = by_reference(Outer(Hooks(_take, table), 3))
    return one.hooks.step(one, n), other.hooks.step(other, n)


def test_functions_that_a_state_holds_are_part_of_its_type() -> None:
    """Which one is called is known when the caller is compiled, and code with both is kept."""
    assert _stepped(np.array([100]), 5) == (115, 85)
    assert is_cached(_stepped)
