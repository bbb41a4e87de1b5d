"""A whole sweep with random search: the share of its wall time spent inside the engine."""

import tempfile
import time
from pathlib import Path

from sweeper.config.compose import compose
from sweeper.ledger.ledger import Ledger
from sweeper.run.driver import run_sweep
from sweeper.run.executor import make_executor
from sweeper.study.plan import plan_study

TRIALS = 200_000


def main() -> None:
    """Print engine seconds over (wall seconds x workers) for the main study, random search."""
    for executor in ("executor=inline", "executor.actors=1", "executor.actors=2"):
        with tempfile.TemporaryDirectory() as folder:
            _measure(executor, Path(folder))


def _measure(executor: str, folder: Path) -> None:
    plan = plan_study(
        compose(
            [
                "study=libra_gpt3_4d",
                "search=random",
                f"budget.trials={TRIALS}",
                f"results={folder}",
                executor,
            ]
        )
    )
    with Ledger(plan.folder, plan.study, plan.schema) as ledger:
        executor = make_executor(plan.config, [cell.cell for cell in plan.cells], plan.schema)
        try:
            start = time.monotonic()
            progress = run_sweep(plan, ledger, executor, lambda _: None)
            wall = time.monotonic() - start
        finally:
            executor.close()
    share = progress.engine_seconds / wall / executor.n_workers
    print(
        f"{executor}: {TRIALS / wall:,.0f} trials/s, engine {share:.0%} of the workers' wall time",
        flush=True,
    )
