"""Trees that use all a network can carry: they span, and no link carries more than it can."""

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import Topology
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.network import Network, build_network
from dimsweep.engine.network.forest import Forest, build_forest, build_group_shape
from dimsweep.engine.network.generators import DragonflyNetwork, DragonflyPlus, ZCube
from tests.support.examples import examples
from tests.support.graphs import (
    cable,
    dgx,
    empty,
    leaf_spine,
    random_network,
    star,
    torus,
)
from tests.support.refused import refused


def faults(network: Network, ranks: list[int], forest: Forest, *, backwards: bool) -> list[str]:
    """What is wrong with trees; exactly."""
    found, load, units = [], Counter[int](), Counter[int]()
    for tree in forest.trees:
        units[tree.root] += tree.n
        into: Counter[int] = Counter({tree.root: tree.n})
        for branch in tree.branches:
            if into[branch.parent] != tree.n:
                found.append(f"{branch} is not below what is there")
            into[branch.child] += branch.n
            load.update(dict.fromkeys(branch.way, branch.n))
            ends = (branch.child, branch.parent) if backwards else (branch.parent, branch.child)
            links = [network.links[i] for i in branch.way]
            devices = [links[0].source, *(link.target for link in links)]
            if (devices[0], devices[-1]) != ends or devices[1:-1] != [x.source for x in links[1:]]:
                found.append(f"{branch} takes another way")
        if into != Counter(dict.fromkeys(ranks, tree.n)):
            found.append(f"a tree of {tree.root} does not span its group")
    if units != Counter(dict.fromkeys(ranks, forest.k)):
        found.append("not all roots have as many trees")
    for i, n in load.items():
        if n * forest.unit > Fraction(network.links[i].bandwidth):
            found.append(f"{network.links[i].name} carries more than it can")
    return found


@given(st.integers(0, 10**9), st.booleans())
@examples(25)
def test_trees_span_and_fit(seed: int, backwards: bool) -> None:
    network, ranks = random_network(seed, most=8)
    both_ways = all((link.target, link.source) in network.number for link in network.links)
    try:
        forest = build_forest(network, ranks, backwards=backwards)
    except DimsweepError:
        assert not both_ways
        return
    assert not faults(network, ranks, forest, backwards=backwards)
    assert forest.time >= forest.bound
    if both_ways:
        assert forest.time <= forest.bound * Fraction(101, 100)


@pytest.mark.long
@pytest.mark.parametrize(
    "network",
    [
        pytest.param(star([1e9] * 8), id="switch"),
        pytest.param(dgx(1, switches=4), id="DGX"),
        pytest.param(dgx(2), id="2 DGX"),
        pytest.param(dgx(4), id="4 DGX"),
        pytest.param(dgx(2, rail=400e9 / 32, inside=466e9), id="2 DGX, slow rails"),
        pytest.param(ZCube(n=4, bandwidth=25e9).build(), id="ZCube"),
        pytest.param(torus(4, 4), id="torus"),
        pytest.param(torus(3, 3, 3), id="torus of 3 dimensions"),
        pytest.param(DragonflyPlus(hosts=2, leaves=2, spines=2, groups=3).build(), id="Dragonfly+"),
        pytest.param(DragonflyNetwork(hosts=1).build(), id="Dragonfly"),
        pytest.param(leaf_spine(4, 4, 2), id="Clos, oversubscribed"),
    ],
)
def test_trees_are_as_fast_as_the_cuts_allow(network: Network) -> None:
    ranks = list(range(network.n_npus))
    forest = build_forest(network, ranks)
    assert not faults(network, ranks, forest, backwards=False)
    assert forest.bound <= forest.time <= forest.bound * Fraction(101, 100)


def test_a_group_inside_a_node_does_not_go_through_others_npus() -> None:
    network = dgx(2)
    forest = build_forest(network, range(8))
    own = {network.links[i].target for tree in forest.trees for b in tree.branches for i in b.way}
    assert own == {*range(8), "NVSwitch 0.0"}
    assert forest.time == Fraction(7, 450 * 10**9)


def test_a_group_that_others_lie_between_goes_through_them() -> None:
    network = torus(6)
    forest = build_forest(network, [0, 2, 4])
    assert not faults(network, [0, 2, 4], forest, backwards=False)
    assert forest.time == forest.bound


def test_groups_that_are_alike_share_their_trees() -> None:
    """Nodes, and rows of a torus; rows that are not quite alike have their own."""
    network = dgx(2, rail=10e9)
    forests = [build_forest(network, range(n, n + 8)) for n in (0, 8)]
    assert not faults(network, list(range(8, 16)), forests[1], backwards=False)
    likes = [build_group_shape(dict(enumerate(network.links)), range(n, n + 8)) for n in (0, 8)]
    assert likes[0].joined == likes[1].joined and likes[0].links != likes[1].links
    graph = torus(4, 4).graph.copy()
    links = dict(enumerate(Network(graph).links))
    rows = [build_group_shape(links, range(n, n + 4)).joined for n in (0, 4)]
    assert rows[0] == rows[1]
    graph.edges[4, 5]["bandwidth"] *= 2
    links = dict(enumerate(Network(graph).links))
    assert build_group_shape(links, range(4)).joined != build_group_shape(links, range(4, 8)).joined


def test_a_clos_that_is_not_oversubscribed_has_trees_of_one_level() -> None:
    network = leaf_spine(8, 8, 4, up=100e9)
    forest = build_forest(network, range(64))
    assert all(branch.parent == tree.root for tree in forest.trees for branch in tree.branches)
    assert not faults(network, list(range(64)), forest, backwards=False)
    assert forest.time == forest.bound


def test_too_many_npus_for_trees_of_several_levels_are_refused() -> None:
    with refused("collective.algorithms", "too-many", "192"):
        build_forest(torus(8, 8, 3), range(192))


def test_trees_of_a_dimension_keep_to_its_links() -> None:
    """The members 0 and 4 of a ring of 4 pass by others, of the ring and not of the switches."""
    topology = Topology.build("Switch(2)_Ring(4)", bandwidth=[8e9, 1e9], latency=[0, 0])
    network = build_network(topology)
    forest = build_forest(network, (0, 4), dim=1)
    used = {network.links[i].dim for tree in forest.trees for b in tree.branches for i in b.way}
    assert used == {1}
    assert forest.time == Fraction(1, 10**9)


def test_surplus_that_a_switch_cannot_pass_on_is_left_out() -> None:
    graph = empty(2)
    cable(graph, 0, 1, 1e9)
    for a, b, bandwidth in ((0, "switch", 5e9), ("switch", 1, 1e9)):
        graph.add_edge(a, b, bandwidth=bandwidth, latency=0)
    forest = build_forest(Network(graph), [0, 1])
    assert forest.time == forest.bound == Fraction(1, 10**9)
