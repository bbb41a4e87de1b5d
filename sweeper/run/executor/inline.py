"""An executor in this process."""

from collections.abc import Sequence

import pyarrow as pa

from sweeper.config.study import Executor as ExecutorConfig
from sweeper.ledger.rows import Cell
from sweeper.run.executor.evaluate import Evaluator, Job, Outcome


class InlineExecutor:
    """Simulates in this process, a slice at a time."""

    n_workers = 1
    _SLICE = 256

    def __init__(self, config: ExecutorConfig, cells: Sequence[Cell], schema: pa.Schema) -> None:
        self._evaluator = Evaluator(cells, schema)
        self._jobs: list[Job] = []

    def submit(self, job: Job) -> None:
        for i in range(0, len(job.trials), self._SLICE):
            part = slice(i, i + self._SLICE)
            self._jobs.append(Job(job.cell, job.trials[part], job.keys[part]))

    def collect(self) -> Outcome | None:
        return self._evaluator.evaluate(self._jobs.pop(0))

    def close(self) -> None:
        self._jobs.clear()
