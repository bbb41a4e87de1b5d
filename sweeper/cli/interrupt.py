"""Stopping a sweep by a signal."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def interruptible() -> Iterator[Callable[[], None]]:
    """Within it SIGTERM is a KeyboardInterrupt, as SIGINT is: a scheduler's stop loses nothing.

    What it yields is to be called now and then, and raises the KeyboardInterrupt of a signal whose
    own was lost: Python drops what is raised while it finalises an object, such as Ray's handles.
    That it was dropped is not told, since it has been heard.
    """
    came = False

    def interrupt(*_: Any) -> None:
        nonlocal came
        came = True
        raise KeyboardInterrupt

    def check() -> None:
        if came:
            raise KeyboardInterrupt

    def tell(dropped: "sys.UnraisableHookArgs") -> None:
        if dropped.exc_type is not KeyboardInterrupt:
            tell_before(dropped)

    before = {number: signal.signal(number, interrupt) for number in _SIGNALS}
    tell_before, sys.unraisablehook = sys.unraisablehook, tell
    try:
        yield check
    finally:
        sys.unraisablehook = tell_before
        for number, handler in before.items():
            signal.signal(number, handler)
