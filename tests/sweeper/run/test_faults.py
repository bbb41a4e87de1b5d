"""Faults of the environment cost no trial: it is tried again, at once and at the next run."""

import itertools
import os
import signal
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import ArrayLike

from dimsweep import load
from dimsweep.engine import Measures, Runner
from dimsweep.sweeper.ledger.rows import FAILED, LOST, Cell
from dimsweep.sweeper.run.executor import make_executor
from dimsweep.sweeper.run.executor.evaluate import Job, Outcome, _failure_state
from dimsweep.sweeper.run.executor.ray import RayExecutor, _Seat
from dimsweep.sweeper.run.executor.setup import Setup
from dimsweep.sweeper.run.executor.worker import Limits, Luggage, Worker
from dimsweep.sweeper.run.loop import StudyPlan
from dimsweep.sweeper.space.space import Trial
from tests.support.processes import LOOPBACK, environment, listening, offspring
from tests.support.refused import refused
from tests.support.studies import run

Small = Callable[..., StudyPlan]
SIMULATE = "dimsweep.sweeper.run.executor.evaluate.Runner.batch"
BATCH = Runner.batch


def failing(error: Exception, at: float, times: int) -> Callable[..., object]:
    """A kernel that fails as often as ``times`` where the first bandwidth is ``at``."""
    left = iter(range(times))

    def simulate(
        runner: Runner, bandwidth: ArrayLike, latency: ArrayLike | None = None
    ) -> Measures:
        if (np.atleast_2d(bandwidth)[:, 0] == at).any() and next(left, None) is not None:
            raise error
        return BATCH(runner, bandwidth, latency)

    return simulate


def first_bandwidth(plan: StudyPlan, trial: int) -> float:
    run(plan)
    return float(load(plan.folder).column("bandwidth_0_GBps")[trial].as_py()) * 1e9


@pytest.mark.long
@pytest.mark.parametrize("error", [MemoryError(), OSError(116, "Stale file handle")])
@pytest.mark.parametrize("sampler", ["random", "tpe"])
def test_a_trial_lost_to_the_environment_is_tried_again(
    error: Exception, sampler: str, small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once in the batch, and then alone, it is lost: the row says so; the next run mends it, and
    the study is the undisturbed one, whatever its search had proposed without that trial."""
    whole = small(f"search={sampler}", results="whole")
    at = first_bandwidth(whole, 13)
    plan = small(f"search={sampler}", results="faulty")

    monkeypatch.setattr(SIMULATE, failing(error, at, times=2))  # in the batch, and alone
    assert run(small(f"search={sampler}", results="once")).lost == 0, "tried again at once"

    monkeypatch.setattr(SIMULATE, failing(error, at, times=100))
    assert run(plan).lost == 1
    rows = load(plan.folder).to_pandas()
    assert rows.state.tolist() == ["complete"] * 13 + [LOST] + ["complete"] * 26
    assert type(error).__name__ in rows.error[13]

    monkeypatch.setattr(SIMULATE, BATCH)
    progress = run(plan)
    assert progress.lost == 0 and progress.engine_seconds > 0
    assert load(plan.folder).equals(load(whole.folder))
    assert run(plan).engine_seconds == 0


def test_an_exception_on_one_trial_does_not_fail_its_batch(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = first_bandwidth(small("search=random", results="whole"), 13)
    plan = small("search=random")
    monkeypatch.setattr(SIMULATE, failing(RuntimeError("boom"), at, times=100))
    assert run(plan).failed == 1
    rows = load(plan.folder).to_pandas()
    assert rows.trial[rows.state == "failed"].tolist() == [13]


def test_failed_trials_are_tried_again_only_if_asked(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = small("search=random", results="whole")
    at = first_bandwidth(whole, 13)
    plan = small("search=random")
    monkeypatch.setattr(SIMULATE, failing(RuntimeError("boom"), at, times=100))
    run(plan)
    monkeypatch.setattr(SIMULATE, BATCH)
    assert run(plan).failed == 1, "what failed by itself would fail again"
    assert run(plan, retry_failed=True).failed == 0
    assert load(plan.folder).equals(load(whole.folder))


def test_the_inline_executor_says_that_it_has_no_limit(small: Small) -> None:
    plan = small("executor=inline", "executor.timeout=5 s")
    with refused("executor.timeout", "unsupported", "executor=local"):
        make_executor(plan.config, [cell.cell for cell in plan.cells], plan.schema)


class Faulty(Worker):
    """A worker that hangs over trial 13 without ever coming back to Python, dies over trial 17, and
    whose trial 19 wants 8 GB."""

    def __init__(
        self, cells: Sequence[Cell], schema: pa.Schema, limits: Limits, luggage: Luggage | None
    ) -> None:
        super().__init__(cells, schema, limits, luggage)
        self._real = self._evaluator.evaluate
        self._evaluator.evaluate = self._faulty  # type: ignore[method-assign]
        self._run = self._evaluator._run
        self._evaluator._run = self._hungry  # type: ignore[method-assign]

    def _hungry(
        self, runner: Any, program: Any, trials: list[Trial], *rest: Any, **fold: Any
    ) -> Any:
        if any(trial.number == 19 for trial in trials):
            np.ones(10**9)
        return self._run(runner, program, trials, *rest, **fold)

    def _faulty(self, job: Job) -> Outcome:
        numbers = {trial.number for trial in job.trials}
        if 13 in numbers:
            sum(itertools.repeat(0, 10**15))
        if 17 in numbers:
            os.kill(os.getpid(), signal.SIGKILL)
        return self._real(job)


class Counting(RayExecutor):
    """Starts faulty workers, and counts them."""

    worker = Faulty
    started = 0

    def _start(self, seat: _Seat) -> None:
        self.started += 1
        super()._start(seat)


def _is_private() -> None:
    """The Ray that this process has started hears nobody else, and asks for a token."""
    daemons = [pid for pid in offspring(os.getpid()) if "RAY_AUTH_MODE" in environment(pid)]
    assert listening(daemons) and listening(daemons) <= LOOPBACK
    assert {environment(pid)["RAY_AUTH_MODE"] for pid in daemons} == {"token"}
    tokens = {environment(pid).get("RAY_AUTH_TOKEN") for pid in daemons} - {None}  # not workers
    assert [len(token) for token in tokens if token] == [64]


@pytest.mark.long
@pytest.mark.xdist_group("ray")  # one Ray at a time: two cores
def test_trials_that_hang_or_kill_their_worker_or_eat_memory_are_found(small: Small) -> None:
    """In a piece of all 40 trials, which take milliseconds, the first two cost two workers each;
    none of the others, which wait for workers to start, takes longer than the limit."""
    words = ["search=random", "search.batch=40"]
    whole = small(*words, results="whole")
    run(whole)
    plan = small(
        *words,
        "executor.actors=1",
        "executor.timeout=2 s",
        "executor.memory=1 GB",
        results="faulty",
    )
    cells = [cell.cell for cell in plan.cells]
    executor = Counting(Setup(plan.config.executor, cells, plan.schema, print))
    executor._piece[0] = 40
    try:
        _is_private()
        progress = run(plan, executor)
    finally:
        executor.close()
    rows = load(plan.folder).to_pandas()
    assert progress.lost == 3, rows[rows.state == LOST][["trial", "error"]].to_string()
    assert rows.trial[rows.state == LOST].tolist() == [13, 17, 19]
    assert "longer than 2 s (executor.timeout)" in rows.error[13]
    assert "worker died" in rows.error[17]
    assert "executor.memory allows no more" in rows.error[19]
    assert (rows.state == "complete").sum() == 37
    assert executor.started == 1 + 1 + 1 + 1, "at first, after the piece, 13 and 17"
    run(plan)
    assert load(plan.folder).equals(load(whole.folder))


def test_errors_that_caused_one_another_in_a_circle_have_an_end() -> None:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    assert _failure_state(first) == FAILED
    second.__cause__ = MemoryError()
    assert _failure_state(first) == LOST
