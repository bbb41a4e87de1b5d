"""A sampler or an executor from outside is a class and a line."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from dimsweep import load
from dimsweep.engine import DimsweepError
from dimsweep.sweeper.run.executor import EXECUTORS, make_executor
from dimsweep.sweeper.run.executor.inline import InlineExecutor
from dimsweep.sweeper.run.loop import StudyPlan
from dimsweep.sweeper.search import SAMPLERS, Slopes, Task, Values
from dimsweep.sweeper.space.trials import Trial
from tests.support.studies import run


class HillClimb:
    """Moves a tenth of one dimension's bandwidth to the next, in turns."""

    learns_from_slopes = False
    prefetch = 1
    batch = None

    def __init__(self, task: Task) -> None:
        assert task.space.split is not None
        self._split, self._first = task.space.split, list(task.first)
        self._best: tuple[float, Trial] | None = None
        self._asked = 0

    def ask(self, n: int) -> list[Trial]:
        found = self._first[:n] if not self._asked else [self._step()]
        self._asked += len(found)
        return found

    def _step(self) -> Trial:
        assert self._best is not None
        split = np.array(self._best[1].bandwidth)
        d = self._asked % len(split)
        split[d - 1], split[d] = 0.9 * split[d - 1], split[d] + 0.1 * split[d - 1]
        return Trial(self._asked, "hill_climb", tuple(self._split.nearest(split).tolist()))

    def tell(
        self, trials: Sequence[Trial], values: Sequence[Values], slopes: Sequence[Slopes]
    ) -> None:
        for trial, value in zip(trials, values, strict=True):
            if value is not None and (self._best is None or value[0] < self._best[0]):
                self._best = value[0], trial


def test_a_sampler_from_outside(
    small: Callable[..., StudyPlan], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SAMPLERS, "hill_climb", HillClimb)
    plan = small("search.sampler=hill_climb", "search.batch=4", "budget.trials=12")
    assert plan.study.cells[0].sampler == "hill_climb"
    assert run(plan).done == 12
    rows = load(plan.folder).to_pandas()
    assert set(rows.state) == {"complete"}
    assert "hill_climb" in set(rows.origin)


def test_an_executor_from_outside(
    small: Callable[..., StudyPlan], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(EXECUTORS, "mine", InlineExecutor)
    plan = small("executor.mode=mine", "executor.timeout=null")
    cells = [cell.cell for cell in plan.cells]
    assert isinstance(make_executor(plan.config, cells, plan.schema), InlineExecutor)
    with pytest.raises(DimsweepError, match="did you mean 'mine'"):
        make_executor(plan.config.with_values({"executor.mode": "mien"}), cells, plan.schema)
