"""An executor and a pulse for a sweep in a study's folder."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.ledger.ledger import Ledger
from dimsweep.sweeper.ledger.pulse import Pulse, beat
from dimsweep.sweeper.ledger.rows import Cell
from dimsweep.sweeper.run.driver import Progress
from dimsweep.sweeper.run.executor import Executor, make_executor

_BEAT = 2.0  # seconds


@contextmanager
def working(
    ledger: Ledger,
    config: Config,
    cells: Sequence[Cell],
    schema: pa.Schema,
    watch: Callable[[Progress], None],
    tell: Callable[[str], None],
) -> Iterator[tuple[Executor, Callable[[Progress], None]]]:
    """Yield the executor that ``config`` describes and the watcher to pass to a sweep, which also
    writes the sweep's pulse."""
    heart = _Heart(ledger, watch)
    executor = make_executor(config, cells, schema, tell=tell)
    try:
        yield executor, heart.watch
    finally:
        executor.close()
        heart.beat(over=True)


class _Heart:
    """Looks at the progress for ``watch``, and writes the sweep's pulse now and then."""

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
