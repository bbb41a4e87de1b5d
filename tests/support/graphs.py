"""Networks as graphs, small ones built by hand and random ones."""

import itertools
import random
from collections.abc import Sequence

import networkx as nx

from dimsweep.engine.network.graph import Network
from dimsweep.engine.topology import Node


def cable(graph: "nx.DiGraph", a: Node, b: Node, bandwidth: float, latency: int = 0) -> None:
    """Two links between two devices, one each way."""
    graph.add_edge(a, b, bandwidth=bandwidth, latency=latency)
    graph.add_edge(b, a, bandwidth=bandwidth, latency=latency)


def empty(n_npus: int) -> "nx.DiGraph":
    graph = nx.DiGraph()
    graph.add_nodes_from(range(n_npus))
    return graph


def star(bandwidths: Sequence[float]) -> Network:
    """NPUs on one switch, one cable each."""
    graph = empty(len(bandwidths))
    for i, bandwidth in enumerate(bandwidths):
        cable(graph, i, "switch", bandwidth)
    return Network(graph)


def dgx(nodes: int, *, switches: int = 1, inside: float = 450e9, rail: float = 50e9) -> Network:
    """Nodes of 8 NPUs on NVSwitches, and a switch for each of 8 rails."""
    graph = empty(8 * nodes)
    for npu, switch in itertools.product(graph.copy(), range(switches)):
        cable(graph, npu, f"NVSwitch {npu // 8}.{switch}", inside / switches)
    for npu in range(8 * nodes if nodes > 1 else 0):
        cable(graph, npu, f"rail {npu % 8}", rail)
    return Network(graph)


def torus(*sizes: int, bandwidth: float = 50e9) -> Network:
    """A ring along each dimension, the first one fastest."""
    places = [place[::-1] for place in itertools.product(*(range(n) for n in sizes[::-1]))]
    number, graph = {place: i for i, place in enumerate(places)}, empty(len(places))
    for place, (d, n) in itertools.product(places, enumerate(sizes)):
        after = (*place[:d], (place[d] + 1) % n, *place[d + 1 :])
        cable(graph, number[place], number[after], bandwidth)
    return Network(graph)


def leaf_spine(
    leaves: int, npus: int, spines: int, *, port: float = 50e9, up: float = 50e9
) -> Network:
    """Leaf switches of so many NPUs, each with a cable to every spine."""
    graph = empty(leaves * npus)
    for npu in range(leaves * npus):
        cable(graph, npu, f"leaf {npu // npus}", port)
    for leaf, spine in itertools.product(range(leaves), range(spines)):
        cable(graph, f"leaf {leaf}", f"spine {spine}", up)
    return Network(graph)


def random_network(seed: int, most: int = 10) -> tuple[Network, list[int]]:
    """A network of a few NPUs and switches, with cables or one-way links of a few bandwidths, and
    some of its NPUs."""
    draw = random.Random(seed)
    n_npus = draw.randint(2, most)
    nodes: list[Node] = [*range(n_npus), *(f"switch {i}" for i in range(draw.randint(0, 3)))]
    both_ways = draw.random() < 0.6
    graph = empty(n_npus)
    speeds = draw.choice([(1e9,), (1e9, 2e9, 5e9), (1e9, 1.5e9, 0.7e9, 3.3e9)])
    ring = draw.sample(nodes, len(nodes))
    pairs = [*itertools.pairwise([*ring, ring[0]])]
    pairs += [tuple(draw.sample(nodes, 2)) for _ in range(draw.randint(0, 2 * len(nodes)))]
    for a, b in pairs:
        if a == b:
            continue
        latency = draw.choice([0, 1000, 500_000])
        if both_ways:
            cable(graph, a, b, draw.choice(speeds), latency)
        else:
            graph.add_edge(a, b, bandwidth=draw.choice(speeds), latency=latency)
    size = draw.choice([n_npus, n_npus, draw.randint(2, n_npus)])
    return Network(graph), sorted(draw.sample(range(n_npus), size))
