"""The same trials of a millisecond through dimsweep, through plain Optuna and through Ray Tune.

Random search over three numbers each time, so that what differs is what it takes to ask for a
trial, to run it and to keep its result.  Ray Tune is that of the extra ``bench``; it runs fewer,
because each takes it a second and more.
"""

import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.driver import FreeExecutor
from benchmarks.study import sweep
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.config.study import Executor
from dimsweep.sweeper.questions.plan import plan_study
from dimsweep.sweeper.run.executor.cluster import connect
from dimsweep.sweeper.run.executor.evaluate import Job, Outcome

TRIALS, OF_TUNE = 1000, 6
_SECONDS = 1e-3  # of a trial


class _SlowExecutor(FreeExecutor):
    """Takes a millisecond for a trial, in this process."""

    def collect(self) -> Outcome | None:
        job: Job = self._jobs[0]
        for _ in job.trials:
            _trial({})
        return super().collect()


def main() -> None:
    """Print trials/s of the three, and how many times those of the other two dimsweep has."""
    rates = {"dimsweep": _dimsweep(), "Optuna": _optuna(), "Ray Tune": _tune()}
    best = rates["dimsweep"]
    for name, rate in rates.items():
        ratio = f", {best / rate:,.1f} times fewer than dimsweep" if rate != best else ""
        print(f"{name}: {rate:,.1f} trials/s{ratio}", flush=True)


def _trial(parameters: dict[str, float]) -> dict[str, float]:
    end = time.perf_counter() + _SECONDS
    while time.perf_counter() < end:
        pass
    return {"loss": sum(parameters.values())}


def _dimsweep() -> float:
    """With every row in the ledger."""
    with tempfile.TemporaryDirectory() as results:
        study = ["study=libra_gpt3_4d", "search=random", f"budget.trials={TRIALS}"]
        plan = plan_study(compose([*study, "what_if=null", f"results={results}"]))
        executor = _SlowExecutor(plan)
        start = time.perf_counter()
        sweep(plan, executor)
        return TRIALS / (time.perf_counter() - start)


def _optuna() -> float:
    """In memory, and nothing kept."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    start = time.perf_counter()
    study.optimize(
        lambda trial: _trial({f"x{i}": trial.suggest_float(f"x{i}", 0, 1) for i in range(3)})[
            "loss"
        ],
        n_trials=TRIALS,
    )
    return TRIALS / (time.perf_counter() - start)


def _tune() -> float:
    """With OptunaSearch, on as many workers as there are cores."""
    cluster = connect(Executor())
    import optuna
    from ray import tune
    from ray.tune.search.optuna import OptunaSearch

    search: Any = OptunaSearch(sampler=optuna.samplers.RandomSampler(seed=0))
    with tempfile.TemporaryDirectory() as results:
        tuner = tune.Tuner(
            _trial,
            param_space={f"x{i}": tune.uniform(0, 1) for i in range(3)},
            tune_config=tune.TuneConfig(
                search_alg=search, num_samples=OF_TUNE, metric="loss", mode="min"
            ),
            run_config=tune.RunConfig(storage_path=str(Path(results)), verbose=0),
        )
        start = time.perf_counter()
        tuner.fit()
        rate = OF_TUNE / (time.perf_counter() - start)
    cluster.close()
    return rate
