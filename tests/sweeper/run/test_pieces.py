"""What workers are given at once, and which piece a worker's death is put down to."""

from collections.abc import Callable

import pyarrow.compute as pc
import pytest

from dimsweep import load
from dimsweep.sweeper.ledger.rows import LOST
from dimsweep.sweeper.run.executor import ray
from dimsweep.sweeper.run.loop import StudyPlan
from tests.support.studies import run
from tests.support.toy_ray import Call, toy_executor

Small = Callable[..., StudyPlan]
RANDOM = ("search=random", "search.batch=40")


def test_pieces_grow_fourfold_up_to_the_largest(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trials that take no time would otherwise make one piece of all that waits."""
    monkeypatch.setattr(ray, "_LARGEST_PIECE", 6)
    plan = small(*RANDOM, "budget.trials=120")
    with toy_executor(plan, n_nodes=1) as (executor, toy):
        toy.seconds = 1e-9
        run(plan, executor)
    sizes = [len(job.trials) for _, job in toy.jobs]
    assert sizes[0] == 1 and max(sizes) == 6 and sum(sizes) == 120


@pytest.mark.parametrize("seed", range(4))
def test_the_piece_that_a_worker_died_over_is_tried_again_alone_and_no_other(
    seed: int, small: Small
) -> None:
    """Others wait at the same worker; each that were blamed in its place would cost one more."""
    plan, deaths = small(*RANDOM, results=str(seed)), list[list[int]]()

    def kill(call: Call) -> None:
        numbers = [] if call.job is None else call.job.trials.number.tolist()
        if 17 in numbers:
            call.actor.alive = False
            deaths.append(numbers)

    with toy_executor(plan, seed=seed) as (executor, toy):
        toy.before = kill
        assert run(plan, executor).lost == 1
    assert len(deaths) == 2 and deaths[1] == [17]
    rows = load(plan.folder)
    lost = rows.filter(pc.equal(rows["state"], LOST))
    assert lost["trial"].to_pylist() == [17]
    others = [number for _, job in toy.jobs for number in job.trials.number.tolist()]
    assert sorted(others) == [trial for trial in range(40) if trial != 17], "each once"
