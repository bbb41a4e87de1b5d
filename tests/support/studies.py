"""Small studies, and how the tests run them."""

from __future__ import annotations

from sweeper.ledger.ledger import Ledger
from sweeper.run.driver import Tally, run_sweep
from sweeper.run.pool import Pool, make_pool
from sweeper.study.plan import Plan

SMALL = ("study=libra_gpt3_4d", "collective.chunks=8", "budget.points=40")


def run(plan: Plan, pool: Pool | None = None) -> Tally:
    """Run a plan in this process, or on a pool of its cells."""
    with Ledger(plan.folder, plan.study, plan.schema) as ledger:
        pool = pool or make_pool(
            {**plan.config, "cluster": {"mode": "inline"}},
            [cell.cell for cell in plan.cells],
            plan.schema,
        )
        return run_sweep(plan, ledger, pool, lambda _: None)
