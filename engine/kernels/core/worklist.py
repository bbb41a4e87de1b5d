"""Worklists: numbers of what is to be done at the end of a round, in the order of arrival."""

from typing import NamedTuple

from engine.compiler import inlined
from engine.lower.program import Longs


class Worklist(NamedTuple):
    """As many numbers as ``filled`` says."""

    numbers: Longs
    filled: Longs  # (1,)


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
def sort(some: Worklist) -> None:
    """Put the numbers in ascending order, in which they nearly always are."""
    for i in range(1, some.filled[0]):
        number, j = some.numbers[i], i
        while j > 0 and some.numbers[j - 1] > number:
            some.numbers[j] = some.numbers[j - 1]
            j -= 1
        some.numbers[j] = number
