"""Cuts that maximum flows find, against all cuts there are."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine.errors import Code
from dimsweep.engine.network.cuts import (
    Capacities,
    Side,
    find_minimum_side,
    find_narrowest_side,
    find_slowest_side,
    find_tight_sides,
)
from tests.support.examples import examples
from tests.support.graphs import random_network, star
from tests.support.refused import refused

SEEDS = st.integers(0, 10**6)


def all_sides(capacities: Capacities) -> Iterator[Side]:
    """Every side with some ranks and without others."""
    n = len(capacities.nodes)
    for inside in chain.from_iterable(combinations(range(n), k) for k in range(1, n)):
        side = np.zeros(n, np.bool_)
        side[list(inside)] = True
        if 0 < capacities.n_ranks(side) < len(capacities.ranks):
            yield side


@given(SEEDS)
@examples(20)
def test_no_cut_is_narrower(seed: int) -> None:
    network, ranks = random_network(seed, most=5)
    of = Capacities.from_network(network, ranks)
    cuts = [(side, of.cut(side)) for side in all_sides(of)]
    worst = find_slowest_side(of)
    assert of.cut(worst).ratio == max(cut.ratio for _, cut in cuts)
    narrow = of.cut(find_narrowest_side(of)).capacity
    assert narrow == min(cut.capacity for _, cut in cuts)
    for side in find_tight_sides(of, worst):
        assert of.cut(~side).ratio == of.cut(worst).ratio
    inside = of.ranks[:1]
    same = [cut.capacity for side, cut in cuts if of.n_ranks(side) == 1 and side[inside[0]]]
    assert of.cut(find_minimum_side(of, inside)).capacity == min(same)


def test_capacities_are_exact_where_floats_and_32_bits_are_not() -> None:
    of = Capacities.from_network(star([1e12 / 3, 0.1, 2.0**40]), range(3))
    assert of.cut(find_slowest_side(of)).capacity == Fraction(0.1)


def test_members_on_one_switch_are_twins() -> None:
    (alike,) = Capacities.from_network(star([1.0] * 4), range(4)).equivalent_ranks
    assert len(alike) == 4
    twins = Capacities.from_network(star([1.0, 1.0, 2.0]), range(3)).equivalent_ranks
    assert sorted(map(len, twins)) == [1, 2]


def test_twins_have_tight_sides_of_their_own() -> None:
    of = Capacities.from_network(star([1.0] * 4), range(4))
    assert len({side.tobytes() for side in find_tight_sides(of, find_slowest_side(of))}) == 4


@pytest.mark.parametrize(
    ("ranks", "code", "named"),
    [
        ([0], "invalid", "1"),
        ([0, 0], "invalid", "2"),
        ([0, 9], "unknown-name", "NPU 9"),
        ([-1, 0], "unknown-name", "NPU -1"),
    ],
)
def test_bad_groups_are_refused(ranks: list[int], code: Code, named: str) -> None:
    with refused("ranks", code, named):
        Capacities.from_network(star([1.0] * 4), ranks)
