"""The interface of executors, and the executor that a configuration chooses."""

from collections.abc import Callable, Sequence
from typing import Protocol

import pyarrow as pa

from dimsweep.engine import DimsweepError, suggest_names
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.ledger.rows import Cell
from dimsweep.sweeper.run.executor.cluster import check_actors
from dimsweep.sweeper.run.executor.evaluate import Job, Outcome
from dimsweep.sweeper.run.executor.inline import InlineExecutor
from dimsweep.sweeper.run.executor.ray import RayExecutor
from dimsweep.sweeper.run.executor.setup import Notify, Setup


class Executor(Protocol):
    """The interface of executors, which simulate jobs of trials.

    Results arrive in any order and in any number of pieces.
    """

    @property
    def n_workers(self) -> int:
        """Number of simulations that run at once."""

    @property
    def n_nodes(self) -> int:
        """Number of machines on which workers run."""

    def submit(self, job: Job) -> None:
        """Queue the trials of ``job``."""

    def collect(self) -> Outcome | None:
        """Return finished rows, or None if no job finished within a short time.

        It may be called only while submitted trials are outstanding.
        """

    def close(self) -> None:
        """Release the workers; drop queued trials."""


class LazyExecutor:
    """Starts an executor with the first trial to simulate, so that a finished study starts none."""

    def __init__(self, start: Callable[[], Executor]) -> None:
        self._start = start
        self._started: Executor | None = None

    @property
    def n_workers(self) -> int:
        return self._started.n_workers if self._started else 1

    @property
    def n_nodes(self) -> int:
        return self._started.n_nodes if self._started else 1

    def submit(self, job: Job) -> None:
        if self._started is None:
            if not job.trials:
                return
            self._started = self._start()
        self._started.submit(job)

    def collect(self) -> Outcome | None:
        assert self._started is not None  # it is called only while trials are outstanding
        return self._started.collect()

    def close(self) -> None:
        if self._started is not None:
            self._started.close()


# A new executor is one file, and one line here: executor.mode -> its constructor.
EXECUTORS: dict[str, Callable[[Setup], Executor]] = {
    "inline": InlineExecutor,
    "local": RayExecutor,
    "address": RayExecutor,
}


def make_executor(
    config: Config, cells: Sequence[Cell], schema: pa.Schema, notify: Notify = lambda text: None
) -> Executor:
    """Return the executor that ``config.executor`` chooses.

    It simulates trials of ``cells``, and its rows have ``schema``. Ray starts with the first trial
    to simulate.
    """
    mode = config.executor.mode
    if mode not in EXECUTORS:
        raise DimsweepError(
            f"unknown executor {mode!r}",
            where="executor.mode",
            hint=suggest_names(mode, EXECUTORS),
            code="unknown-name",
        )
    setup = Setup(config.executor, cells, schema, notify)
    if EXECUTORS[mode] is not RayExecutor:
        return EXECUTORS[mode](setup)
    check_actors(config.executor)
    return LazyExecutor(lambda: RayExecutor(setup))
