"""The default search: whose turn it is, what it may ask, and how soon it is there."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep import load
from dimsweep.sweeper.config.study import Search
from dimsweep.sweeper.objective import TIME
from dimsweep.sweeper.run.loop import StudyPlan
from dimsweep.sweeper.search import Task
from dimsweep.sweeper.search.relay import CombinedSampler
from dimsweep.sweeper.space.space import Choice, Parameter, Range, Space
from dimsweep.sweeper.space.split import SplitSpace
from dimsweep.sweeper.space.trials import Trial
from tests.support.examples import examples
from tests.support.studies import run

Small = Callable[..., StudyPlan]
SEARCH = Search(sampler="auto")
NATIVE = ("profile=native", "collective.chunks=64")


def splits(*constraints: str) -> SplitSpace:
    return SplitSpace(
        3,
        total=300e9,
        minimum=[1e9] * 3,
        maximum=[300e9] * 3,
        step=1e9,
        constraints=constraints,
    )


def new_sampler(
    space: SplitSpace, parameters: dict[str, Parameter] | None = None, first: Sequence[Trial] = ()
) -> CombinedSampler:
    return CombinedSampler(
        Task("descent+tpe", SEARCH, Space(space, parameters or {}), (TIME,), list(first))
    )


def time_and_slopes(trial: Trial, work: np.ndarray) -> tuple[float, list[float]]:
    bandwidth = np.array(trial.bandwidth)
    return float((work / bandwidth).sum()), (-work / bandwidth**2).tolist()


def search_on(
    sampler: CombinedSampler, n: int, measure: Callable[[Trial], tuple[float, list[float]]]
) -> tuple[list[Trial], list[float]]:
    """Run a search in batches of 8."""
    trials: list[Trial] = []
    values: list[float] = []
    while len(trials) < n:
        batch = sampler.ask(min(8, n - len(trials)))
        assert 1 <= len(batch) <= 8
        found = [measure(trial) for trial in batch]
        sampler.tell(batch, [[time] for time, _ in found], [slopes for _, slopes in found])
        trials += batch
        values += [time for time, _ in found]
    return trials, values


@examples(10)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([(), ("b0 >= b1",), ("b0 <= 4 * b1", "b1 <= 3*b2"), ("b0 + b1 == 200 GB/s",)]),
    st.floats(0, 0.3),
)
def test_it_keeps_to_the_rules_and_asks_for_nothing_twice(
    seed: int, constraints: tuple[str, ...], noise: float
) -> None:
    """Also of a time whose slopes mislead."""
    random, space = np.random.default_rng(seed), splits(*constraints)
    work = random.uniform(0, 1, 3) * 1e11

    def measure(trial: Trial) -> tuple[float, list[float]]:
        time, slopes = time_and_slopes(trial, work)
        return time * (1 + noise * random.random()), slopes

    trials, _ = search_on(new_sampler(space), 40, measure)
    assert [trial.number for trial in trials] == list(range(40))
    assert len({trial.bandwidth for trial in trials}) == 40
    for trial in trials:
        space.check(np.array(trial.bandwidth))


def test_both_take_part() -> None:
    trials, _ = search_on(
        new_sampler(splits()), 60, lambda p: time_and_slopes(p, np.array([9e10, 4e10, 1e10]))
    )
    origins = [trial.origin for trial in trials]
    assert origins.count("tpe") > 15
    assert origins.count("descent") > 15


def test_a_space_may_have_fewer_splits_than_trials() -> None:
    space = splits("b0 == 150 GB/s", "b1 >= 148 GB/s")  # two splits
    trials, _ = search_on(new_sampler(space), 30, lambda p: time_and_slopes(p, np.full(3, 1e10)))
    assert len({trial.bandwidth for trial in trials}) == 2


def test_other_keys_are_searched_too() -> None:
    """The descent takes them from the best trial, so the best split of the best keys is found."""
    parameters: dict[str, Parameter] = {
        "a": Choice((3, "fast", [1, 2])),
        "b": Range(1, 9, 1, False, True, ""),
        "c": Range(0.5, 2.0, None, True, False, "us"),
    }

    def measure(trial: Trial) -> tuple[float, list[float]]:
        keys: Any = trial.parameters
        assert set(keys) == {"a", "b", "c"}
        slow = (1 if keys["a"] == "fast" else 1.5) * (1 + abs(keys["b"] - 4) / 10)
        return time_and_slopes(trial, np.array([9e10, 4e10, 1e10]) * slow)

    trials, values = search_on(new_sampler(splits(), parameters), 100, measure)
    assert {trial.origin for trial in trials} == {"tpe", "descent"}
    best = trials[int(np.argmin(values))]
    assert best.parameters["a"] == "fast"
    assert best.parameters["b"] == 4
    assert min(values) == pytest.approx(1.2, rel=1e-3)  # (sqrt 9 + sqrt 4 + sqrt 1)^2 / 30


def test_a_value_beyond_the_grid_of_its_range_may_be_tried_first() -> None:
    steps = Range(1.0, 2.0, 0.3, False, False, "us")
    assert steps.nearest("5 us") == "2.0 us"
    first = Trial(0, "known", (100e9,) * 3, {"a": "2.0 us"})
    sampler = new_sampler(splits(), {"a": steps}, [first])
    trials, _ = search_on(sampler, 20, lambda p: time_and_slopes(p, np.full(3, 1e10)))
    assert trials[0] == first
    assert len({trial.parameters["a"] for trial in trials}) > 1


def test_it_goes_on_when_every_trial_fails() -> None:
    sampler = new_sampler(splits(), {"a": Choice((1, 2))})
    for _ in range(3):
        batch = sampler.ask(4)
        sampler.tell(batch, [None] * len(batch), [None] * len(batch))
        assert all(set(trial.parameters) == {"a"} for trial in batch)


@pytest.mark.parametrize("topology", ["3d", "4d"])
def test_the_best_known_in_40_trials(small: Small, topology: str) -> None:
    """The bound proves that nothing better is to be known than 0.1 % below."""
    plan = small(
        *NATIVE, "budget.trials=40", f"topology=libra_{topology}", f"cost=libra_{topology}"
    )
    run(plan)
    (cell,) = plan.study.cells
    assert cell.sampler == "descent+tpe"
    assert load(plan.folder).to_pandas().time_s.min() <= cell.bound * 1.001


def test_with_themis_it_comes_near_the_bound_though_slopes_mislead(small: Small) -> None:
    plan = small(*NATIVE, "collective.order=themis", "budget.trials=40")
    run(plan)
    (cell,) = plan.study.cells
    assert load(plan.folder).to_pandas().time_s.min() <= cell.bound * 1.002


@pytest.mark.parametrize(
    ("overrides", "sampler"),
    [
        (["objective=[time,cost]"], "tpe"),
        (["objective=cost"], "tpe"),
        (["fidelity=message", "topology.shape=Ring(2)_Ring(2)_Ring(2)_Ring(2)"], "tpe"),
        (
            [
                "space.bandwidth={total: null, max: null}",
                "+space.parameters={collective.chunks: {values: [1, 2]}}",
            ],
            "tpe",
        ),
        (["+space.parameters={collective.chunks: {values: [1, 2]}}"], "descent+tpe"),
        (["objective=perf_per_cost"], "descent+tpe"),
    ],
)
def test_it_is_tpe_where_splits_have_no_slopes(
    small: Small, overrides: list[str], sampler: str
) -> None:
    plan = small("search=auto", *overrides)
    assert plan.study.cells[0].sampler == sampler
