"""The least time for each amount of money, and what bandwidth is worth at an optimum."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import Prices, lower, run_batch
from dimsweep.engine.bound import ClosedForm, LinearSpace, frontier, optimum
from tests.support.examples import examples
from tests.support.libra import program_of
from tests.support.programs import clusters, training
from tests.support.refused import refused

GB = 1e9


@examples(15)
@given(st.data(), st.integers(0, 2**32))
def test_no_run_is_below_the_front(data: st.DataObject, seed: int) -> None:
    cluster = data.draw(clusters(max_npus=512))
    program = lower(data.draw(training(cluster.topology.sizes)), cluster)
    random, n = np.random.default_rng(seed), len(program.bandwidth)
    space = LinearSpace.build(program.bandwidth / 4, program.bandwidth * 4)
    prices = Prices(tuple(random.uniform(1e-9, 5e-9, n).tolist()), fixed=float(random.random()))
    front = frontier(program, space, prices, n=8)
    assert (np.diff(front.cost) > 0).all()
    assert (front.bound <= front.value).all()
    points = space.low * 16 ** random.random((40, n))
    points[:2] = space.low, space.high
    seconds = run_batch(program, points).time / 1e12
    assert (front.minimum_time(prices.cost(points)) <= seconds).all()
    # Its own splits cost what they may, and come as close as the model of the time does.
    assert (prices.cost(front.bandwidth) <= front.cost * (1 + 1e-9)).all()


def test_between_known_amounts_it_is_close() -> None:
    """A cheaper and a dearer front of the same curve."""
    program = program_of("GPT_3", 4)
    space = LinearSpace.build(np.full(4, GB), np.full(4, 500 * GB))
    prices = Prices((8e-6, 16e-6, 16e-6, 235e-6))
    coarse, fine = (frontier(program, space, prices, n=n) for n in (32, 100))
    inside = fine.cost[(fine.cost > coarse.cost[0]) & (fine.cost < coarse.cost[-1])]
    low, high = coarse.minimum_time(inside), fine.minimum_time(inside)
    assert (low <= high * (1 + 1e-9)).all()
    assert (low >= 0.97 * high).all()
    # Less money than the cheapest known amount is no faster, and more than the last no slower.
    ends = coarse.minimum_time(np.array([0.5 * coarse.cost[0], 2 * coarse.cost[-1]]))
    assert ends[0] >= coarse.bound[0]
    assert ends[1] == coarse.bound[-1]


def test_a_total_of_one_price_has_one_cost() -> None:
    space, prices = LinearSpace.budget(4, 100 * GB, low=GB), Prices((1e-9,) * 4)
    front = frontier(program_of("GPT_3", 4), space, prices)
    assert front.cost.tolist() == pytest.approx([100])


def test_rules_that_conflict_are_told() -> None:
    space = LinearSpace.budget(4, GB, low=GB)
    with refused("space", "infeasible"):
        frontier(program_of("GPT_3", 4), space, Prices((1e-9,) * 4))


@examples(30)
@given(st.data(), st.booleans())
def test_what_bandwidth_is_worth_is_what_a_larger_total_saves(
    data: st.DataObject, priced: bool
) -> None:
    """The envelope theorem: the optimum falls by the common slope when the total grows."""
    size = st.floats(0.1, 10).map(lambda x: x * GB)
    rows = data.draw(st.lists(st.lists(size, min_size=3, max_size=3), min_size=1, max_size=3))
    form, total = ClosedForm(1.0, np.array(rows)), 10 * GB
    space = LinearSpace.budget(3, total)
    found = optimum(form, space)
    more = replace(space, limits=space.limits * (1 + 1e-5))
    saved = (optimum(form, more).time - found.time) / (1e-5 * total)
    assert found.per_bandwidth == pytest.approx([saved] * 3, rel=1e-3)
    if priced:  # a slope of the time itself: below the time everywhere, equal at the optimum
        prices = Prices((1e-9, 2e-9, 5e-9), 1.0)
        found = optimum(form, space, prices)
        others = total * np.random.default_rng(0).dirichlet(np.ones(3), 50)
        line = found.time + (others - found.bandwidth) @ found.per_bandwidth
        assert (form.time(others) >= line - 1e-6 * found.time).all()
