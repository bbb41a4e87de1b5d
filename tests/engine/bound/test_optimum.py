"""Exact convex optima with proven bounds: LIBRA's recorded ones, and random ones."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import Prices
from dimsweep.engine.bound import ClosedForm, LinearSpace, optimum, time_of
from dimsweep.engine.bound.conic import Cone, Multipliers, certify
from dimsweep.engine.errors import Code
from tests.support.examples import examples
from tests.support.golden import libra
from tests.support.refused import refused

GB = 1e9
TINY = 1e-9


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    return libra()


def form_of(recorded: dict[str, Any], name: str, dims: int) -> ClosedForm:
    inputs = recorded["inputs"][f"{name}/{dims}D"]
    rows = [collective["traffic_bytes_per_dim"] for collective in inputs["collectives"]]
    return ClosedForm(inputs["compute_ns"] * 1e-9, np.array(rows))


def prices_of(recorded: dict[str, Any], dims: int) -> Prices:
    unit = recorded["networks"][f"{dims}D"]["cost_usd_per_GBps"]
    return Prices(tuple(price / GB for price in unit))


def test_every_recorded_optimum(recorded: dict[str, Any]) -> None:
    assert len(recorded["cases"]) >= 40
    for case in recorded["cases"]:
        dims = case["dims"]
        form = form_of(recorded, case["workload"], dims)
        prices = None if case["objective"] == "perf" else prices_of(recorded, dims)
        # Recorded as ns, or ns * USD / 1e10.
        expected = case["best"]["objective"] * (1e-9 if prices is None else 10)
        found = optimum(form, LinearSpace.budget(dims, case["total_bw_GBps"] * GB), prices)
        assert found.value == pytest.approx(expected, rel=1e-9), case
        assert expected * (1 - 1e-8) <= found.bound <= expected * (1 + 1e-15), case
        assert found.bandwidth.sum() == pytest.approx(case["total_bw_GBps"] * GB, rel=1e-14)


def test_recorded_constraints(recorded: dict[str, Any]) -> None:
    (case,) = recorded["constrained"]
    rules = [
        ("total", [1, 1, 1, 1], "==", 1000 * GB),
        ("b0 == 500 GB/s", [1, 0, 0, 0], "==", 500 * GB),
        ("b0 >= b1", [1, -1, 0, 0], ">=", 0.0),
        ("b1 >= b2", [0, 1, -1, 0], ">=", 0.0),
        ("b2 + b3 == 200 GB/s", [0, 0, 1, 1], "==", 200 * GB),
    ]
    space = LinearSpace.build(np.zeros(4), np.full(4, np.inf), rules)
    found = optimum(form_of(recorded, "GPT_3", 4), space)
    assert found.value == pytest.approx(case["time_ns"] * 1e-9, rel=1e-10)
    assert found.bound <= case["time_ns"] * 1e-9
    assert found.gap < TINY
    assert found.bandwidth / GB == pytest.approx(case["bw"], rel=1e-5)


# --- by hand ------------------------------------------------------------------------------------


def test_one_class_by_its_formula() -> None:
    """b = B a / sum(a), T = K + sum(a) / B."""
    demand = np.array([8e9, 1e9, 1e9])
    found = optimum(ClosedForm(2.0, np.array([demand])), LinearSpace.budget(3, 10 * GB))
    assert found.bandwidth == pytest.approx(demand, rel=1e-6)
    assert found.value == pytest.approx(3.0, rel=1e-9)


def test_two_classes_apart_by_their_formula() -> None:
    """T = K + (sqrt(W_0) + sqrt(W_1))^2 / B."""
    form = ClosedForm(0.5, np.array([[9e9, 0.0], [0.0, 4e9]]))
    found = optimum(form, LinearSpace.budget(2, 5 * GB))
    assert found.bandwidth == pytest.approx([3 * GB, 2 * GB], rel=1e-5)
    assert found.value == pytest.approx(0.5 + 25 / 5, rel=1e-9)


def test_a_fixed_price_makes_a_budget_needless() -> None:
    """(K + a/b)(C0 + c b) is least at b = sqrt(a C0 / (K c)), where it is (sqrt + sqrt)^2."""
    form = ClosedForm(1.0, np.array([[4e9]]))
    space = LinearSpace.build([0.0], [np.inf])
    found = optimum(form, space, Prices((1e-9,), fixed=9.0))
    assert found.bandwidth == pytest.approx([6 * GB], rel=1e-5)
    assert found.value == pytest.approx((3 + 2) ** 2, rel=1e-9)
    assert found.value == pytest.approx(found.time * found.cost)


def test_a_dimension_that_nothing_uses() -> None:
    found = optimum(ClosedForm(1.0, np.array([[1e9, 0.0]])), LinearSpace.budget(2, GB))
    assert found.value == pytest.approx(2.0, rel=1e-8)
    assert found.gap < 1e-7


@pytest.mark.parametrize("demand", [np.zeros((0, 2)), np.zeros((3, 2))])
def test_nothing_to_send(demand: Any) -> None:
    found = optimum(ClosedForm(1.5, demand), LinearSpace.budget(2, GB))
    assert (found.value, found.time) == (1.5, 1.5)
    assert found.bound == pytest.approx(1.5, rel=1e-9)


def test_a_space_of_one_point() -> None:
    form = ClosedForm(0.0, np.array([[1e9, 2e9]]))
    space = LinearSpace.build([3 * GB, 1 * GB], [3 * GB, 1 * GB])
    for prices in (None, Prices((1e-9, 1e-9))):
        found = optimum(form, space, prices)
        assert found.bandwidth.tolist() == [3 * GB, 1 * GB]
        assert found.value == pytest.approx(2.0 * (1 if prices is None else 4), rel=1e-9)
        assert found.gap < 1e-7


# --- at random ----------------------------------------------------------------------------------


@st.composite
def problems(draw: st.DrawFn) -> tuple[ClosedForm, LinearSpace, Prices | None]:
    n = draw(st.integers(1, 5))
    size = st.floats(0.01, 100).map(lambda x: x * GB)
    row = st.lists(st.one_of(st.just(0.0), size), min_size=n, max_size=n)
    form = ClosedForm(draw(st.floats(0, 10)), np.array(draw(st.lists(row, min_size=1, max_size=6))))
    inside = np.array(draw(st.lists(size, min_size=n, max_size=n)))
    low = inside * draw(st.sampled_from([0.0, 0.5, 1.0]))
    high = inside * draw(st.sampled_from([1.0, 3.0, 1000.0]))
    rules: list[tuple[str, Any, str, float]] = []
    for i in range(draw(st.integers(0, 3))):
        whole = st.integers(-2, 3)
        coefficients = np.array(draw(st.lists(whole, min_size=n, max_size=n)), dtype=float)
        relation = draw(st.sampled_from(["<=", ">=", "=="]))
        slack = {"<=": 1.0, ">=": -1.0, "==": 0.0}[relation] * draw(size)
        rules.append((f"rule {i}", coefficients, relation, float(coefficients @ inside) + slack))
    price = draw(st.lists(st.floats(0.1, 60), min_size=n, max_size=n))
    fixed = draw(st.sampled_from([1.0, 1000.0]))
    prices = Prices(tuple(p / GB for p in price), fixed) if draw(st.booleans()) else None
    return form, LinearSpace.build(low, high, rules), prices


def obeys(space: LinearSpace, b: Any) -> bool:
    room = 1e-8 * max(float(np.abs(b).max()), float(np.abs(space.limits).max(initial=0.0)))
    excess = space.coefficients @ b - space.limits
    return bool(
        (b >= space.low).all()
        and (b <= space.high).all()
        and (excess <= room).all()
        and (np.abs(excess[space.equal]) <= room).all()
    )


@examples(50)
@given(problems())
def test_the_optimum_is_certified(problem: tuple[ClosedForm, LinearSpace, Prices | None]) -> None:
    form, space, prices = problem
    found = optimum(form, space, prices)
    assert obeys(space, found.bandwidth)
    assert found.bound <= found.value
    assert found.gap < 1e-7
    assert found.time == time_of(form, found.bandwidth)


@examples(50)
@given(st.integers(0, 2**32))
def test_poor_multipliers_make_a_certificate_loose_and_never_wrong(seed: int) -> None:
    """Random ones, against random points of the cone that they are for."""
    random = np.random.default_rng(seed)
    n, count = 4, 6
    z = random.uniform(0.1, 2, n)
    equal = random.normal(size=(2, n))
    less = random.normal(size=(3, n))
    less *= -np.sign(less @ z)[:, None]
    cone = Cone(equal, equal @ z, less, z * 0.01, z * 100)
    pieces, group = random.uniform(0, 1, (count, n)), np.arange(count) % 2
    multipliers = Multipliers(random.random(count), random.normal(size=2), random.random(3))
    maxima = [(pieces[group == g] @ (1 / z)).max() for g in range(2)]
    assert certify(pieces, group, cone, multipliers) <= sum(maxima)


# --- what is wrong ------------------------------------------------------------------------------


def test_conflicting_rules_are_named_and_no_others() -> None:
    rules = [
        ("total == 100 GB/s", [1, 1, 1], "==", 100 * GB),
        ("b0 >= b1", [1, -1, 0], ">=", 0.0),
        ("b1 >= 60 GB/s", [0, 1, 0], ">=", 60 * GB),
        ("b2 <= 5 GB/s", [0, 0, 1], "<=", 5 * GB),
    ]
    space = LinearSpace.build(np.zeros(3), np.full(3, np.inf), rules)
    names = ("total == 100 GB/s", "b0 >= b1", "b1 >= 60 GB/s", "b2 >= 0 B/s")
    with refused("space", "infeasible", *names) as caught:
        optimum(ClosedForm(0.0, np.ones((1, 3))), space)
    assert "b2 <= 5" not in caught.value.problem
    assert "b0 >= 0" not in caught.value.problem


def test_a_conflict_that_takes_three_rules() -> None:
    """None follows from bounds one by one: each bandwidth shall exceed the next, in a circle."""
    circle = [
        (f"b{i} > b{(i + 1) % 3}", np.eye(3)[i] - np.eye(3)[(i + 1) % 3], ">=", GB)
        for i in range(3)
    ]
    space = LinearSpace.build(np.zeros(3), np.full(3, 1000 * GB), circle)
    for prices in (None, Prices((1e-9,) * 3, fixed=1.0)):
        with refused("space", "infeasible", ": b0 > b1; b1 > b2; b2 > b0"):
            optimum(ClosedForm(1.0, np.ones((1, 3))), space, prices)


def test_no_bandwidth_where_it_is_used_takes_for_ever() -> None:
    form = ClosedForm(1.0, np.array([[1e9, 0.0]]))
    assert time_of(form, np.array([0.0, GB])) == np.inf
    assert time_of(form, np.array([GB, 0.0])) == 2.0


@pytest.mark.parametrize(
    ("low", "high", "rules", "place", "code"),
    [
        ([0.0], [1.0, 2.0], [], "space", "mismatch"),
        ([-1.0], [1.0], [], "space", "out-of-range"),
        ([0.0], [np.nan], [], "space", "out-of-range"),
        ([0.0], [1.0], [("r", [1.0], "<", 1.0)], "r", "unknown-name"),
        ([0.0], [1.0], [("r", [np.inf], "<=", 1.0)], "r", "out-of-range"),
    ],
)
def test_spaces_that_make_no_sense(low: Any, high: Any, rules: Any, place: str, code: Code) -> None:
    with refused(place, code):
        LinearSpace.build(low, high, rules)


@pytest.mark.parametrize(
    ("space", "prices", "place", "code", "data"),
    [
        (LinearSpace.build([1.0], [np.inf]), None, "space", "missing", "b0"),
        (LinearSpace.build([0.0], [1e9]), Prices((1.0,)), "space", "missing", "total"),
        (LinearSpace.budget(1, 1e9), Prices((-1.0,)), "prices", "out-of-range", ""),
        (LinearSpace.budget(1, 1e9), Prices((1.0, 1.0)), "prices", "mismatch", "2"),
        (LinearSpace.build([2e9], [1e9]), None, "space", "infeasible", "b0 >= 2 GB/s"),
    ],
)
def test_problems_without_an_optimum(
    space: LinearSpace, prices: Any, place: str, code: Code, data: str
) -> None:
    with refused(place, code, data):
        optimum(ClosedForm(1.0, np.array([[1e9]])), space, prices)
