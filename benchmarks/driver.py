"""The driver alone: a sweep whose workers take no time, so that the driver is what limits it."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from resource import RUSAGE_SELF, getrusage

import numpy as np
import pyarrow as pa

from sweeper import load
from sweeper.config.compose import compose
from sweeper.ledger.ledger import Ledger
from sweeper.run.driver import run_sweep
from sweeper.run.executor.evaluate import Evaluator, Job, Outcome
from sweeper.study.plan import StudyPlan, plan_study

_PIECE = 512  # trials, as of a worker that simulates for a tenth of a second


class FreeExecutor:
    """Answers at once, with the rows of other trials under the names of those asked for."""

    n_workers = n_nodes = 1

    def __init__(self, plan: StudyPlan) -> None:
        cell = plan.cells[0]
        unit = np.random.default_rng(1).random((_PIECE, cell.space.n_unit))
        trials = cell.space.from_unit(unit, 0, "random")
        rows = (
            Evaluator([cell.cell], plan.schema)
            .evaluate(Job(0, trials, cell.content.keys(trials)))
            .rows
        )
        self._rows = rows.combine_chunks().to_batches()[0]
        self._jobs: list[Job] = []

    def submit(self, job: Job) -> None:
        self._jobs += [job.part(i, i + _PIECE) for i in range(0, len(job.trials), _PIECE)]

    def collect(self) -> Outcome | None:
        job = self._jobs.pop(0)
        rows = self._rows.slice(0, len(job.trials))
        own = {"key": job.keys, "trial": job.trials.number}
        columns = [
            pa.array(own[field.name], field.type) if field.name in own else rows.column(field.name)
            for field in rows.schema
        ]
        return Outcome(
            pa.Table.from_batches([pa.RecordBatch.from_arrays(columns, schema=rows.schema)]), 0.0
        )

    def close(self) -> None:
        """Nothing to let go of."""


def main() -> None:
    """Print how many trials the driver does in a second, and what resuming and loading take."""
    for trials in (10_000, 100_000, 1_000_000):
        measure_apart("random", trials)
    for sampler in ("qmc", "cmaes", "auto"):
        measure_apart(sampler, 100_000)


def measure_apart(sampler: str, trials: int) -> None:
    """Measure in a process of its own, whose memory is that of this sweep."""
    subprocess.run([sys.executable, "-m", __name__, sampler, str(trials)], check=True)


def _measure(sampler: str, trials: int) -> None:
    with tempfile.TemporaryDirectory() as results:
        study = ["study=libra_gpt3_4d", f"search={sampler}", f"budget.trials={trials}"]
        plan = plan_study(compose([*study, f"results={results}"]))
        before, first = _megabytes(), _run(plan)
        memory = f"{_megabytes():.0f} MB ({before:.0f} before)"
        again = _run(plan)
        start = time.process_time()
        rows = len(load(Path(results) / "libra_gpt3_4d"))
        loaded = time.process_time() - start
    print(
        f"{sampler}, {trials:,} trials ({rows:,} rows): {trials / first:,.0f} trials a CPU second, "
        f"{memory}, "
        f"resumed in {again:.1f} CPU s, loaded in {loaded:.1f} CPU s",
        flush=True,
    )


def _run(plan: StudyPlan) -> float:
    executor = FreeExecutor(plan)
    start = time.process_time()
    with Ledger(plan.folder, plan.study, plan.schema) as ledger:
        run_sweep(plan, ledger, executor, lambda _: None)
    return time.process_time() - start


def _megabytes() -> float:
    return getrusage(RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    _measure(sys.argv[1], int(sys.argv[2]))
