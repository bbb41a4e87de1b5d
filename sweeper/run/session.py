"""Run a planned study in its folder, from the command line or from Python."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dimsweep.sweeper.ledger.ledger import Ledger
from dimsweep.sweeper.ledger.lock import Pulse, beat
from dimsweep.sweeper.run.executor import Executor, make_executor
from dimsweep.sweeper.run.loop import Progress, StudyPlan, run_sweep

_BEAT = 2.0  # seconds


def run_in_ledger(
    ledger: Ledger,
    plan: StudyPlan,
    watch: Callable[[Progress], None],
    notify: Callable[[str], None],
) -> Progress:
    """Run ``plan``, or resume it, with its rows in ``ledger``; return its progress.

    ``watch`` receives the progress, and ``notify`` messages about the workers. The workers are
    released however the run ends.
    """
    with open_executor(ledger, plan, watch, notify) as (executor, seen):
        return run_sweep(plan, ledger, executor, seen)


@contextmanager
def open_executor(
    ledger: Ledger,
    plan: StudyPlan,
    watch: Callable[[Progress], None],
    notify: Callable[[str], None],
) -> Iterator[tuple[Executor, Callable[[Progress], None]]]:
    """Return a context with the executor of ``plan``, and a watcher.

    The watcher passes progress to ``watch`` and writes the sweep's pulse for observers.
    """
    heart = _Heart(ledger, watch)
    executor = make_executor(plan.config, plan.simulated, plan.schema, notify=notify)
    try:
        yield executor, heart.watch
    finally:
        executor.close()
        heart.beat(over=True)


class _Heart:
    """A watcher that passes the progress on, and periodically writes it to the pulse file."""

    def __init__(self, ledger: Ledger, watch: Callable[[Progress], None]) -> None:
        self._folder, self._watch, self._progress = ledger.folder, watch, Progress()
        self._started, self._last = time.monotonic(), 0.0

    def watch(self, progress: Progress) -> None:
        self._progress = progress
        self._watch(progress)
        if time.monotonic() - self._last > _BEAT:
            self.beat()

    def beat(self, *, over: bool = False) -> None:
        self._last, one = time.monotonic(), self._progress
        seconds = max(self._last - self._started, 1e-9)
        pulse = Pulse(
            at=time.time(),
            done=one.done,
            failed=one.failed,
            rate=max(one.done - one.reused - one.borrowed, 0) / seconds,
            workers=one.workers,
            busy=min(one.engine_seconds / (seconds * one.workers), 1.0),
            nodes=one.nodes,
            over=over,
        )
        beat(self._folder, pulse)
