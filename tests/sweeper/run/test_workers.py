"""However many workers there are, and in whatever order they finish, the rows are the same."""

from collections.abc import Callable

import pytest

from dimsweep import load
from dimsweep.sweeper.run.loop import StudyPlan
from dimsweep.sweeper.search import relay
from tests.support.studies import Workers, run

Small = Callable[..., StudyPlan]


@pytest.mark.long
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
