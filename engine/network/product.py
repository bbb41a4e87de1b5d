"""Graphs that are products of dimensions: recognised, not asked for."""

from collections import Counter

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.network.fabric import build_network
from dimsweep.engine.network.graph import Link, Network
from dimsweep.engine.topology.block import Node
from dimsweep.engine.topology.topology import Topology

_Wire = tuple[Node, Node, float, int]


def is_product(network: Network, topology: Topology) -> bool:
    """Whether the links of a network are those of the topology's own blocks, whatever its switches
    are called: the same links between NPUs, and switches with the same links to the same NPUs."""
    try:
        own = build_network(topology)
    except DimsweepError:  # too large to be a graph
        return False
    return len(own.links) == len(network.links) and _told(own) == _told(network)


def _told(network: Network) -> tuple[Counter[_Wire], Counter[frozenset[_Wire]]]:
    """The links between NPUs, and those of each switch, which goes without its name."""
    direct: Counter[_Wire] = Counter()
    at: dict[Node, set[_Wire]] = {}
    for link in network.links:
        ends = [end for end in (link.source, link.target) if isinstance(end, str)]
        wire = *_nameless(link), link.bandwidth, link.latency
        if not ends:
            direct[wire] += 1
        for end in ends:
            at.setdefault(end, set()).add(wire)
    return direct, Counter(map(frozenset, at.values()))


def _nameless(link: Link) -> tuple[Node, Node]:
    """The ends of a link; of a block's two, one is an NPU at least, and the other may be a
    switch."""
    source, target = (end if isinstance(end, int) else "" for end in (link.source, link.target))
    return source, target
