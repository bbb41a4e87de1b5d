"""Forests: sets of trees that carry data from each NPU of a group to all others at once.

Collective algorithms send along them.  They follow Zhao et al., "ForestColl: Throughput-Optimal
Collective Communications on Heterogeneous Network Fabrics" (arXiv 2402.06787): the narrowest cut
determines how fast all NPUs can send to all others at once; switches are replaced by direct
capacities between their neighbours so that no cut becomes narrower; then Edmonds' theorem gives the
trees.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import islice, pairwise
from typing import NamedTuple

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.network.cuts import Capacities, check_group, find_slowest_side
from dimsweep.engine.network.graph import Link, Network
from dimsweep.engine.network.packing import (
    Branchings,
    Bundle,
    BundledLinks,
    Grown,
    LinkPath,
    Splitter,
)
from dimsweep.engine.topology.blocks import Node

# --- groups with equal surroundings ---------------------------------------------------------------
# Ranks are numbered in order.  Other devices are distinguished by the devices that they are joined
# to, repeatedly (colour refinement); if several devices remain indistinguishable, one of them is
# numbered first, and the refinement continues.  Two groups with equal numbered links are joined in
# the same way: the links prove it.  Groups that are equal but get different numbers are packed
# twice, at the cost of time only.


Joined = tuple[
    tuple[int, int, float], ...
]  # devices by number, and the bandwidth from one to another


class GroupShape(NamedTuple):
    """The links around a group of NPUs, independent of the names of its devices.

    ``joined`` holds (from, to, bandwidth) of links between numbered devices, the ranks first;
    ``links`` are the links' numbers in the network.  Groups with equal ``joined`` have equal
    forests.
    """

    joined: Joined
    links: tuple[int, ...]


def build_group_shape(links: Mapping[int, Link], ranks: Sequence[int]) -> GroupShape:
    """Return the shape of the network ``links`` that join ``ranks``, with devices renumbered."""
    number = _number_devices(links, ranks)
    rows = sorted((number[x.source], number[x.target], x.bandwidth, i) for i, x in links.items())
    return GroupShape(tuple(row[:3] for row in rows), tuple(row[3] for row in rows))


def _number_devices(links: Mapping[int, Link], ranks: Sequence[int]) -> dict[Node, int]:
    around: defaultdict[Node, list[tuple[Node, float, int]]] = defaultdict(list)
    for link in links.values():
        around[link.source].append((link.target, link.bandwidth, 0))
        around[link.target].append((link.source, link.bandwidth, 1))
    number: dict[Node, int] = {rank: i for i, rank in enumerate(ranks)}
    others = [node for node in around if node not in number]
    number |= dict.fromkeys(others, len(ranks))
    while True:
        n_before = len({number[node] for node in others})
        looks = {
            node: (number[node], sorted((number[a], b, way) for a, b, way in around[node]))
            for node in others
        }
        alike: dict[str, list[Node]] = {}
        for node in sorted(others, key=looks.__getitem__):
            alike.setdefault(repr(looks[node]), []).append(node)
        for i, nodes in enumerate(alike.values(), len(ranks)):
            number |= dict.fromkeys(nodes, i)
        if len(alike) > n_before:
            continue
        several = next((nodes for nodes in alike.values() if len(nodes) > 1), None)
        if several is None:
            return number
        # Doubled, to leave a number between consecutive ones.
        number |= {node: 2 * number[node] for node in others}
        number[several[0]] -= 1


# --- trees of one level ---------------------------------------------------------------------------
# Every root sends directly to all others, if switches have enough capacity.  On a switch, or a
# network of switches that is not oversubscribed, no trees are faster, and none has fewer levels.
# A greedy search decides: each unit takes the shortest path with the most remaining capacity.


_WAYS = 16  # maximum number of paths between two NPUs
_Before = dict[int, list[int]]  # the devices before each one on shortest paths


def find_direct_paths(
    wires: BundledLinks, ranks: tuple[int, ...], k: int
) -> dict[tuple[int, int], Bundle]:
    """Return paths from each rank to each other rank, ``k`` units of capacity per pair.

    The paths pass no third rank, and together fit the capacities ``wires``.  Returns {} if they do
    not.
    """
    room = {(a, b): n for a, b, n in wires.items()}
    found: dict[tuple[int, int], Bundle] = {}
    for place, source in enumerate(ranks):
        before = _find_predecessors(wires, source, set(ranks))
        for target in (*ranks[place + 1 :], *ranks[:place]):
            ways = list(islice(_list_paths(before, source, target), _WAYS))
            bundle = _divide_units(ways, room, k)
            if not bundle:
                return {}
            found[source, target] = {_links_of_path(way, wires): n for way, n in bundle.items()}
    return found


def _find_predecessors(wires: BundledLinks, source: int, ranks: set[int]) -> _Before:
    """Return, per device, its predecessors on shortest paths from ``source`` past no other rank."""
    before: _Before = {source: []}
    layer = [source]
    while layer:
        following: _Before = {}
        for a in layer:
            if a == source or a not in ranks:
                for b in wires.out[a]:
                    if b not in before:
                        following.setdefault(b, []).append(a)
        before |= following
        layer = list(following)
    return before


def _list_paths(
    before: Mapping[int, list[int]], source: int, target: int
) -> Iterator[tuple[int, ...]]:
    """Yield each shortest path from ``source`` to ``target`` as a tuple of devices."""
    if target == source:
        yield (source,)
    for device in before.get(target, ()):
        yield from ((*way, target) for way in _list_paths(before, source, device))


def _divide_units(ways: list[tuple[int, ...]], room: dict[tuple[int, int], int], k: int) -> Bundle:
    """Divide ``k`` units among paths about equally; return units by path, {} if they do not fit."""
    bundle: Bundle = {}
    while k and ways:
        least = {way: min(room[pair] for pair in _list_pairs(way)) for way in ways}
        best = max(ways, key=least.__getitem__)
        n = min(max(1, k // len(ways)), least[best])
        if not n:
            return {}
        for pair in _list_pairs(best):
            room[pair] -= n
        bundle[best] = bundle.get(best, 0) + n
        k -= n
    return bundle


def _list_pairs(way: tuple[int, ...]) -> list[tuple[int, int]]:
    return list(pairwise(way))


def _links_of_path(way: tuple[int, ...], wires: BundledLinks) -> LinkPath:
    """Return the links along a path of devices; one link joins each two neighbours."""
    return tuple(link for a, b in _list_pairs(way) for (link,) in wires.ways(a, b))


# --- forests --------------------------------------------------------------------------------------


_GROWN = 128  # maximum NPUs for trees of several levels
# Maximum number of trees from an NPU; more of them are avoided by rounding capacities down.
_MOST = 256


class Branch(NamedTuple):
    """``n`` units of a tree's capacity from NPU ``parent`` to NPU ``child`` over the links ``way``.

    In a backwards forest (a reduction) the bytes go from ``child`` to ``parent``.
    """

    parent: int
    child: int
    way: LinkPath
    n: int


class Tree(NamedTuple):
    """A tree of capacity ``n`` units from NPU ``root`` to all other NPUs of a group.

    Each branch is listed after the branch that leads to its parent.
    """

    root: int
    n: int
    branches: tuple[Branch, ...]


@dataclass(frozen=True)
class Forest:
    """Trees from each NPU of a group to all others, which can carry data at the same time.

    The trees of each root have a capacity of ``k`` units together; a unit is ``unit`` bytes/s.
    ``bound`` is a lower bound, from the narrowest cut, on the seconds in which one byte of each NPU
    can reach all others.
    """

    trees: tuple[Tree, ...]
    k: int
    unit: Fraction
    bound: Fraction

    @property
    def time(self) -> Fraction:
        """Seconds in which these trees carry one byte of each NPU to all others."""
        return 1 / (self.k * self.unit)


def build_forest(
    network: Network, ranks: Collection[int], dim: int | None = None, *, backwards: bool = False
) -> Forest:
    """Build the trees among the NPUs ``ranks``, over all links or the links of dimension ``dim``.

    Trees pass switches, and pass other NPUs only if there is no other path.  If each switch can
    send as much as it receives, the trees are as fast as the cuts allow, up to the rounding of
    capacities. With ``backwards``, bytes go up the trees, from all others to the root.  Raises
    :class:`DimsweepError` for ranks that do not form a group.
    """
    links = {i: link for i, link in enumerate(network.links) if dim in (None, link.dim)}
    members = tuple(ranks)
    check_group(links, members)
    like = build_group_shape(_select_links(links, members), members)
    found = _find_forest(like.joined, len(members), backwards=backwards)
    return _place_forest(found, members, like.links)


def _place_forest(forest: Forest, ranks: tuple[int, ...], links: tuple[int, ...]) -> Forest:
    """Return ``forest``, made for ranks 0, 1, ..., with the ranks and link numbers of one group."""

    def place_branch(branch: Branch) -> Branch:
        way = tuple(links[i] for i in branch.way)
        return Branch(ranks[branch.parent], ranks[branch.child], way, branch.n)

    trees = (
        Tree(ranks[tree.root], tree.n, tuple(map(place_branch, tree.branches)))
        for tree in forest.trees
    )
    return replace(forest, trees=tuple(trees))


@lru_cache(maxsize=64)
def _find_forest(joined: Joined, n: int, *, backwards: bool) -> Forest:
    """Return the forest of devices 0 to ``n`` - 1; cached, as groups of equal shape share it."""
    links = {i: Link(a, b, bandwidth, 0) for i, (a, b, bandwidth) in enumerate(joined)}
    capacities = Capacities.from_links(links, range(n))
    if not backwards:
        return _pack_trees(capacities)
    if capacities.is_symmetric:
        number = {(link.source, link.target): i for i, link in links.items()}

        def opposite(i: int) -> int:
            return number[links[i].target, links[i].source]

        forest = _find_forest(joined, n, backwards=False)
        return _replace_ways(forest, lambda way: tuple(map(opposite, reversed(way))))
    return _replace_ways(_pack_trees(capacities.reversed), lambda way: way[::-1])


def _select_links(links: Mapping[int, Link], ranks: Collection[int]) -> Mapping[int, Link]:
    """Return the links that touch no NPU outside ``ranks`` if they join all ranks, else all."""
    import networkx as nx

    members = set(ranks)

    def is_in(node: Node) -> bool:
        return node in members or isinstance(node, str)

    own = {i: link for i, link in links.items() if is_in(link.source) and is_in(link.target)}
    graph = nx.DiGraph((link.source, link.target) for link in own.values())
    if not members <= set(graph):
        return links
    first = next(iter(ranks))
    there = nx.descendants(graph, first) & nx.ancestors(graph, first) | {first}
    return own if members <= there else links


def _replace_ways(forest: Forest, turned: Callable[[LinkPath], LinkPath]) -> Forest:
    """Return ``forest`` with the link path of each branch replaced by ``turned(path)``."""
    trees = (
        tree._replace(branches=tuple(b._replace(way=turned(b.way)) for b in tree.branches))
        for tree in forest.trees
    )
    return replace(forest, trees=tuple(trees))


def _pack_trees(capacities: Capacities) -> Forest:
    wanted = _minimum_ratio(capacities)  # units of capacity for each unit of an NPU
    k, times, over = wanted.numerator, wanted.denominator, 1
    if k > _MOST:
        k, times, over = _MOST, wanted.denominator * _MOST, wanted.numerator
    wires = BundledLinks.from_capacities(capacities, times, over)
    if over > 1:  # rounded down, so perhaps too small
        k = int(_minimum_ratio(wires.capacities(capacities)))
    straight = find_direct_paths(wires, capacities.ranks, k)
    if straight:
        trees = _build_stars(straight, capacities, k)
    else:
        n = len(capacities.ranks)
        if n > _GROWN:
            raise DimsweepError(
                f"trees among {n} NPUs would take many minutes to find; "
                f"at most {_GROWN} are allowed",
                where="collective.algorithms",
                hint="choose another algorithm than forest, or NPUs joined only by switches that "
                "are not oversubscribed",
                code="too-many",
            )
        wires = Splitter(wires, capacities, k).run()
        if not wires.joins(capacities.ranks):
            raise DimsweepError(
                "a switch has more bandwidth in one direction; without the surplus, its NPUs are "
                "not connected",
                where="collective.algorithms",
                hint="give its links equal bandwidth both ways, or choose another algorithm than "
                "forest",
                code="unsupported",
            )
        left = _minimum_ratio(wires.capacities(capacities))
        if left < k:  # a switch has different bandwidths in and out
            k, times = left.numerator, times * left.denominator
            wires = wires.times(left.denominator)
        grown = Branchings(wires, capacities.ranks, k).run()
        trees = tuple(_assign_links(tree, wires, capacities) for tree in grown)
    unit = capacities.unit * Fraction(over, times)
    return Forest(trees, k, unit, 1 / (wanted * capacities.unit))


def _build_stars(
    straight: Mapping[tuple[int, int], Bundle], capacities: Capacities, k: int
) -> tuple[Tree, ...]:
    """Return one tree per rank, in which each other rank is a child of the root."""
    branches: dict[int, list[Branch]] = {rank: [] for rank in capacities.ranks}
    for (a, b), bundle in straight.items():
        branches[a] += _branches(a, b, bundle, capacities)
    return tuple(Tree(int(capacities.nodes[a]), k, tuple(own)) for a, own in branches.items())


def _assign_links(tree: Grown, wires: BundledLinks, capacities: Capacities) -> Tree:
    """Turn a tree of device pairs into one of link paths, whose capacity ``wires`` loses."""
    branches = [
        branch
        for a, b in tree.edges
        for branch in _branches(a, b, wires.take(a, b, tree.n), capacities)
    ]
    return Tree(int(capacities.nodes[tree.root]), tree.n, tuple(branches))


def _branches(a: int, b: int, bundle: Bundle, capacities: Capacities) -> list[Branch]:
    ends = int(capacities.nodes[a]), int(capacities.nodes[b])
    return [Branch(*ends, way, n) for way, n in sorted(bundle.items())]


def _minimum_ratio(capacities: Capacities) -> Fraction:
    """Return the minimum over all cuts of outgoing capacity (units) per rank inside."""
    side = find_slowest_side(capacities)
    return Fraction(capacities.outgoing_units(side), capacities.n_ranks(side))
