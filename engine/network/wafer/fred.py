"""FRED's wafer: L1 switches with a few NPUs each, joined by an L2 switch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from engine.cluster.blocks.block import Node
from engine.errors import check_least
from engine.network.graph import Network
from engine.network.routing import Routing
from engine.network.wafer.streams import Stream
from engine.network.wafer.tree import L2, Tree, lane_name, leaf_name, plan_trees
from engine.network.wafer.wafer import Wafer, both, check_positive


@dataclass(frozen=True)
class FredWafer(Wafer):
    """``leaves`` L1 switches of ``leaf`` NPUs each, and an L2 switch above them.

    ``npu`` is the bandwidth (bytes/s) between an NPU and its L1 switch, ``trunk`` that between an
    L1 switch and the L2 switch, in as many equal lanes as the L1 switch has NPUs.  Each switch is a
    FRED_m with m = ``middles``; with ``reduces`` they reduce and distribute for collectives.
    ``controllers`` I/O controllers are shared out to the L1 switches.  A message between NPUs goes
    up on its sender's lane and down on its receiver's, so that no two of a permutation meet.
    """

    leaves: int = 5
    leaf: int = 4
    npu: float = 3e12
    trunk: float = 12e12
    reduces: bool = True
    middles: int = 3
    controllers: int = 18
    latency: int = 20_000
    io: float = 128e9

    def __post_init__(self) -> None:
        check_least(self, 2, "leaves", "leaf", "middles")
        check_least(self, 1, "controllers")
        check_least(self, 0, "latency")
        check_positive(self, "npu", "trunk", "io")

    @property
    def n_npus(self) -> int:
        return self.leaves * self.leaf

    @property
    def rings(self) -> tuple[int, int, bool] | None:
        return None if self.reduces else (self.leaf, self.leaves, False)

    @property
    def routing(self) -> Routing:
        return Routing.FAT_TREE

    def bisection(self) -> float:
        """Half of all trunks; where the leaves are odd in number, that halves one of them."""
        return self.leaves * self.trunk / 2

    def trees(self, lines: Sequence[tuple[int, ...]]) -> Mapping[frozenset[int], Tree]:
        if not self.reduces:
            return {}
        return plan_trees(lines, leaf=self.leaf, leaves=self.leaves, middles=self.middles)

    @cached_property
    def network(self) -> Network:
        import networkx as nx  # here: few runs build a network

        graph = nx.DiGraph()
        graph.add_nodes_from(range(self.n_npus))
        for npu in range(self.n_npus):
            graph.add_edges_from(both(npu, self._above(npu), self.npu, self.latency))
        for number in range(self.leaves):
            for lane in self._lanes(number):
                one = self.trunk / self.leaf
                graph.add_edges_from(both(leaf_name(number), lane, one, self.latency))
                graph.add_edges_from(both(lane, L2, one, 0))  # the same link, seen from above
        for name, switch in self._controllers():
            graph.add_edges_from(both(name, switch, self.io, self.latency))
        return Network(graph)

    def streams(self) -> Sequence[Stream]:
        """Each is divided evenly among the lanes."""
        found: list[Stream] = []
        for name, switch in self._controllers():
            links: dict[tuple[Node, Node], float] = {(name, switch): 1.0}
            for number in range(self.leaves):
                for lane in self._lanes(number):
                    here = leaf_name(number)
                    way = (here, lane, L2) if here == switch else (L2, lane, here)
                    links |= dict.fromkeys(pairwise(way), 1 / self.leaf)
            links |= {(self._above(npu), npu): 1.0 for npu in range(self.n_npus)}
            found.append(links)
        return found

    def _above(self, npu: int) -> str:
        return leaf_name(npu // self.leaf)

    def _lanes(self, leaf: int) -> list[str]:
        return [lane_name(leaf, lane) for lane in range(self.leaf)]

    def _controllers(self) -> list[tuple[str, str]]:
        """The I/O controllers and the L1 switches that they are at."""
        return [(f"io no {i}", leaf_name(i % self.leaves)) for i in range(self.controllers)]
