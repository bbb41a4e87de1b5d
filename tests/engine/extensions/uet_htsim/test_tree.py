"""Fat trees as htsim has them: how many ways there are, and which links fail."""

import networkx as nx
import pytest

from dimsweep.engine.extensions.uet_htsim import Tree
from tests.support.refused import refused

TREES = [Tree.build(2), Tree.build(16), Tree.build(128), Tree(64, 16, 4, levels=2)]


@pytest.mark.parametrize("tree", TREES)
def test_ways_are_all_shortest_ones(tree: Tree) -> None:
    graph = nx.DiGraph([cable[:2] for cable in tree.cables()])
    assert set(graph) == {*range(tree.hosts), *tree.switches}
    assert nx.diameter(graph) == tree.diameter
    for target in range(1, tree.hosts):
        ways = {tuple(way) for way in nx.all_shortest_paths(graph, 0, target)}
        assert len(tree.ways(0, target)) == len(ways) and {*tree.ways(0, target)} == ways


def test_links_fail_from_cores_down_to_the_first_upper_switch() -> None:
    slow = [cable for cable in Tree.build(1024, failed=8).cables() if cable.slow]
    first_upper, first_core = 1024 + 128, 1024 + 128 + 128
    assert {cable.to for cable in slow} == {first_upper}
    assert {cable.node for cable in slow} == {first_core + 8 * j for j in range(8)}


@pytest.mark.parametrize("hosts", [0, 3, 27, 100])
def test_other_numbers_of_hosts_are_refused(hosts: int) -> None:
    with refused("", "out-of-range", f"{hosts} hosts"):
        Tree.build(hosts)
