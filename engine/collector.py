"""Context manager that pauses Python's cyclic garbage collector while many objects are built.

The collector otherwise takes about a third of the time of building them.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause Python's cyclic garbage collector while the context is open.

    Use it around code that builds many objects and leaves no reference cycles behind.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
