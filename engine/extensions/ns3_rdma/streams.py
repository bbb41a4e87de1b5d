"""The random numbers by which its switches mark: MRG32k3a (L'Ecuyer et al., 2002).

Every draw makes a new generator and takes its first number; a pause frame makes one and takes none.
Generators are numbered as they are made, and setting up a node makes nine.  A generator's stream is
its number, and its substream the number of the run.
"""

from functools import cache

import numpy as np

from dimsweep.engine.kernels.packet.state import compiled, kernel
from dimsweep.engine.lower.program import Floats, Longs

_Matrix = tuple[tuple[int, ...], ...]

_M1, _M2 = 4294967087, 4294944443
_A1: _Matrix = ((0, 1, 0), (0, 0, 1), (_M1 - 810728, 1403580, 0))
_A2: _Matrix = ((0, 1, 0), (0, 0, 1), (_M2 - 1370589, 0, 527612))
_SEED: _Matrix = ((1,), (1,), (1,))
_STREAM, _SUBSTREAM = 127, 76  # how many draws lie between two of them, as powers of two
_MADE_BEFORE = 2
_MADE_PER_NODE = 9


class MarkingDraws:
    """The numbers in [0, 1) by which the switches of a run decide; a call gives the next ``n``."""

    def __init__(self, n_nodes: int, run: int) -> None:
        made = _MADE_BEFORE + _MADE_PER_NODE * n_nodes
        self._states = *_start(_A1, made, run, _M1), *_start(_A2, made, run, _M2)

    def __call__(self, n: int) -> Floats:
        draws = np.empty(n)
        _draw(*self._states, draws)
        return draws


def _start(a: _Matrix, made: int, run: int, m: int) -> tuple[Longs, Longs]:
    """The state of the next stream, and the matrix that leads to the one after it."""
    stream = _power(a, 1 << _STREAM, m)
    state = _product(_power(a, run << _SUBSTREAM, m), _SEED, m)
    state = _product(_power(stream, made, m), state, m)
    return np.array(state, np.int64).ravel(), np.array(stream, np.int64)


@cache
def _power(a: _Matrix, exponent: int, m: int) -> _Matrix:
    if exponent == 0:
        return ((1, 0, 0), (0, 1, 0), (0, 0, 1))
    half = _power(a, exponent // 2, m)
    square = _product(half, half, m)
    return _product(square, a, m) if exponent % 2 else square


def _product(a: _Matrix, b: _Matrix, m: int) -> _Matrix:
    columns = list(zip(*b, strict=True))
    return tuple(
        tuple(sum(x * y for x, y in zip(row, column, strict=True)) % m for column in columns)
        for row in a
    )


@kernel
def _advance(state: Longs, by: Longs, m: int) -> None:
    """Multiply a vector by a matrix, modulo m < 2^32."""
    modulus = np.uint64(m)
    x, y, z = np.uint64(state[0]), np.uint64(state[1]), np.uint64(state[2])
    for i in range(3):
        # Each product is below 2^64, and so is the sum of three remainders.
        one = np.uint64(by[i, 0]) * x % modulus
        two = np.uint64(by[i, 1]) * y % modulus
        three = np.uint64(by[i, 2]) * z % modulus
        state[i] = (one + two + three) % modulus


@compiled
def _draw(s: Longs, next_s: Longs, t: Longs, next_t: Longs, draws: Floats) -> None:
    """The first number of each of the next streams."""
    for i in range(len(draws)):
        p1 = (1403580 * s[1] - 810728 * s[0]) % _M1
        p2 = (527612 * t[2] - 1370589 * t[0]) % _M2
        draws[i] = (p1 - p2 if p1 > p2 else p1 - p2 + _M1) * 2.328306549295727688e-10
        _advance(s, next_s, _M1)
        _advance(t, next_t, _M2)
