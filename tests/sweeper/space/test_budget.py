"""A cost is what a split costs at most, a bisection what it has at least; both are exact, and as
good for bounds and searches as a total."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import DimsweepError
from dimsweep.engine.topology import bisection
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.ledger.stored import load
from dimsweep.sweeper.run.loop import StudyPlan
from dimsweep.sweeper.simulation.program import build_cluster
from dimsweep.sweeper.space.split import Spending, SplitSpace
from tests.support.examples import examples
from tests.support.refused import refused
from tests.support.studies import run

GB = 1e9
STEP = GB
Small = Callable[..., StudyPlan]


def spending(prices, limit):
    return Spending(np.array(prices, dtype=float) / GB, float(limit))


def splits(prices, limit, low, high=np.inf, constraints=()):
    n = len(prices)
    return SplitSpace(
        n,
        total=None,
        minimum=[low * GB] * n,
        maximum=[high * GB] * n,
        step=STEP,
        constraints=constraints,
        spending=spending(prices, limit),
    )


def listed(prices, limit, low, high):
    """The splits (P, D), in steps, that cost at most the limit, as the grid rounds prices."""
    row, units = spending(prices, limit).row(STEP)
    points = np.array(list(itertools.product(range(low, high + 1), repeat=len(prices))))
    return points[points @ np.array(row) <= units]


@examples(30)
@given(
    st.lists(st.floats(1.0, 9.0), min_size=1, max_size=3),
    st.integers(10, 60),
    st.integers(0, 2),
    st.sampled_from([12, 40]),
)
def test_every_split_that_costs_no_more_and_no_other(prices, limit, low, high):
    feasible = listed(prices, limit, low, high)
    try:
        space = splits(prices, limit, low, high)
    except DimsweepError as error:
        assert not len(feasible), error
        return
    assert space.n_free == np.linalg.matrix_rank(feasible - feasible[0])
    u = np.random.default_rng(0).random((100, space.n_free))
    decoded = np.rint(space.decode(u) / STEP).astype(int)
    assert {*map(tuple, decoded.tolist())} <= {*map(tuple, feasible.tolist())}
    for point in feasible[:: 1 + len(feasible) // 20] * STEP:
        assert (space.nearest(point) == point).all()
        assert (space.decode(space.encode(point)[None])[0] == point).all()
    assert (feasible @ np.array(prices) <= limit * (1 + 1e-12)).all()


@examples(20)
@given(st.lists(st.floats(1.0, 60.0), min_size=2, max_size=4), st.integers(10**4, 10**7))
def test_the_linear_space_has_every_split(prices, limit):
    space = splits(prices, limit, low=0)
    linear = space.linear()
    bandwidth = space.decode(np.random.default_rng(1).random((100, space.n_free)))
    assert (linear.coefficients @ bandwidth.T <= linear.limits[:, None] * (1 + 1e-12)).all()
    assert (bandwidth <= linear.high * (1 + 1e-12)).all()
    assert linear.limits * np.mean(prices) / GB == pytest.approx([limit])


@pytest.mark.parametrize(
    "constraints", [["b0 == b1"], ["b0 == 2*b2"], ["b1 + b2 == 30 GB/s"], ["b0 >= b1", "b1 >= b2"]]
)
def test_constraints_hold_beside_it(constraints):
    space = splits([2.0, 4.0, 57.4], 5000, low=1, constraints=constraints)
    bandwidth = space.decode(np.random.default_rng(0).random((300, space.n_free)))
    for one in bandwidth:
        space.check(one)
    cost = bandwidth @ spending([2.0, 4.0, 57.4], 5000).prices
    assert 4900 < cost.max() <= 5000
    assert len(np.unique(bandwidth, axis=0)) > 10


def test_sampling_is_even_over_the_splits():
    """Uniform over shares of the money, of which one is kept: the mean share is one in four."""
    prices = np.array([1.0, 5.0, 25.0])
    space = splits(prices, 1e6, low=0)
    bandwidth = space.decode(np.random.default_rng(0).random((2000, space.n_free)))
    shares = bandwidth * prices / GB / 1e6
    assert shares.mean(axis=0) == pytest.approx([1 / 4] * 3, abs=0.02)


@pytest.mark.parametrize(
    ("bandwidth", "where", "code"),
    [
        ({"total": None, "cost": "1 USD"}, "cost", "infeasible"),
        ({"cost": "9 MUSD"}, "cost", "conflict"),
        ({"total": None, "cost": "9 GB/s"}, "cost", "wrong-type"),
        ({"total": None, "cost": 9}, "cost", "wrong-type"),
        ({"bisection": "900 TB/s"}, "bisection", "conflict"),
        ({"total": None, "cost": "1 MUSD", "bisection": "50 TB/s"}, "bisection", "conflict"),
    ],
)
def test_wrong_budgets_are_refused(small: Small, bandwidth, where, code):
    words = [f"space.bandwidth.{key}={_quoted(value)}" for key, value in bandwidth.items()]
    with refused(f"space.bandwidth.{where}", code):
        small(*words)


def _quoted(value):
    return "null" if value is None else f"'{value}'" if isinstance(value, str) else str(value)


def test_prices_and_cuts_are_of_one_topology(small: Small):
    with refused("space.bandwidth.cost", "conflict", "topology.latency"):
        small(
            "space.bandwidth.total=null",
            "space.bandwidth.cost=9 MUSD",
            "+space.parameters={topology.latency: {values: [0 ns, 1 us]}}",
        )


def test_fixed_parts_are_paid_first(small: Small):
    with refused("space.bandwidth.cost", "out-of-range"):
        small("space.bandwidth.total=null", "space.bandwidth.cost=9 MUSD", "cost.npu=30000 USD")
    plan = small("space.bandwidth.total=null", "space.bandwidth.cost=50 MUSD", "cost.npu=10000 USD")
    run(plan)
    cost = load(plan.folder).to_pandas()["cost_usd"]
    assert 50e6 - 1000 < cost.max() <= 50e6


@pytest.mark.parametrize("objective", ["time", "perf_per_cost"])
@pytest.mark.parametrize("sampler", ["descent", "random"])
def test_the_bound_holds_at_equal_cost_and_is_nearly_reached(
    small: Small, objective: str, sampler: str
):
    plan = small(
        "space.bandwidth.total=null",
        "space.bandwidth.cost=9 MUSD",
        f"objective={objective}",
        f"search={sampler}",
    )
    run(plan)
    rows, (cell,) = load(plan.folder).to_pandas(), plan.cells
    assert cell.bound is not None
    assert {"equal", "proportional", "bound"} <= {*rows["origin"]}
    if objective == "time":
        assert cell.bound <= rows["time_s"].min() < 1.01 * cell.bound
    else:
        # The bound's split is not on the grid, and a random search does not go on from there.
        near = 0.99 if sampler == "descent" else 0.98
        assert near * cell.bound < rows["perf_per_cost"].max() <= cell.bound


def test_what_does_not_pay_is_kept(small: Small) -> None:
    """The best performance per cost is not bought with all that there is; time is."""
    words = ("space.bandwidth.total=null", "space.bandwidth.cost=40 MUSD", "search=descent")
    cost = {}
    for objective in ("time", "perf_per_cost"):
        plan = small(*words, f"objective={objective}", f"name={objective}")
        run(plan)
        rows = load(plan.folder).to_pandas()
        column, sign = ("time_s", 1) if objective == "time" else ("perf_per_cost", -1)
        best = rows.loc[(sign * rows[column]).idxmin()]
        cost[objective] = best["cost_usd"]
        assert (rows["cost_usd"] <= 40e6).all()
    assert cost["perf_per_cost"] < 0.5 * cost["time"]


def test_maxima_that_cost_less_are_all_that_is_bought(small: Small) -> None:
    plan = small(
        "space.bandwidth.total=null", "space.bandwidth.cost=9 MUSD", "space.bandwidth.max=2 GB/s"
    )
    run(plan)
    rows = load(plan.folder).to_pandas()
    best = rows.loc[rows["time_s"].idxmin()]
    assert best.filter(regex="^bandwidth_").tolist() == [2.0] * 4
    assert rows["cost_usd"].max() < 9e6


def test_equal_bisection_alone_is_one_design_a_network(small: Small):
    plan = small(
        "space.bandwidth.total=null",
        "space.bandwidth.bisection=100 TB/s",
        "+grid.topology=[libra_3d, libra_4d, one_switch]",
    )
    assert [cell.budget for cell in plan.cells] == [1, 1, 1]
    run(plan)
    rows = load(plan.folder).to_pandas()
    assert len(rows) == 3
    for name, (_, row) in zip(("libra_3d", "libra_4d", "one_switch"), rows.iterrows(), strict=True):
        topology = build_cluster(compose([f"topology={name}"]).config).topology
        found = row.filter(regex="bandwidth_").dropna().to_numpy(float) * GB
        step = bisection(topology, found) - bisection(topology, found - 0.1 * GB)
        assert 100e12 <= bisection(topology, found) < 100e12 + step


def test_bisection_beside_a_total(small: Small):
    plan = small("space.bandwidth.bisection=20 TB/s", "search=random")
    run(plan)
    rows = load(plan.folder).to_pandas()
    topology = build_cluster(plan.config).topology
    split = rows.filter(regex="bandwidth_").to_numpy(float) * GB
    assert (bisection(topology, split) >= 20e12 * (1 - 1e-12)).all()
    assert split.sum(axis=1) == pytest.approx(500 * GB)
