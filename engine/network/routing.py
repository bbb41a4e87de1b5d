"""Routing: the choice of the links that a message takes through a network."""

import hashlib
from collections import Counter
from collections.abc import Collection, Iterator
from enum import StrEnum
from itertools import chain
from typing import NamedTuple, cast

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.network.graph import Network
from dimsweep.engine.topology.blocks import Node
from dimsweep.engine.topology.coordinates import coordinates_of, line

_Layer = dict[Node, list[int]]  # of nodes as far from a target: the links that lead nearer


class _Between(NamedTuple):
    """Counts of shortest paths between two sets of nodes: all, per node, per link, per end node."""

    total: int
    onwards: Counter[Node]
    shares: dict[int, float]
    passing: dict[Node, int]


class Routing(StrEnum):
    """A rule that chooses a route.

    Among equally near next hops of an NPU, the links inside its server count, NVLink before a leaf.
    ``SHORTEST``: fewest hops.  ``ECMP``: fewest hops, ties broken by a hash.  ``DIMENSION_ORDER``:
    a shortest path inside dimension 0 to the target's coordinate, then inside dimension 1, and so
    on. ``FAT_TREE``: fewest hops; ties are broken on the first half of the route by the number of
    the sending NPU, then by that of the receiving NPU, modulo the number of choices.  NPUs that
    differ in some dimensions only, such as that of their rail, are numbered within these.
    ``SPRAY``: all paths of the fewest hops at once, with equal shares (NDP's senders take their
    paths in turn, Handley et al., SIGCOMM 2017); whole messages cannot be sprayed.
    """

    DIMENSION_ORDER = "dimension_order"
    SHORTEST = "shortest"
    ECMP = "ecmp"
    FAT_TREE = "fat_tree"
    SPRAY = "spray"


class Router:
    """Computes and caches the routes of messages through a network.

    Raises :class:`DimsweepError` for dimension order in a network without coordinates.
    """

    def __init__(self, network: Network, routing: Routing, seed: int = 0) -> None:
        if routing is Routing.DIMENSION_ORDER and not network.sizes:
            raise DimsweepError(
                "the network has no dimensions to order",
                where="network.routing",
                code="conflict",
                hint=f"use {Routing.SHORTEST.value} or {Routing.ECMP.value}",
            )
        self.sprays = routing is Routing.SPRAY
        self._network = network
        self._routing = routing
        self._seed = seed
        self._routes: dict[tuple[int, int, int], tuple[int, ...]] = {}
        self._distances: dict[Node, _Distances] = {}
        self._between: dict[tuple[Node | None, ...], _Between] = {}
        self._heads = [link.target for link in network.links]
        # The link to each successor, in the order of the links; and the predecessors.
        self._out: dict[Node, dict[Node, int]] = {node: {} for node in network.graph}
        self._in: dict[Node, list[Node]] = {node: [] for node in network.graph}
        for number, link in enumerate(network.links):
            self._out[link.source][link.target] = number
            self._in[link.target].append(link.source)

    def route(self, source: int, target: int, way: int = 0) -> tuple[int, ...]:
        """Return the numbers of the links from NPU ``source`` to NPU ``target``; () if equal.

        Ties between next hops are broken by ``way`` modulo their number, in the order of their
        links (on a Ring, way 0 to the opposite NPU goes up and way 1 down), or by a hash of ``way``
        and the rest (ECMP).  A negative ``way`` is a registered route
        (:meth:`Network.register_route`); in the opposite direction (ACKs) it is way 0.  Raises
        :class:`DimsweepError` for an unknown NPU or way.
        """
        key = (source, target, way)
        if key not in self._routes:
            for npu in (source, target):
                if not 0 <= npu < self._network.n_npus:
                    problem = f"NPU {npu}; it must be 0 to {self._network.n_npus - 1}"
                    raise DimsweepError(problem, where="route", code="out-of-range")
            given = self._given_way(source, target, way) if way < 0 else ()
            self._routes[key] = given or self._find_routes(source, target, max(way, 0))
        return self._routes[key]

    def _given_way(self, source: int, target: int, way: int) -> tuple[int, ...]:
        """Return the links of a registered route; () in its opposite direction."""
        given = self._network.links_of_route(way)
        ends = self._network.links[given[0]].source, self._network.links[given[-1]].target
        if ends == (target, source):
            return ()
        if ends != (source, target):
            problem = f"way {way} does not lead from NPU {source} to NPU {target}"
            raise DimsweepError(problem, where="route", code="invalid")
        return given

    def has_choice(self, source: int, target: int) -> bool:
        """Return whether the first shortest path passes a switch with several next hops."""
        distances, route = self._distances_to(target), self.route(source, target)
        nodes = [self._network.links[number].source for number in route]
        return any(
            len(distances.links_into(remaining, self._out[node])) > 1
            for remaining, node in enumerate(reversed(nodes))
            if isinstance(node, str)
        )

    def routes(self, source: int, target: int) -> tuple[tuple[int, ...], ...]:
        """Return all shortest paths between two NPUs, as link numbers.

        Under dimension-order routing: all paths that are shortest within each dimension in turn.
        """
        if not self._network.sizes or self._routing is not Routing.DIMENSION_ORDER:
            return tuple(self._list_paths(source, target))
        ways: list[tuple[int, ...]] = [()]
        here = source
        for dim, coordinate in enumerate(coordinates_of(target, self._network.sizes)):
            there = line(here, self._network.sizes, dim)[coordinate]
            ways = [way + more for way in ways for more in self._list_paths(here, there)]
            here = there
        return tuple(ways)

    def spread(self, source: int, target: int) -> dict[int, float]:
        """Return each link on a shortest path, with the fraction of the shortest paths that use it.

        A link counts as one path whatever its number of lanes, as where a switch hashes or sprays
        over its links; :class:`engine.network.paths.Spread` counts each lane.  The part between the
        switches of two NPUs is computed once for all pairs of NPUs on these switches.
        """
        distances = self._distances_to(target)
        hops = distances.next_to(self._out[source]) + 1
        layers = [self._next_links(distances, hops - 1, source)]
        heads = [*map(self._heads.__getitem__, layers[0])]
        tails, back = list[Node]([target]), 0  # and how far these are from the target
        if hops > 1 and isinstance(distances, _Behind):
            tails, back = distances.nearest(self._out[source], hops)
        switches = [_find_switch(self._out[card], source) for card in heads] if hops > 3 else [None]
        beyond = [node for node in switches if node is not None]
        if len(beyond) == len(heads):
            layers.append([self._out[card][node] for card, node in zip(heads, beyond, strict=True)])
            heads = list[Node](beyond)
        key = (*heads, None, *tails, hops)
        between = self._between.get(key)
        if between is None:
            far = range(back, hops - len(layers))
            between = self._between[key] = self._count(distances, heads, tails, far)
        own = [between.onwards[head] / between.total for head in heads]
        shares = dict(zip(chain(*layers), own * len(layers), strict=True))
        shares.update(between.shares)
        passing = between.passing
        for remaining in reversed(range(back)):
            layer: _Layer = {node: self._next_links(distances, remaining, node) for node in passing}
            found = {number: passing[node] for node, links in layer.items() for number in links}
            shares.update({number: ways / between.total for number, ways in found.items()})
            passing = {self._heads[number]: ways for number, ways in found.items()}
        return shares

    def _count(
        self, distances: "_Distances", heads: list[Node], tails: list[Node], far: range
    ) -> "_Between":
        """Count the paths from ``heads`` to ``tails``, nodes that are ``far`` hops from the target.

        A node is repeated once for each path that leads to it, or from it.
        """
        layers, passing = list[_Layer](), Counter(heads)
        nodes = [*passing]
        for remaining in reversed(far):
            options: _Layer = {node: self._next_links(distances, remaining, node) for node in nodes}
            layers.append(options)
            nodes = [*dict.fromkeys(map(self._heads.__getitem__, chain(*options.values())))]
        onwards = Counter(tails)
        for options in reversed(layers):
            for node, links in options.items():
                onwards[node] = sum(onwards[self._heads[number]] for number in links)
        total, shares = sum(onwards[head] for head in heads), dict[int, float]()
        for node, links in chain(*(options.items() for options in layers)):
            for number in links:
                end = self._heads[number]
                passing[end] += passing[node]
                shares[number] = passing[node] * onwards[end] / total
        return _Between(total, onwards, shares, {node: passing[node] for node in nodes})

    def _list_paths(self, source: Node, target: int) -> Iterator[tuple[int, ...]]:
        """Yield all shortest paths, in the order of their first links."""
        if source == target:
            yield ()
            return
        distances = self._distances_to(target)
        nearest = distances.next_to(self._out[source])
        for number in self._next_links(distances, nearest, source):
            after = self._network.links[number].target
            yield from ((number, *way) for way in self._list_paths(after, target))

    def _find_routes(self, source: int, target: int, way: int) -> tuple[int, ...]:
        if self._routing is not Routing.DIMENSION_ORDER:
            return self._find_shortest(source, target, way)
        # Dimensions joined as a Cartesian product: a shortest way between NPUs that differ in one
        # coordinate never leaves that dimension, since it would have to come back.
        here, found = source, list[int]()
        for dim, coordinate in enumerate(coordinates_of(target, self._network.sizes)):
            there = line(here, self._network.sizes, dim)[coordinate]
            found += self._find_shortest(here, there, way)
            here = there
        return tuple(found)

    def _find_shortest(self, source: int, target: int, way: int) -> tuple[int, ...]:
        distances, node, found = self._distances_to(target), cast(Node, source), list[int]()
        hops = 0 if source == target else distances.next_to(self._out[source]) + 1
        remaining, heads = hops, self._heads
        while remaining:
            remaining -= 1
            options = self._next_links(distances, remaining, node)
            number = options[0]
            if len(options) > 1:
                choice = way
                if self._routing is Routing.ECMP:
                    choice = _hash(f"{self._seed} {source} {target} {way} {node}")
                elif self._routing is Routing.FAT_TREE:
                    one, other = (source, target) if 2 * remaining >= hops else (target, source)
                    choice = self._number_in_line(one, other)
                number = options[choice % len(options)]
            found.append(number)
            node = heads[number]
        return tuple(found)

    def _next_links(self, distances: "_Distances", remaining: int, node: Node) -> list[int]:
        """Return the links of ``node`` to nodes that are ``remaining`` hops from the target.

        An NPU prefers links without a medium (NVLink) to cables.
        """
        while remaining and distances.before is not None:
            distances, remaining = distances.before, remaining - 1
        numbers = distances.found.get((remaining, node))
        if numbers is None:
            numbers = distances.links_into(remaining, self._out[node])
            if isinstance(node, int):
                inside = [n for n in numbers if not self._network.links[n].medium]
                numbers = inside or numbers
            distances.found[remaining, node] = numbers
        return numbers

    def _distances_to(self, target: Node) -> "_Distances":
        """Return all nodes' distances to ``target``; NPUs on equal switches share most of them."""
        if target not in self._distances:
            before = self._in[target]
            if isinstance(target, int) and before and all(isinstance(each, str) for each in before):
                switches = [self._distances_of_last(node, target) for node in before]
                self._distances[target] = _Behind(target, switches)
            else:
                self._distances[target] = _Distances(target, self._in)
        return self._distances[target]

    def _distances_of_last(self, node: Node, target: int) -> "_Distances":
        """Return distances to ``node``, the last node before ``target`` on a route."""
        switch = _find_switch(self._in[node], target)
        return _Behind(node, [self._distances_to(switch)]) if switch else self._distances_to(node)

    def _number_in_line(self, npu: int, other: int) -> int:
        """Return the number of ``npu`` in the dimensions where it differs from ``other``.

        The number is mixed-radix over the coordinates in these dimensions.
        """
        sizes, number, stride = self._network.sizes, 0, 1
        if not sizes:
            return npu
        places = zip(coordinates_of(npu, sizes), coordinates_of(other, sizes), sizes, strict=True)
        for own, others, size in places:
            if own != others:
                number += own * stride
                stride *= size
        return number


def first_hops(network: Network, source: int) -> dict[Node, set[Node]]:
    """Return, for each node, the neighbours of NPU ``source`` that begin a shortest path to it.

    If neighbours without cables (NVLink) are among them, only these are returned, as in
    :meth:`Router.route`.
    """
    found: dict[Node, set[Node]] = {source: set()}
    layer: dict[Node, set[Node]] = {head: {head} for head in network.graph[source]}
    while layer:
        found |= layer
        further: dict[Node, set[Node]] = {}
        for node, first in layer.items():
            for head in network.graph[node]:
                if head not in found:
                    further.setdefault(head, set()).update(first)
        layer = further
    inside = {head for head, link in network.graph[source].items() if not link.get("medium")}
    return {node: first & inside or first for node, first in found.items()}


def has_equal_paths(network: Network) -> bool:
    """Return whether switches have several next hops on shortest paths between NPUs.

    Samples the routes from the first NPU to three others.  A choice of the sending NPU among its
    links does not count, because its network adapter makes it.
    """
    router, n = Router(network, Routing.SHORTEST), network.n_npus
    return any(router.has_choice(0, target) for target in {1, n // 2, n - 1} if 0 < target < n)


class _Distances:
    """Nodes by distance: ``layers[k]`` are ``k`` hops from a target; computed on demand.

    ``before`` are the distances to the switch that all paths to the target pass, if there is one;
    ``found`` caches the links of a node that lead to a given distance.
    """

    before: "_Distances | None" = None

    def __init__(self, target: Node, predecessors: dict[Node, list[Node]]) -> None:
        self.target, self.layers = target, [{target}]
        self._seen = {target}
        self.found: dict[tuple[int, Node], list[int]] = {}
        self._predecessors = predecessors

    def next_to(self, neighbours: dict[Node, int], most: int | None = None) -> int:
        """Return the target's distance from the nearest of ``neighbours``, at most ``most``.

        Asking for a node's neighbours instead of the node saves a layer, which for two NPUs of a
        switch contains all other nodes.
        """
        hops = 0
        while hops != most and neighbours.keys().isdisjoint(self.layer(hops)):
            hops += 1
        return hops

    def links_into(self, hops: int, out: dict[Node, int]) -> list[int]:
        """Return the links to nodes ``hops`` from the target, lowest number first."""
        return _links_into(self.layer(hops), out)

    def layer(self, hops: int) -> set[Node]:
        """Return the nodes ``hops`` from the target."""
        while hops >= len(self.layers):
            layer = {before for node in self.layers[-1] for before in self._predecessors[node]}
            layer -= self._seen
            self._seen |= layer
            self.layers.append(layer)
        return self.layers[hops]


class _Behind(_Distances):
    """Distances to a target that all paths reach over one of ``switches``.

    The target is one hop from each of them, and no shortest path passes the target.
    """

    def __init__(self, target: Node, switches: list[_Distances]) -> None:
        super().__init__(target, {})
        self._switches = switches
        if len(switches) == 1:
            (self.before,) = switches

    def nearest(self, neighbours: dict[Node, int], hops: int) -> tuple[list[Node], int]:
        """Return the nodes through which paths of ``hops`` reach the target, and their distance.

        The nodes are the target's switches, or the switches of its cards.
        """
        last = [each for each in self._switches if each.next_to(neighbours, hops - 1) < hops - 1]
        cards = [each for each in last if isinstance(each, _Behind)]
        if hops > 3 and len(cards) == len(last):
            return [switch.target for card in cards for switch in card._switches], 2
        return [each.target for each in last], 1

    def next_to(self, neighbours: dict[Node, int], most: int | None = None) -> int:
        if most == 0 or not neighbours.keys().isdisjoint(self.layers[0]):
            return 0
        for switch in self._switches:
            most = 1 + switch.next_to(neighbours, None if most is None else most - 1)
        assert most is not None, "a target behind switches has one at least"
        return most

    def links_into(self, hops: int, out: dict[Node, int]) -> list[int]:
        if not hops:
            return super().links_into(0, out)
        found = {n for switch in self._switches for n in switch.links_into(hops - 1, out)}
        return sorted(found)


def _find_switch(neighbours: Collection[Node], npu: int) -> str | None:
    """Return the switch of a card whose only neighbours are ``npu`` and that switch."""
    if len(neighbours) != 2 or npu not in neighbours:
        return None
    (switch,) = (node for node in neighbours if node != npu)
    return switch if isinstance(switch, str) else None


def _links_into(layer: set[Node], out: dict[Node, int]) -> list[int]:
    """Return the links that lead into ``layer``, lowest number first."""
    if len(layer) < len(out):
        return sorted(out[node] for node in layer if node in out)
    return [number for node, number in out.items() if node in layer]


def _hash(text: str) -> int:
    """Return a hash that is the same on every machine.

    A checksum such as CRC is linear, so choices on successive switches would be correlated.
    """
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
