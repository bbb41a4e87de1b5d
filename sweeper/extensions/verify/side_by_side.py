"""Simulations of a verification that know nothing of each other: as many at once as cores."""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

_Given = TypeVar("_Given")
_Found = TypeVar("_Found")


def side_by_side(
    find: Callable[[_Given], _Found], given: Sequence[_Given], *, chunksize: int = 1
) -> Iterator[_Found]:
    """What ``find``, a function of a module, returns for each, in their order, as they come.

    A process takes ``chunksize`` of them at a time; no more than that are found in this one.  Each
    starts as a Python of its own: a fork of this one, which has threads of Arrow's, Numba's or
    Ray's, could stand still for ever.
    """
    if len(given) <= chunksize:
        yield from map(find, given)
        return
    cores = os.cpu_count() or 1
    with ProcessPoolExecutor(cores, get_context("spawn"), initializer=_leave_stopping) as pool:
        try:
            yield from pool.map(find, given, chunksize=chunksize)
        finally:
            pool.shutdown(cancel_futures=True)


def _leave_stopping() -> None:
    """Let Ctrl-C stop the process that asks alone, which then stops the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
