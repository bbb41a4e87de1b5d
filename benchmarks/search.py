"""How many evaluations each search needs to come within 0.1 % of the best split known."""

from __future__ import annotations

import statistics
import tempfile
from itertools import accumulate
from pathlib import Path

from sweeper import load
from sweeper.compose import compose
from sweeper.ledger import Ledger
from sweeper.plan import plan_study
from sweeper.pool import make_pool
from sweeper.sweep import run_sweep

SAMPLERS = ("random", "tpe", "cmaes", "descent")
SEEDS = (0, 1, 2)
BUDGETS = (40, 100, 300)
NEAR = 1.001
WORKLOADS = ("gpt3_libra", "msft1t_libra", "turing_nlg_libra", "resnet50_libra")
CASES = {
    "libra_gpt3_4d": ("study=libra_gpt3_4d",),
    **{
        f"native {workload} {net}": (
            "study=native_gpt3_4d",
            f"workload={workload}",
            f"topology=libra_{net}",
            f"cost=libra_{net}",
        )
        for workload in WORKLOADS
        for net in ("3d", "4d")
    },
    # Where the order of events changes often, or phases are long.
    "themis gpt3_libra 4d": ("study=native_gpt3_4d", "collective.order=themis"),
    "4 chunks gpt3_libra 4d": ("study=native_gpt3_4d", "collective.chunks=4"),
}


def main() -> None:
    """Print for each case and sampler, over the seeds: the median gap to the best known at each
    budget, and the points until within 0.1 % of it, median and worst."""
    print(f"gap to the best known at {BUDGETS} points (median of {len(SEEDS)} seeds)")
    print("and points until within 0.1 % (median, worst)")
    for case, overrides in CASES.items():
        runs = {
            sampler: [_best_so_far(overrides, sampler, s) for s in SEEDS] for sampler in SAMPLERS
        }
        best = min(run[-1] for found in runs.values() for run in found)
        print(f"{case}: best known {best:.9g} s")
        for sampler, found in runs.items():
            gaps = [statistics.median(run[n - 1] / best - 1 for run in found) for n in BUDGETS]
            needed = sorted(_needed(run, best) for run in found)
            print(
                f"  {sampler:8}",
                *(f"{gap:9.4%}" for gap in gaps),
                f"  {_count(needed[len(needed) // 2])}, {_count(needed[-1])}",
                flush=True,
            )


def _best_so_far(overrides: tuple[str, ...], sampler: str, seed: int) -> list[float]:
    with tempfile.TemporaryDirectory() as folder:
        ours = [f"search={sampler}", f"search.seed={seed}", f"budget.points={max(BUDGETS)}"]
        ours += [f"results={folder}", "cluster=inline"]
        plan = plan_study(compose([*overrides, *ours]))
        with Ledger(plan.folder, plan.study, plan.schema) as ledger:
            pool = make_pool(plan.config, [cell.cell for cell in plan.cells], plan.schema)
            run_sweep(plan, ledger, pool, lambda _: None)
        rows = load(Path(plan.folder)).to_pandas()
        # Points that were asked for twice have one row, that of the first.
        times = dict(zip(rows["point"], rows["time_s"], strict=True))
    return list(accumulate((times.get(i, float("inf")) for i in range(max(BUDGETS))), min))


def _needed(run: list[float], best: float) -> int:
    return next((i + 1 for i, time in enumerate(run) if time <= best * NEAR), len(run) + 1)


def _count(points: int) -> str:
    return str(points) if points <= max(BUDGETS) else "never"
