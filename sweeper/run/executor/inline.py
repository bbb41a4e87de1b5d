"""An executor that simulates in this process."""

import pyarrow as pa

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.run.executor.evaluate import Evaluator, Job, Outcome
from dimsweep.sweeper.run.executor.setup import Setup


class InlineExecutor:
    """An executor that simulates in this process, a slice of trials at a time.

    A trial that the environment failed is tried a second time. A process cannot stop its own
    compiled code, so ``timeout`` and ``memory`` are rejected.
    """

    n_workers = n_nodes = 1
    _SLICE = 256

    def __init__(self, setup: Setup) -> None:
        for name, limit in (("time", "timeout"), ("memory", "memory")):
            if getattr(setup.config, limit) is not None:
                raise DimsweepError(
                    f"the inline executor has no {name} limit: it cannot stop its own process",
                    where=f"executor.{limit}",
                    hint="use executor=local, which can stop its worker processes",
                    code="unsupported",
                )
        self._evaluator = Evaluator(setup.cells, setup.schema)
        self._jobs: list[Job] = []

    def submit(self, job: Job) -> None:
        for i in range(0, len(job.trials), self._SLICE):
            self._jobs.append(job.slice(i, i + self._SLICE))

    def collect(self) -> Outcome | None:
        job = self._jobs.pop(0)
        outcome = self._evaluator.evaluate(job)
        if not (lost := outcome.lost):
            return outcome
        again = [self._evaluator.evaluate(one) for one in job.isolate(lost)]
        rows = pa.concat_tables([outcome.without_lost().rows, *(each.rows for each in again)])
        still = frozenset[str]().union(*(each.lost for each in again))
        return Outcome(rows, outcome.seconds + sum(each.seconds for each in again), still)

    def close(self) -> None:
        self._jobs.clear()
