"""The driver alone: a sweep whose workers take no time, so that the driver is what limits it."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.study import peak_megabytes, sweep
from dimsweep import load
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.questions.plan import plan_study
from dimsweep.sweeper.run.executor.evaluate import Evaluator, Job, Outcome
from dimsweep.sweeper.run.executor.ray import PIECE_SECONDS, PIECES_PER_SECOND
from dimsweep.sweeper.run.loop import StudyPlan

_NODES, _CORES = 64, 64
_PIECE_COST = 1e-3  # seconds of the driver for a piece: Ray's submit, wait and get
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
        self._jobs += [job.slice(i, i + _PIECE) for i in range(0, len(job.trials), _PIECE)]

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
    """Print how many trials the driver does in a second, what resuming and loading take, and what
    that means for a large cluster."""
    for trials in (10_000, 100_000, 1_000_000):
        rate = measure_apart("random", trials)
    for sampler in ("qmc", "grid", "cmaes", "auto"):
        measure_apart(sampler, 100_000)
    tell_of_a_cluster(rate)


def measure_apart(sampler: str, trials: int) -> float:
    """Measure in a process of its own, whose memory is that of this sweep; the trials a second."""
    command = [sys.executable, "-m", __name__, sampler, str(trials)]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    print(told, end="", flush=True)
    return float(told.partition(" trials a CPU second")[0].rpartition(" ")[2].replace(",", ""))


def tell_of_a_cluster(rate: float) -> None:
    """Print how busy a driver of ``rate`` trials a second keeps the cores of a cluster.

    The model: workers that take t seconds for a trial ask for cores / t trials a second.  The
    driver gives them at most ``rate`` less what handing out pieces takes of its time; pieces last
    as long as :mod:`sweeper.run.executor.ray` makes them, and each takes the driver
    ``_PIECE_COST`` seconds beside its trials.  Networks, and Ray's own daemons, cost nothing.
    """
    cores = _NODES * _CORES
    pieces = cores / max(PIECE_SECONDS, cores / PIECES_PER_SECOND)
    able = rate * (1 - pieces * _PIECE_COST)
    print(
        f"{_NODES} nodes of {_CORES} cores: {pieces:,.0f} pieces/s take {pieces * _PIECE_COST:.0%} "
        f"of the driver, which then handles {able:,.0f} trials/s"
    )
    for milliseconds in (0.22, 1, 5, 20, 100):
        done = min(able, cores / milliseconds * 1e3)
        busy = done * milliseconds / 1e3
        print(
            f"  trials of {milliseconds:g} ms: {done:,.0f} trials/s, {busy:,.0f} busy cores, "
            f"{busy / cores:.0%} of all"
        )


def _measure(sampler: str, trials: int) -> None:
    with tempfile.TemporaryDirectory() as results:
        study = ["study=libra_gpt3_4d", f"search={sampler}", f"budget.trials={trials}"]
        plan = plan_study(compose([*study, "what_if=null", f"results={results}"]))
        before, first = peak_megabytes(), _run(plan)
        memory = f"{peak_megabytes():.0f} MB ({before:.0f} before)"
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
    sweep(plan, executor)
    return time.process_time() - start


if __name__ == "__main__":
    _measure(sys.argv[1], int(sys.argv[2]))
