"""What runs side by side runs in processes of its own, which no thread of this one can disturb."""

import os
import signal
import threading

import pytest

from dimsweep.sweeper.extensions.verify.points import map_in_processes


def _square(number: int) -> tuple[int, int, int, bool]:
    stays = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    return number * number, os.getpid(), threading.active_count(), stays


def test_results_come_in_order_from_clean_processes() -> None:
    found = list(map_in_processes(_square, range(5)))
    assert [square for square, *_ in found] == [0, 1, 4, 9, 16]
    assert os.getpid() not in {process for _, process, *_ in found}
    assert all(stays for *_, stays in found)


def test_a_process_with_threads_is_not_forked() -> None:
    """What holds all tests to it: conftest.py."""
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    try:
        with pytest.raises(RuntimeError, match="threads may stand still"):
            os.fork()
    finally:
        end.set()
        thread.join()
