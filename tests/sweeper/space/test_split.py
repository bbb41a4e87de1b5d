"""Splits of a bandwidth: always feasible, exact, invertible, and errors that name the rule."""

import itertools
import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.space.split import SplitSpace
from tests.support.examples import examples
from tests.support.refused import refused

GB = 1e9
STEP = 0.1 * GB
LIBRA = ["b0 == 500 GB/s", "b0 >= b1", "b1 >= b2", "b2 + b3 == 200 GB/s"]


def space(n_dims=4, *, total=1000 * GB, low=0.0, high=math.inf, step=STEP, constraints=()):
    return SplitSpace(
        n_dims,
        total=total,
        minimum=[low] * n_dims,
        maximum=[high] * n_dims,
        step=step,
        constraints=constraints,
    )


def cube(points, n_free, seed=0):
    """Random unit points, and corners among them."""
    rng = np.random.default_rng(seed)
    u = rng.random((points, n_free))
    u[: points // 4] = rng.integers(0, 2, (points // 4, n_free))
    return u


@dataclass
class Small:
    """A space small enough to list: its feasible points, in steps, by brute force."""

    n_dims: int
    total: int
    minimum: list[int]
    maximum: list[int]
    rules: list[tuple[list[int], str, int]]  # coefficients, relation, constant, in steps

    def feasible(self):
        points = np.array(
            [
                p
                for p in itertools.product(range(self.total + 1), repeat=self.n_dims)
                if sum(p) == self.total
            ]
        )
        good = ((points >= self.minimum) & (points <= self.maximum)).all(axis=1)
        compare = {"<=": np.less_equal, ">=": np.greater_equal, "==": np.equal}
        for coefficients, relation, constant in self.rules:
            good &= compare[relation](points @ coefficients, constant)
        return points[good]

    def build(self):
        texts = [
            " + ".join(f"{c}*b{i}" for i, c in enumerate(coefficients)).replace("+ -", "- ")
            + f" {relation} {constant / 10:g} GB/s"
            for coefficients, relation, constant in self.rules
        ]
        return SplitSpace(
            self.n_dims,
            total=self.total * STEP,
            step=STEP,
            constraints=texts,
            minimum=np.array(self.minimum) * STEP,
            maximum=np.array(self.maximum) * STEP,
        )


@st.composite
def small_spaces(draw, factors=(1,)):
    n_dims, total = draw(st.integers(1, 4)), draw(st.integers(3, 12))
    minimum = draw(st.lists(st.integers(0, 2), min_size=n_dims, max_size=n_dims))
    maximum = [draw(st.integers(low, total + 2)) for low in minimum]
    rules = []
    for _ in range(draw(st.integers(0, 2)) if n_dims > 1 else 0):
        i, j = draw(st.permutations(range(n_dims)))[:2]
        kind = draw(st.sampled_from(["order", "sum", "fixed", "ratio"]))
        coefficients = [0] * n_dims
        coefficients[i] = 1
        if kind != "fixed":
            coefficients[j] = 1 if kind == "sum" else -1
        if kind == "ratio":
            coefficients[j] *= draw(st.sampled_from(factors))
        relation = "==" if kind == "fixed" else draw(st.sampled_from(["<=", ">=", "=="]))
        constant = draw(st.integers(0, total)) if kind in ("sum", "fixed") else 0
        rules.append((coefficients, relation, constant))
    return Small(n_dims, total, minimum, maximum, rules)


@examples(50)
@given(small_spaces(factors=(1, 2, 3, 4)))
def test_small_spaces_are_covered_exactly(small):
    feasible = small.feasible()
    if len(feasible) == 0:
        with pytest.raises(DimsweepError):
            small.build()
        return
    split = small.build()
    unit = cube(60, split.n_free)
    decoded = split.decode(unit) / STEP
    one_by_one = np.array([split._decode_point(row) for row in unit.tolist()]) / STEP
    assert (decoded == one_by_one).all(), "many points at once are decoded as each alone"
    assert {tuple(p) for p in decoded} <= {tuple(p) for p in feasible.astype(float)}
    for point in feasible * STEP:
        split.check(point)
        assert (split.decode(split.encode(point)[None])[0] == point).all()


@pytest.mark.parametrize("constraints", [(), LIBRA, ["b0 >= b1", "b1 <= 3 * b2"]])
def test_usual_spaces_are_decoded_many_points_at_once(constraints):
    split = space(constraints=constraints)
    assert split._grid.is_convex
    unit = cube(200, split.n_free)
    one_by_one = np.array([split._decode_point(row) for row in unit.tolist()])
    assert (split.decode(unit) == one_by_one).all()


@examples(50)
@given(small_spaces(), st.integers(0, 2**32 - 1))
def test_nearest_beats_brute_force(small, seed):
    """Exactly for a wish that obeys the rules but for the grid, as one between feasible splits
    does; another is moved there first, which costs no more than rounding."""
    feasible = small.feasible()
    if len(feasible) == 0:
        return
    rng, split = np.random.default_rng(seed), small.build()
    inside = rng.dirichlet(np.ones(len(feasible))) @ feasible
    outside = rng.uniform(-1, 2, small.n_dims) * small.total
    for wish, rounding in ((inside, 1e-9), (outside, math.sqrt(small.n_dims))):
        found = split.nearest(wish * STEP) / STEP
        best = np.linalg.norm(feasible - wish, axis=1).min()
        assert np.linalg.norm(found - wish) <= best + rounding


@examples(40)
@given(st.integers(1, 7), st.integers(0, 2**32 - 1), st.sampled_from([1.0, 0.1 * GB, 12.5e6]))
def test_decoded_points_are_exact_and_invertible(n_dims, seed, step):
    rng = np.random.default_rng(seed)
    total = step * int(rng.integers(n_dims, 10**5))
    minimum = rng.random(n_dims) * total / n_dims / 2
    maximum = np.maximum(rng.random(n_dims) * total, 2 * total / n_dims)
    split = SplitSpace(n_dims, total=total, minimum=minimum, maximum=maximum, step=step)
    points = split.decode(cube(20, split.n_free, seed))
    assert (points == np.rint(points / step) * step).all()
    assert (points.sum(axis=1) == total).all()
    assert (points >= minimum).all() and (points <= maximum).all()
    for point in points:
        split.check(point)
        assert (split.decode(split.encode(point)[None])[0] == point).all()


def test_crowded_end_of_a_fine_grid_stays_invertible():
    split = space(8, step=1.0)
    for first in (0.0, 1.0, 2.0):  # bytes/s short of everything in the first dimension
        point = np.array([1000 * GB - first, first, 0, 0, 0, 0, 0, 0])
        assert (split.decode(split.encode(point)[None])[0] == point).all()


def test_plain_simplex_is_uniform():
    n_dims, n = 4, 10_000
    points = space(n_dims).decode(np.random.default_rng(1).random((n, n_dims - 1)))
    shares = points / (1000 * GB)
    variance = (n_dims - 1) / n_dims**2 / (n_dims + 1)  # of a flat Dirichlet
    assert shares.mean(axis=0) == pytest.approx(1 / n_dims, abs=5 * math.sqrt(variance / n))
    assert shares.var(axis=0) == pytest.approx(variance, rel=0.06)


def test_box_without_total_is_uniform():
    split = space(2, total=None, low=100 * GB, high=300 * GB)
    assert split.n_free == 2
    points = split.decode(np.random.default_rng(1).random((2000, 2)))
    assert points.mean(axis=0) == pytest.approx(200 * GB, rel=0.01)
    assert split.equal_split() == pytest.approx([200 * GB] * 2)
    assert points.min() >= 100 * GB and points.max() <= 300 * GB


def test_separate_sums_do_not_share_a_remainder():
    split = space(constraints=["b0 + b1 == 800 GB/s"])
    points = split.decode(np.random.default_rng(1).random((2000, split.n_free)))
    assert split.n_free == 2
    assert points.mean(axis=0) == pytest.approx(np.array([400, 400, 100, 100]) * GB, rel=0.02)


def test_libra_study():
    split = space(low=10 * GB, constraints=LIBRA)
    assert split.n_free == 1
    points = split.decode(cube(200, 1))
    assert (points[:, 0] == 500 * GB).all() and (points[:, 1] == 300 * GB).all()
    assert (points[:, 2] + points[:, 3] == 200 * GB).all()
    assert points[:, 2].min() == 10 * GB and points[:, 2].max() == 190 * GB
    for point in points[:20]:
        split.check(point)
    assert (split.equal_split() == np.array([500, 300, 100, 100]) * GB).all()


def test_ratio_equality_keeps_to_the_grid():
    split = space(3, constraints=["b0 == 1.5 * b1"])
    points = np.rint(split.decode(cube(200, split.n_free)) / STEP)
    assert (2 * points[:, 0] == 3 * points[:, 1]).all()
    assert (points.sum(axis=1) == 10_000).all()


def test_everything_fixed_takes_no_coordinate():
    for split in (
        space(2, constraints=["b0 == 300 GB/s"]),
        SplitSpace(
            2, total=1000 * GB, minimum=[300 * GB, 700 * GB], maximum=[math.inf] * 2, step=STEP
        ),
        SplitSpace(
            2, total=None, minimum=[300 * GB, 700 * GB], maximum=[300 * GB, 700 * GB], step=STEP
        ),
    ):
        assert split.n_free == 0
        expected = np.array([300, 700]) * GB
        assert (split.decode(np.empty((3, 0))) == [expected] * 3).all()
        assert split.encode(expected).shape == (0,)
        assert (split.nearest(np.zeros(2)) == expected).all()


def test_implied_equalities_take_no_coordinate():
    assert space(3, constraints=["b0 >= b1", "b1 >= b0"]).n_free == 1
    assert space(3, constraints=["b0 >= b1", "b1 >= b2", "b2 >= b0"], total=900 * GB).n_free == 0


def test_every_split_is_in_the_linear_space():
    ours = space(low=5 * GB, high=600.04 * GB, constraints=[*LIBRA[1:], "b3 <= 0.5*b2 + 1 GB/s"])
    linear = ours.linear()
    assert linear.names == ("total == 1 TB/s", *LIBRA[1:], "b3 <= 0.5*b2 + 1 GB/s")
    splits = ours.decode(cube(200, ours.n_free))
    assert ((splits >= linear.low) & (splits <= linear.high)).all()
    excess = splits @ linear.coefficients.T - linear.limits
    assert (excess <= 1e-3).all()
    assert (np.abs(excess[:, linear.equal]) <= 1e-3).all()
    assert linear.low.tolist() == [5 * GB] * 4
    assert linear.high.tolist() == [600 * GB] * 4


def test_equal_and_proportional_wishes():
    assert (space().equal_split() == [250 * GB] * 4).all()
    thirds = space(3).equal_split()
    assert thirds.sum() == 1000 * GB and np.ptp(thirds) <= STEP
    wish = np.array([4, 3, 2, 1]) * 100 * GB
    assert (space().nearest(wish) == wish).all()
    capped = space(high=300 * GB).nearest(np.array([1000, 0, 0, 0]) * GB)
    assert capped[0] == 300 * GB and np.ptp(capped[1:]) <= STEP


def test_bounds_are_rounded_inward():
    split = SplitSpace(1, total=None, minimum=[0.15 * GB], maximum=[0.99 * GB], step=STEP)
    assert split.decode(np.array([[0.0], [1.0]])).ravel() == pytest.approx([0.9 * GB, 0.2 * GB])


@pytest.mark.parametrize(
    ("text", "code", "data"),
    [
        ("b0 >= b7", "unknown-name", "b0 to b3"),
        ("b0*b1 <= 5 GB/s", "unsupported", ""),
        ("b0 / b1 <= 2", "unsupported", ""),
        ("b0 b1", "bad-syntax", ""),
        ("0 GB/s <= b0 <= 5 GB/s", "bad-syntax", "2"),
        ("b0 >= 5", "wrong-type", "5 GB/s"),
        ("b0 >= 5 parsecs", "wrong-type", "parsecs"),
        ("b0 >= ", "bad-syntax", "''"),
        ("2 b0 >= b1", "bad-syntax", "'2 b0'"),
        ("b0 < b1", "bad-syntax", ""),
        ("b0 >= (b1)", "bad-syntax", "'(b1)'"),
        ("b0 >= b0", "bad-syntax", ""),
    ],
)
def test_constraints_that_cannot_be_read(text, code, data):
    with refused("constraints[1]", code, repr(text), data):
        space(constraints=["b0 >= 0", text])


@pytest.mark.parametrize(
    "text", ["b1<=4*b2", "0 <= -1.5e0*b1 + 6 * b2", "2*b0 - 0.5*b1 <= 1 TB/s", ".5*b0+b1>=-1 GB/s"]
)
def test_constraints_that_can_be_read(text):
    split = space(constraints=[text])
    for point in split.decode(cube(50, split.n_free)):
        split.check(point)


@pytest.mark.parametrize(
    ("changes", "where", "code", "data"),
    [
        ({"step": 0}, "step", "out-of-range", "0 B/s"),
        ({"step": -STEP}, "step", "out-of-range", ""),
        ({"step": 0.5}, "step", "out-of-range", "0.5"),
        ({"total": 1000.04 * GB}, "total", "mismatch", "1 TB/s"),
        ({"total": -GB}, "total", "out-of-range", ""),
        ({"low": -GB}, "min", "out-of-range", "b0"),
        ({"low": 5 * GB, "high": 4 * GB}, "min", "conflict", "4 GB/s"),
        ({"low": 1.01 * GB, "high": 1.09 * GB}, "min", "infeasible", "b0"),
        ({"low": 300 * GB}, "min", "infeasible", "1.2 TB/s: 200 GB/s more"),
        ({"high": 200 * GB}, "max", "infeasible", "800 GB/s: 200 GB/s less"),
        ({"total": None}, "max", "missing", "b0"),
        ({"total": 1e25, "step": 1.0}, "step", "out-of-range", ""),
    ],
)
def test_numbers_that_make_no_space(changes, where, code, data):
    with refused(where, code, data):
        space(**changes)


def test_lengths_must_match():
    with refused("min", "mismatch", "1 values for 2 dimensions"):
        SplitSpace(2, total=GB, minimum=[0], maximum=[GB, GB], step=STEP)


def test_contradiction_names_the_first_constraint_that_empties_the_space():
    with refused("constraints[2]", "infeasible", "from -300 GB/s to -200 GB/s"):
        space(constraints=["b0 >= b1", "b0 <= 100 GB/s", "b1 >= 300 GB/s", "b2 >= b3"])


def test_equality_off_the_grid_says_so():
    with refused("constraints[0]", "infeasible", "100 MB/s"):
        space(constraints=["b0 == 333.33 GB/s"])


@pytest.mark.parametrize(
    ("point", "where", "code", "data"),
    [
        ([5, 300, 100, 595], "min", "infeasible", "5 GB/s"),
        ([500, 300, 10, 700], "max", "infeasible", "600 GB/s"),
        ([500, 300, 100, 101], "total", "infeasible", "1.001 TB/s"),
        ([300, 500, 100, 100], "constraints[0]", "infeasible", "300 GB/s"),
        ([500, 300, 50, 150], "constraints[1]", "infeasible", "100 GB/s (50 GB/s apart)"),
        ([500, 300, 200], "", "mismatch", "4"),
        ([500, 300, 200, math.nan], "", "mismatch", "nan"),
    ],
)
def test_check_names_the_broken_rule(point, where, code, data):
    split = space(low=10 * GB, high=600 * GB, constraints=["b0 >= b1", "b2 == 100 GB/s"])
    with refused(where, code, data):
        split.check(np.array(point) * GB)


def test_check_forgives_rounding():
    space(3).check(np.full(3, 1000 * GB / 3))


@pytest.mark.parametrize(
    "u", [np.zeros(3), np.zeros((2, 4)), np.full((1, 3), 1.1), np.full((1, 3), math.nan)]
)
def test_decode_refuses_what_is_not_in_the_cube(u):
    with pytest.raises(ValueError, match="unit points"):
        space().decode(u)


def test_many_meeting_constraints():
    texts = [
        "b1 + b3 >= b0",
        "b6 <= 0.7*b5",
        "2*b0 - b2 + 0.5*b6 <= 900 GB/s",
        "b3 + b6 >= b2",
        "2*b5 - b6 + 0.5*b3 <= 900 GB/s",
        "b0 <= 4*b3",
        "b3 + b5 <= 454 GB/s",
    ]
    split = space(7, low=10 * GB, constraints=texts)
    points = split.decode(cube(200, split.n_free))
    for point in points[::10]:
        split.check(point)
        assert (split.decode(split.encode(point)[None])[0] == point).all()
