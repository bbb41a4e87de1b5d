"""Routes through FRED switches, checked by walking the links of the switch itself."""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise, permutations

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine.extensions.wafer import (
    Flow,
    FredSwitch,
    Remedy,
    Route,
    Schedule,
    UnroutableError,
    schedule,
)
from tests.support.refused import refused


@cache
def links_of(switch: FredSwitch) -> frozenset[tuple[object, object]]:
    return frozenset(switch.graph().edges)


def check_routes(switch: FredSwitch, flows: Sequence[Flow], routes: Sequence[Route]) -> None:
    """Each flow has a way of its own from each of its inputs to each of its outputs, over links
    that the switch has, and nothing but that."""
    there = links_of(switch)
    assert [route.flow for route in routes] == list(flows)
    seen: set[tuple[object, object]] = set()
    for route in routes:
        assert route.links <= there, "links that are not there"
        assert not route.links & seen, "a link of another flow"
        seen |= route.links
        way = nx.DiGraph(list(route.links))
        sources = {node for node in way if not way.in_degree(node)}
        ends = {node for node in way if not way.out_degree(node)}
        assert sources == {("port in", port) for port in route.flow.inputs}
        assert ends == {("port out", port) for port in route.flow.outputs}
        assert all(ends <= nx.descendants(way, source) for source in sources)


def check_schedule(switch: FredSwitch, flows: Sequence[Flow], found: Schedule) -> None:
    for routes in found.rounds:
        check_routes(switch, [route.flow for route in routes], routes)
    if not (found.decomposed or found.n_moved):
        names = sorted(route.flow.name for routes in found.rounds for route in routes)
        assert names == sorted(flow.name for flow in flows)


def set_partitions(n: int) -> Iterator[list[list[int]]]:
    """All ways to divide n ports into groups."""
    if not n:
        yield []
        return
    for groups in set_partitions(n - 1):
        yield [*groups, [n - 1]]
        for i in range(len(groups)):
            yield [*groups[:i], [*groups[i], n - 1], *groups[i + 1 :]]


def integer_partitions(n: int, most: int) -> Iterator[list[int]]:
    if not n:
        yield []
    for first in range(min(n, most), 0, -1):
        for rest in integer_partitions(n - first, first):
            yield [first, *rest]


def consecutive(sizes: Sequence[int]) -> list[Flow]:
    bounds = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
    return [Flow.from_ports(range(a, b)) for a, b in pairwise(bounds)]


# --- the whole of small switches, and the twenty ports of the wafer -------------------------------


@pytest.mark.parametrize("ports", range(2, 8))
def test_any_groups_of_a_small_switch_pass_at_once(ports: int) -> None:
    switch = FredSwitch(ports, 3)
    for groups in set_partitions(ports):
        flows = [Flow.from_ports(group) for group in groups]
        check_routes(switch, flows, switch.route(flows))


@pytest.mark.parametrize("ports", range(2, 7))
def test_two_middle_switches_pass_any_permutation(ports: int) -> None:
    switch = FredSwitch(ports, 2)
    for targets in permutations(range(ports)):
        flows = [
            Flow(frozenset({i}), frozenset({target}), str(i)) for i, target in enumerate(targets)
        ]
        check_routes(switch, flows, switch.route(flows))


def test_any_partition_of_twenty_ports_passes_at_once_on_consecutive_ports() -> None:
    """All 627 of them, the largest group first."""
    switch = FredSwitch(20, 3)
    partitions = list(integer_partitions(20, 20))
    assert len(partitions) == 627
    for sizes in partitions:
        flows = consecutive(sizes)
        routes = switch.route(flows)
        assert sum(len(route.links) for route in routes) == len(
            {link for route in routes for link in route.links}
        )
        if len(sizes) % 4 == 1:  # the full walk takes a few milliseconds each
            check_routes(switch, flows, routes)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=40), st.sampled_from([2, 3]))
def test_consecutive_groups_pass_at_once_on_any_switch(sizes: list[int], middles: int) -> None:
    switch = FredSwitch(max(2, sum(sizes)), middles)
    flows = consecutive(sizes)
    check_routes(switch, flows, switch.route(flows))


@given(st.integers(2, 40), st.integers(0, 10**6))
def test_two_middle_switches_pass_any_permutation_of_a_large_switch(ports: int, seed: int) -> None:
    order = sorted(range(ports), key=lambda i: hash((seed, i)))
    flows = [Flow(frozenset({i}), frozenset({order[i]}), str(i)) for i in range(ports)]
    switch = FredSwitch(ports, 2)
    check_routes(switch, flows, switch.route(flows))


GROUPS = st.lists(st.integers(0, 19), min_size=20, max_size=20).map(
    lambda colours: [
        [port for port, colour in enumerate(colours) if colour == each]
        for each in sorted(set(colours))
    ]
)


@given(GROUPS, st.sampled_from([Remedy.SERIALISE, Remedy.DECOMPOSE, Remedy.PLACE]))
def test_any_groups_of_twenty_ports_pass_in_the_end(
    groups: list[list[int]], remedy: Remedy
) -> None:
    switch, flows = FredSwitch(20, 3), [Flow.from_ports(group) for group in groups]
    check_schedule(switch, flows, schedule(switch, flows, remedy))


@pytest.mark.parametrize(
    "degrees", [(1, 1, 20), (3, 2, 3), (2, 2, 5), (20, 1, 1), (5, 1, 4), (2, 5, 2), (4, 5, 1)]
)
def test_the_groups_of_a_parallel_plan_pass_at_once(degrees: tuple[int, int, int]) -> None:
    """Tensor, pipeline, data: ranks are numbered in this order."""
    switch, (mp, pp, dp) = FredSwitch(20, 3), degrees
    for stride, size in ((1, mp), (mp, pp), (mp * pp, dp)):
        flows = [
            Flow.from_ports(range(first, first + stride * size, stride))
            for first in range(mp * pp * dp)
            if first // stride % size == 0
        ]
        check_routes(switch, flows, switch.route(flows))


# --- what cannot be coloured ----------------------------------------------------------------------

# Every two of these four groups share a microswitch, so each needs a middle switch of its own.
MEETING = [(0, 2, 4), (1, 6, 8), (3, 7, 10), (5, 9, 11)]


def test_groups_that_all_meet_are_refused_by_name() -> None:
    flows = [Flow.from_ports(group) for group in MEETING]
    with pytest.raises(UnroutableError, match=r"4 flows .* 3 middle switches .*\{0, 2, 4\}"):
        FredSwitch(12, 3).route(flows)
    check_routes(FredSwitch(12, 4), flows, FredSwitch(12, 4).route(flows))
    with pytest.raises(UnroutableError):
        schedule(FredSwitch(12, 3), flows, Remedy.REFUSE)


@pytest.mark.parametrize(
    ("remedy", "rounds", "serialised", "decomposed", "moves"),
    [
        (Remedy.SERIALISE, 2, 1, 0, False),
        (Remedy.DECOMPOSE, 1, 0, 1, False),
        (Remedy.PLACE, 1, 0, 0, True),
    ],
)
def test_a_remedy_is_counted(
    remedy: Remedy, rounds: int, serialised: int, decomposed: int, moves: bool
) -> None:
    switch, flows = FredSwitch(12, 3), [Flow.from_ports(group) for group in MEETING]
    found = schedule(switch, flows, remedy)
    check_schedule(switch, flows, found)
    counts = len(found.rounds), len(found.serialised), len(found.decomposed), found.n_moved > 0
    assert counts == (rounds, serialised, decomposed, moves)
    assert not found.conflict_free


def test_what_can_pass_is_left_alone() -> None:
    switch, flows = FredSwitch(12, 3), consecutive([3, 4, 5])
    for remedy in Remedy:
        found = schedule(switch, flows, remedy)
        assert found.conflict_free and len(found.rounds) == 1


def test_flows_that_are_no_groups_cannot_move_or_become_rings() -> None:
    flows = [Flow(frozenset(g), frozenset({11 - p for p in g}), str(g)) for g in MEETING]
    with pytest.raises(UnroutableError):
        schedule(FredSwitch(12, 3), flows, Remedy.PLACE)
    found = schedule(FredSwitch(12, 3), flows, Remedy.SERIALISE)
    check_schedule(FredSwitch(12, 3), flows, found)


# --- the switch -----------------------------------------------------------------------------------


def test_the_switch_is_built_recursively() -> None:
    """FRED_3(4): two microswitches a stage around three FRED_3(2)."""
    assert FredSwitch(2, 3).n_microswitches() == 1
    assert FredSwitch(4, 3).n_microswitches() == 2 + 2 + 3
    assert FredSwitch(5, 3).n_microswitches() == 3 + 3 + 3 * FredSwitch(3, 3).n_microswitches()
    graph = FredSwitch(20, 3).graph()
    ports = [node for node in graph if str(node[0]).startswith("port")]
    assert len(graph) - len(ports) == FredSwitch(20, 3).n_microswitches()
    assert max(graph.in_degree(n) for n in graph) == max(graph.out_degree(n) for n in graph) == 3


@pytest.mark.parametrize(
    ("ports", "middles", "place"),
    [(1, 3, "ports"), (10**6, 3, "ports"), (20, 1, "middles"), (20, 99, "middles")],
)
def test_a_senseless_switch_is_refused(ports: int, middles: int, place: str) -> None:
    with refused(place, "out-of-range"):
        FredSwitch(ports, middles)


def test_a_group_larger_than_the_switch_is_refused_by_name() -> None:
    with refused("network.wafer", "out-of-range", "{18, 19, 20}", "port 20"):
        FredSwitch(20, 3).route([Flow.from_ports(range(18, 21))])
    with refused("network.wafer", "conflict", "{0, 1} and {1, 2}", "port 1"):
        FredSwitch(20, 3).route([Flow.from_ports([0, 1]), Flow.from_ports([1, 2])])
    with refused("network.wafer", "missing", "inputs"):
        FredSwitch(20, 3).route([Flow.from_ports([])])
