"""Exact optima of LIBRA's recorded cases: milliseconds and errors, beside scipy's SLSQP."""

import json
import time
from typing import Any

import numpy as np
from scipy.optimize import minimize

from benchmarks.study import main_program, recorded
from dimsweep.engine import Prices, run_batch
from dimsweep.engine.bound import ClosedForm, LinearSpace, lower_bound, optimum

STARTS = 6  # of SLSQP, which stalls at some


def main() -> None:
    """Print medians over the recorded cases, and the main study's certified gap."""
    if file := recorded("libra/reference.json", "the recorded optima"):
        _recorded(json.loads(file.read_text()))
    space = LinearSpace.budget(4, 500e9, low=1e9)
    for chunks in (64, 256):
        program = main_program(f"collective.chunks={chunks}")
        lower_bound(program, space)
        start = time.perf_counter()
        found = lower_bound(program, space)
        milliseconds = (time.perf_counter() - start) * 1e3
        seconds = run_batch(program, found.bandwidth).time[0] / 1e12
        print(
            f"main study, {chunks} chunks: bound {found.bound * 1e3:.6f} ms, a run at its split "
            f"{seconds * 1e3:.6f} ms, gap {seconds / found.bound - 1:.1e}, {milliseconds:.0f} ms"
        )


def _recorded(recorded: dict[str, Any]) -> None:
    ours, theirs, errors, worst = [], [], [], []
    for case in recorded["cases"]:
        form, space, prices = _problem(recorded, case)
        expected = case["best"]["objective"] * (1e-9 if prices is None else 10)
        if not ours:
            optimum(form, space, prices)  # imports the solver
        start = time.perf_counter()
        found = optimum(form, space, prices)
        ours.append(time.perf_counter() - start)
        errors.append((abs(found.value / expected - 1), found.gap, found.bound / expected - 1))
        start = time.perf_counter()
        value = _slsqp(form, case["total_bw_GBps"], prices)
        theirs.append(time.perf_counter() - start)
        worst.append(value / expected - 1)
    error, gap, above = np.array(errors).max(axis=0)
    print(f"{len(ours)} recorded cases, milliseconds to solve: median, greatest")
    print(f"optimum: {np.median(ours) * 1e3:.1f}, {max(ours) * 1e3:.1f}")
    print(f"  worst error {error:.1e}, gap {gap:.1e}; bound less optimum at most {above:.0e}")
    print(f"scipy SLSQP, {STARTS} starts: {np.median(theirs) * 1e3:.1f}, {max(theirs) * 1e3:.1f}")
    print(f"  worst error {max(worst):.1e}; no bound")


def _problem(
    recorded: dict[str, Any], case: dict[str, Any]
) -> tuple[ClosedForm, LinearSpace, Prices | None]:
    dims = case["dims"]
    inputs = recorded["inputs"][f"{case['workload']}/{dims}D"]
    rows = np.array([c["traffic_bytes_per_dim"] for c in inputs["collectives"]])
    prices = None
    if case["objective"] != "perf":
        unit = recorded["networks"][f"{dims}D"]["cost_usd_per_GBps"]
        prices = Prices(tuple(price / 1e9 for price in unit))
    space = LinearSpace.budget(dims, case["total_bw_GBps"] * 1e9)
    return ClosedForm(inputs["compute_ns"] * 1e-9, rows), space, prices


def _slsqp(form: ClosedForm, total: float, prices: Prices | None) -> float:
    """The best of some starts with variables b and t_k >= a_kd / b_d, in GB/s and seconds."""
    kinds = form.kinds / 1e9
    n = kinds.shape[1]

    def value(x: np.ndarray) -> float:
        seconds = form.compute + x[n:].sum()
        return seconds if prices is None else seconds * float(prices.cost(x[:n] * 1e9)) / 1e6

    rules = [
        {"type": "eq", "fun": lambda x: x[:n].sum() / total - 1},
        {"type": "ineq", "fun": lambda x: (x[n:, None] - kinds / x[:n]).ravel()},
    ]
    random, best = np.random.default_rng(0), np.inf
    for share in random.dirichlet(np.ones(n), STARTS):
        split = 0.01 * total + share * total * (1 - 0.01 * n)
        start = np.concatenate([split, (kinds / split).max(axis=1)])
        bounds = [(1e-3 * total, total)] * n + [(0.0, None)] * len(kinds)
        options = {"maxiter": 500, "ftol": 1e-14}
        found = minimize(
            value, start, method="SLSQP", bounds=bounds, constraints=rules, options=options
        )
        b = found.x[:n] / found.x[:n].sum() * total * 1e9
        reached = float(form.time(b)) * (1.0 if prices is None else float(prices.cost(b)))
        best = min(best, reached)
    return best
