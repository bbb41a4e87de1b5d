"""The descent: its model against brute force, its steps against the rules, its answers."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep import load
from dimsweep.engine import Prices
from dimsweep.engine.errors import Code
from dimsweep.sweeper.config.study import Search
from dimsweep.sweeper.objective import OBJECTIVES, TIME
from dimsweep.sweeper.run.loop import StudyPlan
from dimsweep.sweeper.search import Task
from dimsweep.sweeper.search.descent import CutModel, DescentSampler
from dimsweep.sweeper.space.space import Space
from dimsweep.sweeper.space.split import SplitSpace
from dimsweep.sweeper.space.trials import Trial
from tests.support.examples import examples
from tests.support.refused import refused
from tests.support.studies import run

SEARCH = Search(sampler="descent")
PRICES = Prices((2e-7, 5e-7, 1e-6), fixed=1000.0)


def splits(*constraints: str, total: float | None = 300e9, step: float = 1e9) -> SplitSpace:
    return SplitSpace(
        3,
        total=total,
        minimum=[1e9] * 3,
        maximum=[300e9] * 3,
        step=step,
        constraints=constraints,
    )


class Landscape:
    """A time that is the highest of several paths, as a program's is; at a kink any is told."""

    def __init__(self, seed: int, n_paths: int) -> None:
        random = np.random.default_rng(seed)
        self.fixed = random.uniform(0, 1, n_paths)
        self.work = random.uniform(0, 1, (n_paths, 3)) ** 3 * 1e11

    def paths(self, bandwidth: np.ndarray) -> np.ndarray:
        return self.fixed + (self.work / bandwidth[..., None, :]).sum(axis=-1)

    def time(self, bandwidth: np.ndarray) -> np.ndarray:
        return self.paths(bandwidth).max(axis=-1)

    def slopes(self, bandwidth: np.ndarray) -> np.ndarray:
        return -self.work[self.paths(bandwidth).argmax()] / bandwidth**2


def all_splits(space: SplitSpace) -> np.ndarray:
    steps = np.arange(1, 299)
    b0, b1 = (axis.ravel() for axis in np.meshgrid(steps, steps))
    found = np.column_stack([b0, b1, 300 - b0 - b1])[b0 + b1 < 300] * 1e9
    linear = space.linear()
    rows, limits = linear.inequalities()
    inside = ((found >= linear.low - 1) & (found <= linear.high + 1)).all(axis=1)
    return found[inside & (found @ rows.T <= limits + 1).all(axis=1)]


@examples(20)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.booleans())
def test_the_model_finds_its_least_split(seed: int, n_cuts: int, priced: bool) -> None:
    """Cuts of one convex time, so that none is lowered: brute force knows the least of them."""
    space, land = splits("b0 >= b1"), Landscape(seed, n_cuts)
    model = CutModel(space.linear(), PRICES if priced else None)
    every = all_splits(space)
    known = every[np.random.default_rng(seed).integers(0, len(every), n_cuts)]
    for centre in known:
        model.add(centre, float(land.time(centre)), land.slopes(centre))
    radius = 0.7
    near = every[(np.abs(np.log(every / centre)) <= radius).all(axis=1)]
    told = land.paths(known).argmax(axis=1)
    promised = land.paths(near)[:, told].max(axis=1) * (PRICES.cost(near) if priced else 1)
    found = model.minimum(centre, radius)
    assert model.promise(found) <= promised.min() * (1 + 1e-6)
    assert (np.abs(np.log(found / centre)) <= radius + 1e-6).all()
    space.check(space.nearest(found))
    assert found.sum() == pytest.approx(300e9)
    assert found[0] >= found[1] - 1e3


def test_one_path_is_solved_at_once() -> None:
    """Of K + sum of a / b the best split is in proportion to the square roots of a."""
    space, work = splits(), np.array([9e10, 4e10, 1e10])
    model, centre = CutModel(space.linear(), None), np.full(3, 100e9)
    model.add(centre, 1 + float((work / centre).sum()), -work / centre**2)
    assert model.minimum(centre, 2.0) == pytest.approx([150e9, 100e9, 50e9], rel=1e-4)


def test_a_cut_above_a_time_that_was_seen_is_lowered() -> None:
    model = CutModel(splits().linear(), None)
    one, other = np.full(3, 100e9), np.array([200e9, 50e9, 50e9])
    model.add(one, 2.0, np.array([0.0, -1e-11, 0.0]))  # promises 3 s at the other
    assert model.promise(other) == pytest.approx(3.0)
    model.add(other, 2.5, np.zeros(3))
    assert model.promise(other) == pytest.approx(2.5)


def descend(space: SplitSpace, land: Landscape, n: int, objective: str) -> list[float]:
    sampler = DescentSampler(
        Task("descent", SEARCH, Space(space, {}), (OBJECTIVES[objective],), prices=PRICES)
    )
    found = []
    for _ in range(n):
        (trial,) = sampler.ask(1)
        bandwidth = np.array(trial.bandwidth)
        space.check(bandwidth)
        time = float(land.time(bandwidth))
        value = time if objective == "time" else 1 / (time * float(PRICES.cost(bandwidth)))
        sampler.tell([trial], [[value]], [land.slopes(bandwidth).tolist()])
        found.append(value)
    return found


def test_the_region_shrinks_where_nothing_is_gained_and_grows_where_promises_are_kept() -> None:
    """A kink: what the cut of a path promises, another path does not keep."""
    sampler = DescentSampler(Task("descent", SEARCH, Space(splits(), {}), (TIME,)))
    even, step = [100e9] * 3, [-1e-11, 0.0, 1e-11]

    def told(*values: float) -> list[float]:
        radii = []
        for value in values:
            sampler.tell(sampler.ask(1), [[value]], [step])
            radii.append(sampler.state(n_known=0)["radius"])
        return radii

    (first,) = sampler.ask(1)
    assert list(first.bandwidth or ()) == even
    sampler.tell([first], [[2.0]], [step])
    assert told(3.0) == [0.6], "what was promised was not kept"
    assert sampler.state(n_known=0)["best"] == [2.0, even]
    sampler._radius = 0.25
    promised = sampler.ask(1)
    ((number, value),) = sampler.state(n_known=0)["promised"]
    assert (number, value) == (promised[0].number, pytest.approx(value)) and value < 2.0
    sampler.tell(promised, [[value]], [step])
    assert sampler.state(n_known=0)["radius"] == 0.5, "all of it was kept"


def test_the_region_shrinks_where_nothing_is_promised_until_it_begins_anew() -> None:
    """At a kink: whatever is tried is as good as the best, so the model knows of nothing better."""
    sampler = DescentSampler(Task("descent", SEARCH, Space(splits(), {}), (TIME,)))
    radii = []
    for _ in range(9):
        trials = sampler.ask(1)
        sampler.tell(trials, [[1.0]], [[0.0] * 3])
        radii.append(sampler.state(n_known=0)["radius"])
    assert radii == [1.0, *(0.5**i for i in range(1, 7)), 0.5, 0.25]


CONSTRAINTS = [
    (),
    ("b0 >= b1",),
    ("b0 <= 4 * b1", "b1 <= 3*b2"),
    ("b0 + b1 == 200 GB/s",),
]


@pytest.mark.parametrize("objective", ["time", "perf_per_cost"])
@pytest.mark.parametrize("constraints", CONSTRAINTS)
def test_it_finds_the_best_split(objective: str, constraints: tuple[str, ...]) -> None:
    """Of landscapes of two to six paths; in some others a kink stops it further away."""
    space, gaps = splits(*constraints), []
    every = all_splits(space)
    for seed in range(2, 5):
        land = Landscape(seed, n_paths=seed + len(constraints))
        times, found = land.time(every), descend(space, land, 40, objective)
        if objective == "time":
            gaps.append(min(found) / times.min() - 1)
        else:
            gaps.append((1 / (times * PRICES.cost(every))).max() / max(found) - 1)
    assert max(gaps) <= 1e-3
    assert min(gaps) <= 1e-9, "some are found exactly"


def test_equalities_may_say_the_same_twice() -> None:
    space, land = splits("b0 + b1 == 200 GB/s", "b2 == 100 GB/s"), Landscape(1, 3)
    assert min(descend(space, land, 20, "time")) <= land.time(all_splits(space)).min() * 1.001


def test_without_a_total_it_may_have_everything() -> None:
    space, land = splits(total=None), Landscape(2, 3)
    best = float(land.time(np.full(3, 300e9)))
    assert min(descend(space, land, 10, "time")) == pytest.approx(best)


def test_it_goes_on_when_trials_fail_and_when_none_is_left() -> None:
    space = splits("b0 == 150 GB/s", "b1 >= 148 GB/s")  # two splits
    sampler = DescentSampler(Task("descent", SEARCH, Space(space, {}), (TIME,)))
    for value, slope in ((None, None), (1.0, [0.0] * 3), (1.0, [0.0] * 3), (0.0, [0.0] * 3)):
        trials = sampler.ask(3)
        sampler.tell(trials, [None if value is None else [value]] * 3, [slope] * 3)
    assert len({trial.bandwidth for trial in trials}) <= 2


def test_the_closed_forms_optimum_in_a_dozen_trials(small: Callable[..., StudyPlan]) -> None:
    """LIBRA's optimum is 722.41 ms; chunks add what they add there."""
    plan = small("search=descent", "collective.chunks=256", "budget.trials=12")
    run(plan)
    assert load(plan.folder).to_pandas().time_s.min() < 0.72241 * 1.001


def test_batches_for_many_workers(small: Callable[..., StudyPlan]) -> None:
    plan = small("search=descent", "search.batch=8", "collective.chunks=256")
    run(plan)
    assert load(plan.folder).to_pandas().time_s.min() < 0.72241 * 1.001


@pytest.mark.parametrize(
    ("overrides", "where", "code", "data"),
    [
        (["objective=[time,cost]"], "sampler", "unsupported", "time, cost"),
        (["objective=cost"], "sampler", "unsupported", "cost"),
        (
            ["+space.parameters={collective.chunks: {values: [1, 2]}}"],
            *("sampler", "unsupported", "space.parameters"),
        ),
        (["+search.options.a=1"], "options", "unknown-key", "descent"),
        (
            ["fidelity=message", "topology.shape=Ring(2)_Ring(2)_Ring(2)_Ring(2)"],
            *("sampler", "unsupported", "fidelity=phase"),
        ),
    ],
)
def test_unsupported_searches_are_refused(
    small: Callable[..., StudyPlan], overrides: list[str], where: str, code: Code, data: str
) -> None:
    with refused(f"search.{where}", code, data):
        small("search=descent", *overrides)


def test_rows_of_a_network_with_other_dimensions_are_refused() -> None:
    space = Space(splits(), {})
    sampler = DescentSampler(Task("descent", SEARCH, space, (TIME,)))
    for split, slope in (((1e9,) * 4, (0.0,) * 4), ((1e9,) * 3, (0.0,) * 2)):
        with refused("", "mismatch", "3 dimensions"):
            sampler.tell([Trial(0, "other", split)], [(1.0,)], [slope])
    state = CutModel(splits().linear(), None).state() | {"points": [[1.0, 2.0]]}
    with refused("", "mismatch", "3 dimensions"):
        CutModel(splits().linear(), None).restore(state)
