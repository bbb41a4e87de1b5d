"""What all tests share."""

import gc
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Before numpy is there: each process has a core, on which further threads would only wait in turn.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Ray's workers give way to all else (their niceness is 15), so that beside two processes that test
# they would have a thirtieth of a core, and tests of them would wait for minutes.
os.environ.setdefault("RAY_worker_niceness", "0")

import pytest
from hypothesis import settings

from tests.support.compiling import compile_all
from tests.support.examples import TIMES, times

# The same examples on every machine, unless more are asked for, and no verdict on how long one
# takes.
settings.register_profile("dimsweep", max_examples=times(50), deadline=None, derandomize=TIMES <= 1)
settings.load_profile("dimsweep")


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Where several processes test, what they would all compile is compiled before."""
    if session.config.getoption("numprocesses", None):
        compile_all()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes seconds begins first, so that no process waits for another at the end; processes
    take groups before what has none."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


gc.disable()  # while tests are imported, of which all stays


def pytest_collection_finish() -> None:
    """What was imported stays; the collector need not look at it again and again, nor once for the
    little that does not."""
    gc.freeze()
    # Most that is made is gone before it is looked for: with a million, looking takes a second and
    # a half of some rooms' twenty, and with five the one look in the middle of make test seven
    # seconds of a process; ten are reached by neither of its two, which take 1.5 GB each.
    gc.set_threshold(10_000_000, 20, 10)
    gc.enable()


def _not_waited_for(descriptor: int) -> None:
    """In the place of ``os.fsync``: a disk takes ten milliseconds for each of thousands of writes.
    What would be lost without it is known to tests/support/disks.py, and other processes wait."""
    os.fstat(descriptor)  # it must be open


os.fsync = _not_waited_for


def _alone(fork: Callable[[], Any]) -> Callable[[], Any]:
    """``fork``, which is refused to a process that has threads.  Python 3.12 and later warn of
    this; a warning is easily missed, and 3.11 has none."""

    def checked() -> Any:
        tasks = Path("/proc/self/task")  # threads of C code too, which Python does not count
        n = len(os.listdir(tasks)) if tasks.is_dir() else threading.active_count()
        if n > 1:
            raise RuntimeError(f"a fork of a process with {n} threads may stand still for ever")
        return fork()

    return checked


# An audit hook would be asked at each import and each file that is opened: 3 % of all tests' time.
os.fork, os.forkpty = _alone(os.fork), _alone(os.forkpty)
