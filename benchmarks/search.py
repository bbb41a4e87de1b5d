"""How near each search comes to the best split known, and to the proven bound.

``search`` runs the cases that the default search is held to, and two harder ones; ``search-all``
every case, with more seeds and GP, and takes long.
"""

import statistics
import tempfile
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path

from benchmarks.study import sweep
from dimsweep import load
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.questions.plan import plan_study
from dimsweep.sweeper.run.executor import make_executor

SAMPLERS = ("random", "tpe", "cmaes", "gp", "descent", "auto")
BUDGETS = (40, 100, 300)
NEAR = 1.001
GP_TRIALS, GP_SEEDS = 100, 1  # the more trials it knows, the longer it thinks about the next


Cases = Mapping[str, tuple[str, ...]]
Runs = Sequence[Sequence[float]]  # the best of the first n trials, a run a seed


def _cases(*overrides: str, networks: Sequence[str] = ("4d",)) -> Cases:
    """Each workload on each network under ``overrides`` of the native study."""
    return {
        f"{workload} {net}": (
            "study=native_gpt3_4d",
            f"workload={workload}_libra",
            f"topology=libra_{net}",
            f"cost=libra_{net}",
            *overrides,
        )
        for workload in ("gpt3", "msft1t", "turing_nlg", "resnet50")
        for net in networks
    }


# Harder ones: with Themis the order of events changes with the split, few chunks are long phases.
FAMILIES = {
    "native": _cases(networks=("3d", "4d")),
    "libra": _cases("profile=libra", networks=("3d", "4d")),
    "perf_per_cost": _cases("objective=perf_per_cost"),
    "4 chunks": _cases("collective.chunks=4"),
    "themis": _cases("collective.order=themis"),
    "themis, perf_per_cost": _cases("collective.order=themis", "objective=perf_per_cost"),
}


def main() -> None:
    """The eight native cases, and one of 4 chunks and of Themis; two seeds, without GP."""
    samplers = [sampler for sampler in SAMPLERS if sampler != "gp"]
    for family in ("native", "4 chunks", "themis"):
        cases = FAMILIES[family]
        few = cases if family == "native" else {"msft1t 4d": cases["msft1t 4d"]}
        compare(family, few, samplers, n_seeds=2)


def everything() -> None:
    """All cases and samplers; three seeds."""
    for family, cases in FAMILIES.items():
        compare(family, cases, SAMPLERS, n_seeds=3)


def compare(family: str, cases: Cases, samplers: Sequence[str], n_seeds: int) -> None:
    """Print a line for each case, and a table over all cases and seeds."""
    print(f"\n{family}: {len(cases)} cases, {n_seeds} seeds")
    gaps: dict[str, list[float]] = {f"{s} {n}": [] for s in samplers for n in BUDGETS}
    needed: dict[str, list[int]] = {sampler: [] for sampler in samplers}
    bounds = []
    for case, overrides in cases.items():
        found, bound = _search(overrides, samplers, n_seeds)
        best = min(run[-1] for runs in found.values() for run in runs)
        bounds.append(best / bound - 1)
        print(f"  {case}: the best known is {bounds[-1]:.4%} above the bound", flush=True)
        for sampler, runs in found.items():
            needed[sampler] += [_needed(run, best) for run in runs]
            for n in BUDGETS:
                gaps[f"{sampler} {n}"] += [run[n - 1] / best - 1 for run in runs if len(run) >= n]
    print(f"  mean (worst) gap to the best known; the bound is {statistics.mean(bounds):.4%} below")
    print("          " + "".join(f"{f'{n} trials':>19}" for n in BUDGETS) + "   within 0.1 % after")
    for sampler in samplers:
        shares = (_mean_and_worst(gaps[f"{sampler} {n}"]) for n in BUDGETS)
        print(f"  {sampler:8}" + "".join(f"{text:>19}" for text in shares), end="   ")
        counts = sorted(needed[sampler])
        print(f"{_count(counts[len(counts) // 2])} (median), {_count(counts[-1])} (worst)")


def _search(
    overrides: Sequence[str], samplers: Sequence[str], n_seeds: int
) -> tuple[dict[str, Runs], float]:
    """The runs of each sampler, and the bound of what is minimised."""
    found: dict[str, Runs] = {}
    for sampler in samplers:
        seeds, trials = (GP_SEEDS, GP_TRIALS) if sampler == "gp" else (n_seeds, max(BUDGETS))
        runs = [_best_so_far(overrides, sampler, seed, trials) for seed in range(seeds)]
        found[sampler] = [run for run, _ in runs]
        bound = runs[0][1]
    return found, bound


def _best_so_far(
    overrides: Sequence[str], sampler: str, seed: int, trials: int
) -> tuple[list[float], float]:
    """The best time, or cost per iteration/s, of the first n trials for each n; and its bound."""
    with tempfile.TemporaryDirectory() as folder:
        ours = [f"search={sampler}", f"search.seed={seed}", f"budget.trials={trials}"]
        ours += [f"results={folder}", "executor=inline"]
        plan = plan_study(compose([*overrides, *ours]))
        sweep(plan, make_executor(plan.config, plan.simulated, plan.schema))
        rows = load(Path(plan.folder)).to_pandas()
    (cell,) = plan.cells
    assert cell.bound is not None
    is_time = [each.name for each in cell.objective] == ["time"]
    values = rows["time_s"] if is_time else 1 / rows["perf_per_cost"]
    # Trials that were asked for twice have one row, that of the first.
    known = dict(zip(rows["trial"], values, strict=True))
    run = list(accumulate((known.get(i, float("inf")) for i in range(trials)), min))
    return run, cell.bound if is_time else 1 / cell.bound


def _needed(run: Sequence[float], best: float) -> int:
    return next((i + 1 for i, value in enumerate(run) if value <= best * NEAR), max(BUDGETS) + 1)


def _mean_and_worst(gaps: Sequence[float]) -> str:
    return f"{statistics.mean(gaps):.3%} ({max(gaps):.2%})" if gaps else "-"


def _count(trials: int) -> str:
    return str(trials) if trials <= max(BUDGETS) else "never"
