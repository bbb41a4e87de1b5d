"""A whole sweep: the share of its wall time that the workers spend inside the engine.

python -m benchmarks.sweep cmaes 1000000 executor.actors=2
"""

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from resource import RUSAGE_SELF, getrusage

from sweeper.config.compose import compose
from sweeper.ledger.ledger import Ledger
from sweeper.run.driver import Progress, run_sweep
from sweeper.run.executor import make_executor
from sweeper.study.plan import plan_study

TRIALS = 200_000


def main() -> None:
    """Print engine seconds over (wall seconds x workers) for the main study."""
    for executor in ("executor=inline", "executor.actors=1", "executor.actors=2"):
        _measure("random", TRIALS, [executor])
    _measure("cmaes", TRIALS, ["executor.actors=2"])


def _measure(sampler: str, trials: int, options: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory() as results:
        _sweep(sampler, trials, options, Path(results))


def _sweep(sampler: str, trials: int, options: Sequence[str], results: Path) -> None:
    study = ["study=libra_gpt3_4d", f"search={sampler}", f"budget.trials={trials}"]
    plan = plan_study(compose([*study, f"results={results}", *options]))
    started: list[float] = []  # when the workers were there and had simulated something

    def watch(progress: Progress) -> None:
        if progress.engine_seconds and not started:
            started.extend([time.monotonic(), progress.engine_seconds, time.process_time()])

    with Ledger(plan.folder, plan.study, plan.schema) as ledger:
        executor = make_executor(plan.config, [cell.cell for cell in plan.cells], plan.schema)
        try:
            progress = run_sweep(plan, ledger, executor, watch)
            wall, cpu = time.monotonic() - started[0], time.process_time() - started[2]
        finally:
            executor.close()
    seconds = progress.engine_seconds - started[1]
    print(
        f"{sampler}, {' '.join(options)}: {trials / wall:,.0f} trials/s, "
        f"engine {seconds / wall / progress.workers:.1%} of the workers' wall time, driver "
        f"{cpu / trials * 1e6:.0f} us of CPU a trial (engine {seconds / trials * 1e6:.0f} us), "
        f"{getrusage(RUSAGE_SELF).ru_maxrss / 1024:.0f} MB, {progress.reused:,} asked for twice",
        flush=True,
    )


if __name__ == "__main__":
    _measure(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
