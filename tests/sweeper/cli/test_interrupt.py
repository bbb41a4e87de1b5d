"""A signal stops a sweep, wherever Python was when it came."""

import signal
import sys

import pytest

from dimsweep.sweeper.cli.sweep import interruptible


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_a_keyboard_interrupt(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), interruptible():
        signal.raise_signal(number)
    assert signal.getsignal(number) is before


class Finalised:
    def __del__(self) -> None:
        signal.raise_signal(signal.SIGTERM)


class Broken:
    def __del__(self) -> None:
        raise ZeroDivisionError


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_one_that_comes_while_an_object_is_finalised_is_told_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Python would print the dropped one's traceback, which looks like a defect."""
    dropped: list[type[BaseException]] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda each: dropped.append(each.exc_type))
    with interruptible() as check:
        check()
        Finalised()
        assert not dropped
        with pytest.raises(KeyboardInterrupt):
            check()
    Broken()
    assert dropped == [ZeroDivisionError]
