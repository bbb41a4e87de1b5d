"""What the benchmarks share: the main study's program, GPT-3 on the 4D network, sweeps in this
process, measurements, and what was recorded of others."""

from collections.abc import Callable
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from time import process_time

import numpy as np

from dimsweep.engine import Program
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.ledger.ledger import Ledger
from dimsweep.sweeper.run.executor import Executor
from dimsweep.sweeper.run.loop import StudyPlan, run_sweep
from dimsweep.sweeper.simulation.program import build_program

_RECORDED = Path(__file__).resolve().parents[2] / "shared" / "golden"


def recorded(name: str, what: str) -> Path | None:
    """Recorded results beside this checkout; where there are none, that is printed."""
    found = _RECORDED / name
    if not found.exists():
        print(f"there is no {found}, which holds {what}")
    return found if found.exists() else None


def sweep(plan: StudyPlan, executor: Executor) -> None:
    """Run a study, or continue it."""
    with Ledger(plan.folder, plan.study, plan.schema) as ledger:
        run_sweep(plan, ledger, executor, lambda _: None)


def peak_megabytes() -> float:
    """The most memory that this process has had so far."""
    return getrusage(RUSAGE_SELF).ru_maxrss / 1024


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
