"""What all tests share."""

import gc

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
