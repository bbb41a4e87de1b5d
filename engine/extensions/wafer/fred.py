"""FRED's wafer: L1 switches with a few NPUs each, joined by an L2 switch, and reduction trees."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations, product
from typing import Any, ClassVar

from dimsweep.engine.errors import DimsweepError, check_minimum
from dimsweep.engine.extensions.wafer.fred_switch import (
    Flow,
    FredSwitch,
    Remedy,
    UnroutableError,
    in_rounds,
)
from dimsweep.engine.network.graph import Kind, Network
from dimsweep.engine.network.interconnect import (
    Interconnect,
    InterconnectPlan,
    Line,
    ReductionTree,
    Route,
    map_lines,
)
from dimsweep.engine.network.routing import Routing
from dimsweep.engine.topology.blocks import Node

L2 = "L2"
Edge = tuple[Node, Node, dict[str, Any]]  # as networkx takes them


def leaf_name(leaf: int) -> str:
    """Return the node name of L1 switch number ``leaf``."""
    return f"L1 no {leaf}"


def lane_name(leaf: int, lane: int) -> str:
    """Return the node name of a lane: one of the links between an L1 switch and the L2 switch."""
    return f"lane {lane} of L1 no {leaf}"


def plan_trees(
    lines: Sequence[tuple[int, ...]], *, leaf: int, leaves: int, middles: int
) -> dict[frozenset[int], ReductionTree]:
    """Return a reduction tree for each group in ``lines``; all of them run concurrently.

    The wafer has ``leaves`` L1 switches of ``leaf`` NPUs and as many lanes each.  The groups that
    leave an L1 switch share its lanes, with the same number for a group everywhere.  Then every
    switch, FRED_m(2 leaf) at the NPUs and FRED_m(leaf * leaves) above them with m = ``middles``,
    must route its part of each group.

    Raises :class:`UnroutableError` naming the groups without a colouring.
    """
    parts = [_parts(line, leaf) for line in lines]
    leaving: dict[int, list[int]] = {}  # of each L1 switch, the lines
    for i, part in enumerate(parts):
        for number in part if len(part) > 1 else ():
            leaving.setdefault(number, []).append(i)
    each = leaf // max(map(len, leaving.values()), default=1)
    lanes: list[dict[int, tuple[int, ...]]] = [{} for _ in lines]
    for number, own in leaving.items():
        for place, i in enumerate(own):
            lanes[i][number] = tuple(range(place * each, (place + 1) * each))
    for switch, flows in _flows(lines, parts, lanes, leaf).items():
        FredSwitch(leaf * leaves if switch == L2 else 2 * leaf, middles).route(flows)
    return {
        frozenset(line): ReductionTree(
            {leaf_name(number): members for number, members in part.items()},
            {
                leaf_name(number): tuple(lane_name(number, lane) for lane in taken)
                for number, taken in own.items()
            },
            L2,
        )
        for line, part, own in zip(lines, parts, lanes, strict=True)
    }


Parts = Mapping[int, tuple[int, ...]]  # of a line at each L1 switch: its members, or its lanes


def _parts(line: Sequence[int], leaf: int) -> Parts:
    found: dict[int, tuple[int, ...]] = {}
    for npu in line:
        found[npu // leaf] = (*found.get(npu // leaf, ()), npu)
    return found


def _flows(
    lines: Sequence[tuple[int, ...]], parts: Sequence[Parts], lanes: Sequence[Parts], leaf: int
) -> dict[str, list[Flow]]:
    """Return the flows that pass each switch at the same time, by the switch's name.

    The first ports of an L1 switch belong to its NPUs, the others to its lanes.  The L2 switch has
    the lanes of one L1 switch after another.
    """
    flows: dict[str, list[Flow]] = {}
    for line, part, own in zip(lines, parts, lanes, strict=True):
        name = "{" + ", ".join(map(str, line)) + "}"
        for number, members in part.items():
            here, what = leaf_name(number), f"{name} at {leaf_name(number)}"
            down = frozenset(npu % leaf for npu in members)
            up = frozenset(leaf + lane for lane in own.get(number, ()))
            ends = ((down, up), (up, down)) if up else ((down, down),)
            flows.setdefault(here, []).extend(Flow(*sides, what) for sides in ends)
        if own:
            ports = {number * leaf + lane for number, taken in own.items() for lane in taken}
            flows.setdefault(L2, []).append(Flow.from_ports(ports, f"{name} at {L2}"))
    return flows


def build_edges(one: Node, other: Node, bandwidth: float, latency: int) -> list[Edge]:
    """Return the two edges of a link, one in each direction."""
    attributes: dict[str, Any] = {"bandwidth": float(bandwidth), "latency": int(latency)}
    return [(one, other, attributes), (other, one, attributes)]


def check_positive(of: object, *keys: str) -> None:
    """Raise :class:`DimsweepError` if an attribute of ``of`` named in ``keys`` is not above 0."""
    for key in keys:
        if not 0 < getattr(of, key) < float("inf"):
            raise DimsweepError(
                f"{getattr(of, key):g}; it must be greater than 0", where=key, code="out-of-range"
            )


Trees = Mapping[frozenset[int], ReductionTree]


@dataclass(frozen=True)
class FredWafer(Interconnect):
    """A wafer of ``leaves`` L1 switches with ``leaf`` NPUs each, and an L2 switch above them.

    ``npu`` is the bandwidth (bytes/s) between an NPU and its L1 switch, ``trunk`` that between an
    L1 switch and the L2 switch, in as many equal lanes as the L1 switch has NPUs.  Each switch is a
    FRED_m with m = ``middles``; with ``reduces`` they reduce and distribute for collectives.
    ``controllers`` I/O controllers are distributed over the L1 switches.  A message between NPUs
    goes up on its sender's lane and down on its receiver's, so that the messages of a permutation
    never share a lane.

    ``remedy`` applies to groups whose collectives cannot all be routed at once.  ``REFUSE`` raises
    an error.  ``SERIALISE`` lets them pass in alternating rounds, each with all lanes.
    ``DECOMPOSE`` sends the smallest groups around rings, NPU by NPU, as many groups as necessary.
    ``PLACE`` numbers ranks along the dimensions in another order, the first one in which all groups
    can pass.
    """

    noun: ClassVar[str] = "wafer"

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
        check_minimum(self, 2, "leaves", "leaf", "middles")
        check_minimum(self, 1, "controllers", "pieces")
        check_minimum(self, 0, "latency")
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
        """Return the bandwidth (bytes/s) of half of all trunks; if odd, one trunk is halved."""
        return self.leaves * self.trunk / 2

    def trees(self, lines: Sequence[tuple[int, ...]]) -> Mapping[frozenset[int], ReductionTree]:
        if not self.reduces:
            return {}
        return plan_trees(lines, leaf=self.leaf, leaves=self.leaves, middles=self.middles)

    def plan(self, sets: Sequence[Sequence[Line]], sizes: Sequence[int]) -> InterconnectPlan:
        if self.remedy != Remedy.PLACE:
            return self._planned(sets, self.places(sizes))
        refused: UnroutableError | None = None
        for order in permutations(range(len(sizes))):
            try:
                return self._planned(sets, _number_along(order, sizes))
            except UnroutableError as error:
                refused = refused or error
        assert refused is not None
        raise refused

    def _planned(self, sets: Sequence[Sequence[Line]], places: Sequence[int]) -> InterconnectPlan:
        found = [self._remedied(map_lines(lines, places)) for lines in sets]
        rings = frozenset(frozenset(line) for _, decomposed in found for line in decomposed)
        return InterconnectPlan(places, tuple(rounds for rounds, _ in found), rings)

    def _remedied(self, lines: list[Line]) -> tuple[tuple[Trees, ...], list[Line]]:
        """Return the reduction trees of each round of groups, and the groups sent around rings."""
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
            graph.add_edges_from(
                build_edges(npu, leaf_name(npu // self.leaf), self.npu, self.latency)
            )
        for number in range(self.leaves):
            for lane in (lane_name(number, lane) for lane in range(self.leaf)):
                one = self.trunk / self.leaf
                graph.add_edges_from(build_edges(leaf_name(number), lane, one, self.latency))
                graph.add_edges_from(
                    build_edges(lane, L2, one, 0)
                )  # the same link, seen from above
        for name, leaf in self._controllers():
            graph.add_node(name, kind=Kind.MEMORY)
            graph.add_edges_from(build_edges(name, leaf_name(leaf), self.io, self.latency))
        return Network(graph)

    def io_routes(self, npus: Sequence[int]) -> Sequence[Sequence[Sequence[Route]]]:
        """Return the routes between each I/O controller and ``npus``, by each of the lanes.

        Switches that distribute copy bytes for several NPUs.  Otherwise NPUs pass them on to one
        another, first below the controller's own switch.
        """
        routes = self._distributed if self.reduces else self._passed_on
        return [
            [routes(name, leaf, npus, lane) for lane in range(self.leaf)]
            for name, leaf in self._controllers()
        ]

    def _distributed(self, name: str, leaf: int, npus: Sequence[int], lane: int) -> Sequence[Route]:
        start = (name, leaf_name(leaf))
        return [(*start, *self._across(leaf, lane, npu // self.leaf, lane), npu) for npu in npus]

    def _passed_on(self, name: str, leaf: int, npus: Sequence[int], lane: int) -> Sequence[Route]:
        """Return each NPU's route from a controller, through the NPUs that get the bytes first.

        NPUs send up on lane ``lane`` or their own, and receive on the lane of their number.
        """

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
        """Return the route from an L1 switch by lane ``up`` to another one by its lane ``down``."""
        if leaf == other:
            return ()
        return (lane_name(leaf, up), L2, lane_name(other, down), leaf_name(other))

    def _controllers(self) -> list[tuple[str, int]]:
        """Return each I/O controller's name and its L1 switch."""
        return [(f"io no {i}", i % self.leaves) for i in range(self.controllers)]


def _number_along(order: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """Return the place of each rank if places count along the dimensions in the given order."""
    strides = {dim: math.prod(sizes[d] for d in order[:i]) for i, dim in enumerate(order)}
    ranks = product(*(range(size) for size in reversed(sizes)))  # the first dimension runs first
    return [sum(strides[d] * x for d, x in enumerate(reversed(rank))) for rank in ranks]
