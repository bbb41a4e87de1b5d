"""Simulations of a verification that know nothing of each other: as many at once as cores."""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

_Given = TypeVar("_Given")
_Found = TypeVar("_Found")


def side_by_side(
    find: Callable[[_Given], _Found], given: Iterable[_Given], *, chunksize: int = 1
) -> Iterator[_Found]:
    """What ``find``, a function of a module, returns for each, in their order, as they come.

    A process takes ``chunksize`` of them at a time.
    """
    with ProcessPoolExecutor(os.cpu_count() or 1) as pool:
        yield from pool.map(find, given, chunksize=chunksize)
