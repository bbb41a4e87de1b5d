"""However many workers there are, and in whatever order they finish, the rows are the same."""

import random
from collections.abc import Callable

import pytest

from dimsweep import load
from dimsweep.sweeper.run.executor.evaluate import Outcome
from dimsweep.sweeper.run.executor.inline import InlineExecutor
from dimsweep.sweeper.run.executor.setup import Setup
from dimsweep.sweeper.search import relay
from dimsweep.sweeper.study.plan import StudyPlan
from tests.support.studies import run

Small = Callable[..., StudyPlan]


class Workers(InlineExecutor):
    """As ``n`` workers do, of which any may be the next that finishes a piece of three trials."""

    _SLICE = 3

    def __init__(self, plan: StudyPlan, n: int) -> None:
        cells = [cell.cell for cell in plan.cells]
        super().__init__(Setup(plan.config.executor, cells, plan.schema, print))
        self.n_workers, self._chance = n, random.Random(n)

    def collect(self) -> Outcome | None:
        under_way = min(len(self._jobs), self.n_workers)
        self._jobs.insert(0, self._jobs.pop(self._chance.randrange(under_way)))
        return super().collect()


@pytest.mark.parametrize(
    "sampler", ["auto", "random", "qmc", "grid", "tpe", "cmaes", "nsga2", "descent"]
)
def test_1_2_and_8_workers_give_the_same_rows(
    small: Small, sampler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "HANDOVER", 30)  # auto is all of its searches here
    monkeypatch.setattr("dimsweep.sweeper.search.choose.HANDOVER", 30)
    words = [f"search={sampler}", "collective.chunks=1", "budget.trials=60", "executor=inline"]
    whole = small(*words, results="1")
    run(whole)
    for n in (2, 8):
        plan = small(*words, results=str(n))
        run(plan, Workers(plan, n))
        assert load(plan.folder).equals(load(whole.folder))
