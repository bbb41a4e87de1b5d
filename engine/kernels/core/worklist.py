"""Worklists: numbers of what is to be done at the end of a round, in the order of arrival."""

from typing import Any, NamedTuple

import numpy as np

from dimsweep.engine.compiler import inlined, kernel
from dimsweep.engine.lower.program import Longs


class Worklist(NamedTuple):
    """As many numbers as ``filled`` says."""

    numbers: Longs
    filled: Longs  # (1,)


def new_worklist(room: int) -> Worklist:
    """An empty one for as many numbers at once."""
    return Worklist(np.zeros(room, dtype=np.int64), np.zeros(1, dtype=np.int64))


@inlined
def put(on: Worklist, number: int) -> None:
    """Put a number on the list, behind all others."""
    on.numbers[on.filled[0]] = number
    on.filled[0] += 1


@inlined
def take_all(of: Worklist) -> int:
    """Empty the list; how many there were, which ``numbers`` tells until something is put on it."""
    n = of.filled[0] + 0
    of.filled[0] = 0
    return n


@inlined
def take_out(of: Worklist, number: int) -> None:
    """Take a number off the list, wherever it stands; the others keep their order."""
    kept = 0
    for i in range(of.filled[0]):
        other = of.numbers[i]
        if other != number:
            of.numbers[kept] = other
            kept += 1
    of.filled[0] = kept


@inlined
def sort(some: Worklist) -> None:
    """Put the numbers in ascending order, in which they nearly always are."""
    for i in range(1, some.filled[0]):
        number, j = some.numbers[i], i
        while j > 0 and some.numbers[j - 1] > number:
            some.numbers[j] = some.numbers[j - 1]
            j -= 1
        some.numbers[j] = number


@kernel
def sort_by(some: Worklist, keys: Any, scratch: Longs) -> None:
    """Put the numbers in the order of their keys, ``keys[number]``, those with the same one in the
    order of arrival: merges from the bottom up, unless all is in order, which it mostly is.

    ``scratch`` has room for as many numbers as the list.
    """
    numbers, n, at = some.numbers, some.filled[0] + 0, 1
    while at < n and keys[numbers[at - 1]] <= keys[numbers[at]]:
        at += 1
    width = 1 if at < n else n
    while width < n:
        for start in range(0, n, 2 * width):
            middle, end = min(start + width, n), min(start + 2 * width, n)
            for i in range(start, middle):
                scratch[i] = numbers[i]
            one, other = start, middle
            for at in range(start, end):
                if one == middle:
                    break
                if other < end and keys[numbers[other]] < keys[scratch[one]]:
                    numbers[at] = numbers[other]
                    other += 1
                else:
                    numbers[at] = scratch[one]
                    one += 1
        width *= 2
