"""FRED's wafer: L1 switches with a few NPUs each, joined by an L2 switch."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations, product

from dimsweep.engine.errors import check_least
from dimsweep.engine.extensions.fred import Remedy, UnroutableError, in_rounds
from dimsweep.engine.extensions.wafer.io import Route
from dimsweep.engine.extensions.wafer.plan import Line, WaferPlan, at
from dimsweep.engine.extensions.wafer.tree import L2, Tree, lane_name, leaf_name, plan_trees
from dimsweep.engine.extensions.wafer.wafer import Wafer, both, check_positive
from dimsweep.engine.network.graph import Kind, Network
from dimsweep.engine.network.routing import Routing

Trees = Mapping[frozenset[int], Tree]


@dataclass(frozen=True)
class FredWafer(Wafer):
    """``leaves`` L1 switches of ``leaf`` NPUs each, and an L2 switch above them.

    ``npu`` is the bandwidth (bytes/s) between an NPU and its L1 switch, ``trunk`` that between an
    L1 switch and the L2 switch, in as many equal lanes as the L1 switch has NPUs.  Each switch is a
    FRED_m with m = ``middles``; with ``reduces`` they reduce and distribute for collectives.
    ``controllers`` I/O controllers are shared out to the L1 switches.  A message between NPUs goes
    up on its sender's lane and down on its receiver's, so that no two of a permutation meet.

    ``remedy`` is what becomes of groups whose collectives cannot all be routed at once.
    ``REFUSE``: an error.  ``SERIALISE``: they pass in rounds, which take turns; each round has all
    lanes.  ``DECOMPOSE``: the smallest groups go around rings, NPU by NPU, as many as must.
    ``PLACE``: ranks are numbered along the dimensions in another order, the first in which all can
    pass.
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
    pieces: int = 32
    multicasts: bool = True
    preempts: bool = False
    remedy: Remedy = Remedy.REFUSE

    def __post_init__(self) -> None:
        check_least(self, 2, "leaves", "leaf", "middles")
        check_least(self, 1, "controllers", "pieces")
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

    def plan(self, sets: Sequence[Sequence[Line]], sizes: Sequence[int]) -> WaferPlan:
        if self.remedy != Remedy.PLACE:
            return self._planned(sets, self.places(sizes))
        refused: UnroutableError | None = None
        for order in permutations(range(len(sizes))):
            try:
                return self._planned(sets, _along(order, sizes))
            except UnroutableError as error:
                refused = refused or error
        assert refused is not None
        raise refused

    def _planned(self, sets: Sequence[Sequence[Line]], places: Sequence[int]) -> WaferPlan:
        found = [self._remedied(at(lines, places)) for lines in sets]
        rings = frozenset(frozenset(line) for _, decomposed in found for line in decomposed)
        return WaferPlan(places, tuple(rounds for rounds, _ in found), rings)

    def _remedied(self, lines: list[Line]) -> tuple[tuple[Trees, ...], list[Line]]:
        """The trees of each round, and the lines that are decomposed."""
        if self._fit(lines) or self.remedy in (Remedy.REFUSE, Remedy.PLACE):
            return (self.trees(lines),), []
        if self.remedy == Remedy.SERIALISE:
            return tuple(self.trees(one) for one in in_rounds(lines, len, self._fit)), []
        smallest = sorted(lines, key=len)
        n = next(n for n in range(1, len(lines) + 1) if self._fit(smallest[n:]))
        return (self.trees(smallest[n:]),), smallest[:n]

    def _fit(self, lines: Sequence[Line]) -> bool:
        try:
            self.trees(lines)
        except UnroutableError:
            return False
        return True

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
        for name, leaf in self._controllers():
            graph.add_node(name, kind=Kind.MEMORY)
            graph.add_edges_from(both(name, leaf_name(leaf), self.io, self.latency))
        return Network(graph)

    def io_routes(self, npus: Sequence[int]) -> Sequence[Sequence[Sequence[Route]]]:
        """By each of the lanes.  Switches that distribute copy what is for several NPUs; else NPUs
        pass it on to one another, first below the controller's own switch."""
        routes = self._distributed if self.reduces else self._passed_on
        return [
            [routes(name, leaf, npus, lane) for lane in range(self.leaf)]
            for name, leaf in self._controllers()
        ]

    def _distributed(self, name: str, leaf: int, npus: Sequence[int], lane: int) -> Sequence[Route]:
        start = (name, leaf_name(leaf))
        return [(*start, *self._across(leaf, lane, npu // self.leaf, lane), npu) for npu in npus]

    def _passed_on(self, name: str, leaf: int, npus: Sequence[int], lane: int) -> Sequence[Route]:
        """Messages between NPUs take the sender's lane up and the receiver's down."""

        def turn(npu: int) -> tuple[int, int]:
            return (npu // self.leaf - leaf) % self.leaves, (npu + lane) % self.leaf

        route: Route = (name, leaf_name(leaf))
        here, up, found = leaf, lane, dict[int, Route]()
        for npu in sorted(npus, key=turn):
            there, down = divmod(npu, self.leaf)
            route += (*self._across(here, up, there, down), npu)
            found[npu] = route
            here, up = there, down
            route += (leaf_name(there),)
        return [found[npu] for npu in npus]

    def _across(self, leaf: int, up: int, other: int, down: int) -> Route:
        """From an L1 switch, by its lane ``up``, to another one, by that one's lane ``down``."""
        if leaf == other:
            return ()
        return (lane_name(leaf, up), L2, lane_name(other, down), leaf_name(other))

    def _above(self, npu: int) -> str:
        return leaf_name(npu // self.leaf)

    def _lanes(self, leaf: int) -> list[str]:
        return [lane_name(leaf, lane) for lane in range(self.leaf)]

    def _controllers(self) -> list[tuple[str, int]]:
        """The I/O controllers and the L1 switches that they are at."""
        return [(f"io no {i}", i % self.leaves) for i in range(self.controllers)]


def _along(order: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """The place of each rank, if places are numbered along the dimensions in this order."""
    strides = {dim: math.prod(sizes[d] for d in order[:i]) for i, dim in enumerate(order)}
    ranks = product(*(range(size) for size in reversed(sizes)))  # the first dimension runs first
    return [sum(strides[d] * x for d, x in enumerate(reversed(rank))) for rank in ranks]
