"""The program that the benchmarks share: the main study's, GPT-3 on the 4D network."""

from collections.abc import Callable
from time import process_time

import numpy as np

from engine import Program
from sweeper.build.program import build_program
from sweeper.config.compose import compose


def main_program(*overrides: str) -> Program:
    """The program of studies/libra_gpt3_4d.yaml under further overrides."""
    return build_program(compose(["study=libra_gpt3_4d", *overrides]).config)


def random_splits(n: int, total: float = 500e9) -> np.ndarray:
    """``n`` uniformly random splits over four dimensions, none below 1 GB/s."""
    shares = np.random.default_rng(0).dirichlet(np.ones(4), n)
    return 1e9 + shares * (total - 4e9)


def n_phases(program: Program) -> int:
    """Phases of chunks in one simulated iteration."""
    s = program.structure
    per_chunk = [
        2 * (f["use_end"] - f["use_start"]) if f["kind"] == 0 else f["use_end"] - f["use_start"]
        for f in s.forms
    ]
    return int(sum(per_chunk[flow["form"]] * s.forms[flow["form"]]["chunks"] for flow in s.flows))


def best_cpu_seconds(run: Callable[[], object], repeats: int = 15) -> float:
    """The least CPU time of some repeats, after one that warms up."""
    run()
    times = []
    for _ in range(repeats):
        start = process_time()
        run()
        times.append(process_time() - start)
    return min(times)
