"""Ranks and coordinates: numbers with one digit a dimension, dimension 0 the fastest."""

import itertools
import math

from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine.topology import coordinates as c
from dimsweep.engine.topology.coordinates import Group
from tests.support.examples import examples

SIZES = st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple)


def by_hand(sizes: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The coordinates of all ranks in their order."""
    return [tuple(reversed(p)) for p in itertools.product(*(range(n) for n in reversed(sizes)))]


@given(SIZES)
def test_every_rank_has_coordinates_of_its_own(sizes: tuple[int, ...]) -> None:
    places = by_hand(sizes)
    assert [c.coordinates_of(rank, sizes) for rank in range(len(places))] == places
    assert c.all_coordinates(sizes).tolist() == [list(place) for place in places]
    assert c.ranks_at(c.all_coordinates(sizes), sizes).tolist() == list(range(len(places)))


@given(SIZES, st.data())
def test_a_line_differs_in_one_coordinate(sizes: tuple[int, ...], data: st.DataObject) -> None:
    places = by_hand(sizes)
    dim = data.draw(st.integers(0, len(sizes) - 1))
    rank = data.draw(st.integers(0, len(places) - 1))

    def others(place: tuple[int, ...]) -> tuple[int, ...]:
        return place[:dim] + place[dim + 1 :]

    alike = [r for r, place in enumerate(places) if others(place) == others(places[rank])]
    assert list(c.line(rank, sizes, dim)) == alike
    assert sorted(itertools.chain(*c.lines(sizes, dim))) == list(range(len(places)))
    assert len(list(c.lines(sizes, dim))) == len(places) // sizes[dim]


@given(SIZES, st.data())
def test_offsets_lead_there_and_back(sizes: tuple[int, ...], data: st.DataObject) -> None:
    rank = st.integers(0, math.prod(sizes) - 1)
    here, there = data.draw(rank), data.draw(rank)
    offset = c.offset_between(here, there, sizes)
    assert c.wrap_offset(offset, sizes) == offset
    assert c.ranks_at_offset(offset, sizes)[here] == there
    assert c.ranks_at_offset(c.reverse_offset(offset, sizes), sizes)[there] == here


@examples(30)
@given(st.data())
def test_groups_share_all_digits_but_their_own(data: st.DataObject) -> None:
    parts = st.tuples(st.integers(1, 3), st.integers(1, 2), st.integers(1, 2))
    drawn = data.draw(st.lists(parts, min_size=1, max_size=2))
    sizes = tuple(p * stride * more for p, stride, more in drawn)
    group = Group(tuple(p for p, _, _ in drawn), tuple(stride for _, stride, _ in drawn))
    places = by_hand(sizes)

    def rest(place: tuple[int, ...]) -> list[tuple[int, int]]:
        return [(x % s, x // (s * p)) for x, (p, s, _) in zip(place, drawn, strict=True)]

    members = c.group_members(group, sizes)
    for rank, place in enumerate(places):
        alike = [r for r, other in enumerate(places) if rest(other) == rest(place)]
        assert sorted(members[rank].tolist()) == alike
        assert c.first_members(group, sizes)[rank] == alike[0]
        assert alike.index(rank) == c.member_numbers(group, c.all_coordinates(sizes))[rank]
        for dim in range(len(sizes)):
            along = c.members_along(group, rank, sizes, dim)
            assert list(along) == sorted(set(alike) & set(c.line(rank, sizes, dim)))
