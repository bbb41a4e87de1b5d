"""One network for several workloads."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import Prices
from dimsweep.engine.bound import (
    ClosedForm,
    LinearSpace,
    Measure,
    Weighing,
    optimum,
    portfolio,
    time_of,
)
from dimsweep.engine.errors import Code
from tests.support.examples import examples
from tests.support.refused import refused

GB = 1e9
A = ClosedForm(0.0, np.array([[9e9, 0.0]]))
B = ClosedForm(0.0, np.array([[0.0, 4e9]]))


def test_one_workload_is_its_own_optimum() -> None:
    space = LinearSpace.budget(2, GB, low=0.1 * GB)
    form = ClosedForm(1.0, np.array([[3e9, 1e9], [0.0, 2e9]]))
    for measure in Measure:
        found = portfolio({"only": form}, space, measure=measure)
        assert found.regret["only"] < 1e-9
        assert found.bandwidth == pytest.approx(optimum(form, space).bandwidth, rel=1e-4)


def test_weighted_time_is_that_of_a_longer_iteration() -> None:
    """Two iterations of A for one of B."""
    space = LinearSpace.budget(2, 5 * GB, low=0.1 * GB)
    found = portfolio({"a": A, "b": B}, space, weights={"a": 2.0, "b": 1.0})
    both = ClosedForm(0.0, np.array([[18e9, 0.0], [0.0, 4e9]]))
    assert found.value == pytest.approx(optimum(both, space).value / 3, rel=1e-9)
    assert found.bound <= found.value * (1 + 1e-15)


def test_the_worst_regret_is_shared() -> None:
    """A alone would take 4 of 5 GB/s, and so would B; the worst is least in the middle."""
    space = LinearSpace.budget(2, 5 * GB, low=GB)
    found = portfolio({"a": A, "b": B}, space, measure="worst_regret")
    assert found.bandwidth == pytest.approx([2.5 * GB] * 2, rel=1e-6)
    assert found.regret == pytest.approx({"a": 0.6, "b": 0.6}, rel=1e-6)
    assert found.value == pytest.approx(0.6, rel=1e-9)


@examples(30)
@given(st.data(), st.sampled_from(list(Measure)), st.booleans())
def test_no_split_beats_it(data: st.DataObject, measure: Measure, priced: bool) -> None:
    n, names = 3, ["a", "b", "c"]
    size = st.floats(0.1, 10).map(lambda x: x * GB)
    row = st.lists(st.one_of(st.just(0.0), size), min_size=n, max_size=n)
    models = {
        name: ClosedForm(
            data.draw(st.floats(0.1, 5)), np.array(data.draw(st.lists(row, min_size=1, max_size=3)))
        )
        for name in names
    }
    weights = {name: data.draw(st.floats(0.1, 3)) for name in names}
    level = data.draw(st.sampled_from([0.0, 0.5, 0.9]))
    prices = Prices((1e-9, 2e-9, 5e-9), 1.0) if priced else None
    space = LinearSpace.budget(n, 10 * GB, low=0.5 * GB)

    def measured(b: Any) -> float:
        cost = float(prices.cost(b)) if prices else 1.0
        values = {name: time_of(model, b) * cost for name, model in models.items()}
        share = np.array(list(weights.values())) / sum(weights.values())
        if measure is Measure.WEIGHTED_TIME:
            return float(share @ list(values.values()))
        losses = np.array([values[m] / found.separate_optima[m].value - 1 for m in names])
        if measure is Measure.WORST_REGRET:
            return float(losses.max())
        # CVaR by its other formula: the least eta + E[(loss - eta)+] / (1 - level).
        return min(float(eta + share @ np.maximum(losses - eta, 0) / (1 - level)) for eta in losses)

    found = portfolio(models, space, weights=weights, measure=measure, level=level, prices=prices)
    assert measured(found.bandwidth) == pytest.approx(found.value, rel=1e-7, abs=1e-9)
    assert found.value - found.bound <= 1e-7 * (1 + found.value)
    random = np.random.default_rng(0)
    for share in random.dirichlet(np.ones(n), 20):
        assert measured(0.5 * GB + share * 8.5 * GB) >= found.bound


@examples(50)
@given(st.data(), st.sampled_from(list(Measure)))
def test_the_greatest_mean_never_falls_with_a_ratio(data: st.DataObject, measure: Measure) -> None:
    """So bounds on the workloads' times are bounds on the measure, of many rows at a time."""
    ratio = st.one_of(st.floats(0.1, 9), st.just(np.inf))
    rows = np.array(data.draw(st.lists(st.lists(ratio, min_size=3, max_size=3), min_size=1)))
    weighing = Weighing.build(data.draw(st.permutations([0.0, 1.0, 2.5])), measure, 0.5)
    means = weighing.mean(rows)
    assert (np.isinf(means) == np.isinf(rows).any(axis=1)).all()
    assert (weighing.mean(rows * [1.0, 1.5, 1.0]) >= means * (1 - 1e-12)).all()
    for row, mean in zip(rows, means.tolist(), strict=True):
        if np.isfinite(row).all():
            assert mean == pytest.approx(float(weighing.weights(row) @ row))


@pytest.mark.parametrize(
    ("changes", "place", "code", "data"),
    [
        ({"weights": {"a": 1.0}}, "weights", "mismatch", "'b'"),
        ({"weights": {"a": -1.0, "b": 2.0}}, "weights", "out-of-range", ""),
        ({"weights": {"a": 0.0, "b": 0.0}}, "weights", "out-of-range", ""),
        ({"level": 1.0}, "level", "out-of-range", "1"),
    ],
)
def test_what_makes_no_sense(changes: dict[str, Any], place: str, code: Code, data: str) -> None:
    with refused(place, code, data):
        portfolio({"a": A, "b": B}, LinearSpace.budget(2, GB), **changes)
