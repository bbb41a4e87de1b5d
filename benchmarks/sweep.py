"""A whole sweep with random search: the share of its wall time spent inside the engine."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from sweeper.config.compose import compose
from sweeper.ledger.ledger import Ledger
from sweeper.run.driver import run_sweep
from sweeper.run.pool import make_pool
from sweeper.study.plan import plan_study

POINTS = 200_000


def main() -> None:
    """Print engine seconds over (wall seconds x workers) for the main study, random search."""
    for cluster in ("cluster=inline", "cluster.actors=1", "cluster.actors=2"):
        with tempfile.TemporaryDirectory() as folder:
            _measure(cluster, Path(folder))


def _measure(cluster: str, folder: Path) -> None:
    plan = plan_study(
        compose(
            [
                "study=libra_gpt3_4d",
                "search=random",
                f"budget.points={POINTS}",
                f"results={folder}",
                cluster,
            ]
        )
    )
    with Ledger(plan.folder, plan.study, plan.schema) as ledger:
        pool = make_pool(plan.config, [cell.cell for cell in plan.cells], plan.schema)
        try:
            start = time.monotonic()
            tally = run_sweep(plan, ledger, pool, lambda _: None)
            wall = time.monotonic() - start
        finally:
            pool.close()
    share = tally.engine_seconds / wall / pool.n_workers
    print(
        f"{cluster}: {POINTS / wall:,.0f} points/s, engine {share:.0%} of the workers' wall time",
        flush=True,
    )
