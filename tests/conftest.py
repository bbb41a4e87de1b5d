"""What all tests share."""

import gc
import os
import sys
import threading
from pathlib import Path

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


def pytest_collection_finish() -> None:
    """What was imported stays; the collector need not look at it again and again."""
    gc.collect()
    gc.freeze()


def _refuse_fork(event: str, _: object) -> None:
    """Python 3.12 and later warn of this; a warning is easily missed, and 3.11 has none."""
    if event in ("os.fork", "os.forkpty"):
        tasks = Path("/proc/self/task")  # threads of C code too, which Python does not count
        n = len(os.listdir(tasks)) if tasks.is_dir() else threading.active_count()
        if n > 1:
            raise RuntimeError(f"a fork of a process with {n} threads may stand still for ever")


sys.addaudithook(_refuse_fork)
