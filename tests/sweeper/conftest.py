"""A small study, and one Ray for the whole session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sweeper.ledger import Ledger
from sweeper.plan import Plan, plan_study
from sweeper.pool import Pool, make_pool
from sweeper.sweep import Tally, run_sweep

SMALL = ("study=libra_gpt3_4d", "collective.chunks=8", "budget.points=40")


@pytest.fixture
def small(tmp_path: Path) -> Callable[..., Plan]:
    """Plans the main study, smaller, with results in a temporary folder, under more overrides."""
    from sweeper.compose import compose

    def plan(*overrides: str, results: str = "results") -> Plan:
        return plan_study(compose([*SMALL, f"results={tmp_path / results}", *overrides]))

    return plan


def run(plan: Plan, pool: Pool | None = None) -> Tally:
    """Run a plan in this process, or on a pool of its cells."""
    with Ledger(plan.folder, plan.study, plan.schema) as ledger:
        pool = pool or make_pool(
            {**plan.config, "cluster": {"mode": "inline"}},
            [cell.cell for cell in plan.cells],
            plan.schema,
        )
        return run_sweep(plan, ledger, pool, lambda _: None)
