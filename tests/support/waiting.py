"""Waiting for what comes at its own time, on a machine with however much else to do."""

import time
from collections.abc import Callable
from typing import TypeVar

LONG = 900.0  # seconds; what has not come by then never will, whatever else the machine does
_T = TypeVar("_T")


def until(what: Callable[[], _T], every: float = 0.02) -> _T:
    """Wait until ``what`` comes to something, looking ``every`` so many seconds; what it is."""
    end = time.monotonic() + LONG
    while not (found := what()):
        assert time.monotonic() < end, "what was waited for did not come"
        time.sleep(every)
    return found
