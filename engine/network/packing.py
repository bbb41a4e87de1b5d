"""Packing of trees into a network: the two steps of ForestColl behind :func:`build_forest`.

First, switches and other devices without data are removed, and their capacity is turned into
capacity between their neighbours (:class:`Splitter`).  Then spanning trees are grown from each NPU
(:class:`Branchings`).
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dimsweep.engine.network.cuts import Capacities, Flows

# --- capacities between devices -------------------------------------------------------------------


LinkPath = tuple[int, ...]  # links by number
Bundle = dict[LinkPath, int]  # the units of a capacity on each path of links
Pair = tuple[int, int]


class BundledLinks:
    """Capacities between pairs of devices, in units, each with the link paths that provide it."""

    def __init__(self, bundles: dict[Pair, Bundle]) -> None:
        self._bundles = bundles
        self.into: defaultdict[int, dict[int, int]] = defaultdict(dict)
        self.out: defaultdict[int, dict[int, int]] = defaultdict(dict)
        for (a, b), bundle in bundles.items():
            self.out[a][b] = self.into[b][a] = sum(bundle.values())

    @classmethod
    def from_capacities(cls, capacities: Capacities, times: int, over: int) -> "BundledLinks":
        """Return links with capacities multiplied by ``times / over`` and rounded down."""
        ends = zip(capacities.tail.tolist(), capacities.head.tolist(), strict=True)
        units = [c * times // over for c in capacities.capacity]
        rows = zip(ends, capacities.link, units, strict=True)
        return cls({pair: {(link,): n} for pair, link, n in rows if n})

    def units_between(self, a: int, b: int) -> int:
        """Return the capacity from device ``a`` to device ``b`` in units."""
        return self.out[a].get(b, 0)

    def ways(self, a: int, b: int) -> Bundle:
        """Return the link paths from ``a`` to ``b``, with the units of capacity of each."""
        return self._bundles.get((a, b), {})

    def items(self) -> Iterator[tuple[int, int, int]]:
        """Yield (a, b, units) for each pair of devices with capacity from ``a`` to ``b``."""
        for a, targets in self.out.items():
            for b, n in targets.items():
                yield a, b, n

    def joins(self, ranks: Collection[int]) -> bool:
        """Return whether each of ``ranks`` can reach all other ranks."""
        first = next(iter(ranks))
        return all(set(ranks) <= _reached(first, ways) for ways in (self.out, self.into))

    def times(self, factor: int) -> "BundledLinks":
        """Return these links with capacities multiplied by ``factor``."""
        bundles = self._bundles.items()
        return BundledLinks(
            {pair: {way: n * factor for way, n in own.items()} for pair, own in bundles}
        )

    def copy(self) -> "BundledLinks":
        """Return an independent copy."""
        return BundledLinks({pair: dict(bundle) for pair, bundle in self._bundles.items()})

    def take(self, a: int, b: int, n: int) -> Bundle:
        """Remove ``n`` units from ``a`` to ``b``, shorter paths first; return the removed paths."""
        bundle, taken = self._bundles[a, b], Bundle()
        for way in sorted(bundle, key=lambda way: (len(way), way)):
            part = min(n, bundle[way])
            if part:
                taken[way], n = part, n - part
                bundle[way] -= part
                if not bundle[way]:
                    del bundle[way]
        self._count(a, b)
        return taken

    def put(self, a: int, b: int, bundle: Bundle) -> None:
        """Add the paths and units of ``bundle`` to the capacity from ``a`` to ``b``."""
        own = self._bundles.setdefault((a, b), {})
        for way, n in bundle.items():
            own[way] = own.get(way, 0) + n
        self._count(a, b)

    def _count(self, a: int, b: int) -> None:
        n = sum(self._bundles[a, b].values())
        if n:
            self.out[a][b] = self.into[b][a] = n
        else:
            del self._bundles[a, b], self.out[a][b], self.into[b][a]

    def join(self, a: int, device: int, b: int, n: int) -> None:
        """Turn ``n`` units from ``a`` through ``device`` to ``b`` into direct units."""
        first, second = self.take(a, device, n), self.take(device, b, n)
        if a == b:
            return
        joined, after = Bundle(), list(second.items())
        for way, n_first in first.items():
            while n_first:
                on, left = after.pop()
                part = min(n_first, left)
                joined[way + on] = joined.get(way + on, 0) + part
                n_first -= part
                if left > part:
                    after.append((on, left - part))
        self.put(a, b, joined)

    def drop(self, device: int) -> None:
        """Remove a device with all its links."""
        for a, n in list(self.into[device].items()):
            self.take(a, device, n)
        for b, n in list(self.out[device].items()):
            self.take(device, b, n)

    def capacities(self, like: Capacities) -> Capacities:
        """Return these capacities on the devices of ``like``, with one link per pair of devices."""
        rows = list(self.items())
        tail, head, capacity = zip(*rows, strict=True) if rows else ((), (), ())
        return replace(
            like,
            tail=np.array(tail, np.int64),
            head=np.array(head, np.int64),
            capacity=tuple(capacity),
            link=(),
        )


def _reached(first: int, ways: Mapping[int, Mapping[int, int]]) -> set[int]:
    """Return all devices that are reachable from ``first`` along ``ways``."""
    reached, open_ = {first}, [first]
    while open_:
        new = set(ways.get(open_.pop(), ())) - reached
        reached |= new
        open_ += new
    return reached


# --- splitting ------------------------------------------------------------------------------------
# Removal of devices without data, without reducing what the others can send to each other.
#
# Bang-Jensen, Frank and Jackson, "Preserving and increasing local edge-connectivity in mixed
# graphs" (1995): if a device has equal capacities in and out, its links in and out can be joined
# pair by pair until none is left, and every NPU still receives as much from all others.  Zhao et
# al. ("ForestColl", arXiv 2402.06787) remove switches in this way.  The amount of a pair to join
# follows from the flows after joining all of it: the amount that an NPU then lacks is subtracted.
#
# Any order of pairs is correct, but few orders give short trees.  So each device first divides its
# incoming capacity among its outgoing links in proportion; the remaining pairs follow one by one.


class Join(NamedTuple):
    """``n`` units from ``a`` through a removed device to ``b``, replaced by direct capacity."""

    a: int
    b: int
    n: int


class Splitter:
    """Removes devices that are not ranks from ``wires``, and keeps the capacity through them.

    After each removal each rank can still receive ``k`` units from each rank.
    """

    def __init__(self, wires: BundledLinks, like: Capacities, k: int) -> None:
        self.wires, self._like, self._k = wires, like, k
        self._hops = _hops(like)

    def run(self) -> BundledLinks:
        """Remove all devices but the ranks, devices with the fewest links first."""
        ranks = set(self._like.ranks)
        wires = self.wires
        devices = [i for i in range(len(self._like.nodes)) if i not in ranks]
        for device in sorted(devices, key=lambda i: (len(wires.into[i]) + len(wires.out[i]), i)):
            self._remove_device(device)
        return self.wires

    def _remove_device(self, device: int) -> None:
        self._join(device, self._list_joins(device))
        if self._find_lack(self._try_without(device)):
            wires = self.wires
            for a in sorted(wires.into[device]):
                for b in sorted(wires.out[device]):
                    self._join_pair(device, a, b)
        self.wires.drop(device)

    def _list_joins(self, device: int) -> list[Join]:
        """Return joins that divide a device's incoming over outgoing units along shortest paths."""
        wires = self.wires
        into, out = wires.into[device], wires.out[device]
        on = {a: [b for b in out if self._is_on_a_way(a, device, b)] for a in into}
        ahead = {a: sum(out[b] for b in on[a]) for a in into}
        behind = {b: sum(into[a] for a in into if b in on[a]) for b in out}
        return [
            Join(a, b, n)
            for a in into
            for b in on[a]
            if (n := into[a] * out[b] // max(ahead[a], behind[b]))
        ]

    def _is_on_a_way(self, a: int, device: int, b: int) -> bool:
        """Return whether a shortest path between ranks passes ``a``, ``device``, ``b`` in order."""
        hops = self._hops
        through = hops.to[:, a] + hops.between[a, device] + hops.between[device, b]
        total = through[:, None] + hops.back[None, :, b]
        return a != b and bool((total == hops.ranks).any())

    def _join(self, device: int, joins: Sequence[Join]) -> None:
        """Apply all ``joins`` if every rank then still receives its units; else try each half."""
        if not joins:
            return
        before = self.wires.copy()
        for a, b, n in joins:
            self.wires.join(a, device, b, n)
        if not self._find_lack(self.wires):
            return
        self.wires = before
        if len(joins) > 1:
            half = len(joins) // 2
            self._join(device, joins[:half])
            self._join(device, joins[half:])

    def _join_pair(self, device: int, a: int, b: int) -> None:
        """Make as many units as possible from ``a`` through ``device`` to ``b`` direct."""
        n = min(self.wires.units_between(a, device), self.wires.units_between(device, b))
        if not n:
            return
        after = self.wires.copy()
        after.join(a, device, b, n)
        n -= self._find_lack(after)
        if n > 0:
            self.wires.join(a, device, b, n)

    def _try_without(self, device: int) -> BundledLinks:
        wires = self.wires.copy()
        wires.drop(device)
        return wires

    def _find_lack(self, wires: BundledLinks) -> int:
        """Return :func:`lack` for the capacities ``wires``."""
        return lack(wires, self._like, self._k)


class _Hops(NamedTuple):
    """Minimum numbers of links: between all devices, from ranks, to ranks, and among ranks."""

    between: np.ndarray
    to: np.ndarray
    back: np.ndarray
    ranks: np.ndarray


def _hops(like: Capacities) -> _Hops:
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    n, ranks = len(like.nodes), list(like.ranks)
    links = csr_array((np.ones(len(like.tail)), (like.tail, like.head)), shape=(n, n))
    between = dijkstra(links, unweighted=True)
    of_ranks = between[np.ix_(ranks, ranks)].copy()
    np.fill_diagonal(of_ranks, -1)  # no way leads back
    return _Hops(between, between[ranks], between[:, ranks].T, of_ranks)


def lack(wires: BundledLinks, like: Capacities, k: int) -> int:
    """Return the largest shortfall, over ranks, in receiving ``k`` units from each rank at once."""
    capacities = wires.capacities(like)
    flows = Flows(capacities, Fraction(1, k))
    return max(flows.wanted - flows.value(twins[0]) for twins in capacities.equivalent_ranks)


# --- branchings -----------------------------------------------------------------------------------
# As many trees from each NPU to all others as capacities between NPUs allow.
#
# Edmonds ("Edge-disjoint branchings", 1973) proved that they exist if each NPU can receive from all
# roots as much as the roots send.  Tarjan (1974) built them edge by edge: some edge always leaves
# enough capacity for the remaining trees.  Equal trees are built together; a maximum flow counts
# how many can use an edge (Berczi and Frank 2010; Zhao et al., "ForestColl").


if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass
class Grown:
    """``n`` equal trees from ``root`` to the other ranks, possibly unfinished.

    ``edges`` are (parent, child), each listed after the edge that leads to the parent; ``depth`` is
    the number of edges from the root to each rank reached.
    """

    root: int
    n: int
    edges: list[tuple[int, int]]
    depth: dict[int, int]


class Branchings:
    """A builder of ``k`` spanning trees from each rank, within the capacities ``wires``."""

    def __init__(self, wires: BundledLinks, ranks: tuple[int, ...], k: int) -> None:
        self._ranks, self._k = ranks, k
        self._place = {rank: i for i, rank in enumerate(ranks)}
        self._room = np.zeros((len(ranks), len(ranks)), np.int64)
        for a, b, n in wires.items():
            self._room[self._place[a], self._place[b]] = n
        self._waiting = set(ranks)  # roots that have no trees yet

    def run(self) -> list[Grown]:
        """Build and return all trees."""
        done = []
        for root in self._ranks:
            self._waiting.discard(root)
            open_ = [Grown(root, self._k, [], {root: 0})]
            while open_:
                tree = open_.pop()
                self._grow(tree, open_)
                done.append(tree)
        return done

    def _grow(self, tree: Grown, open_: list[Grown]) -> None:
        """Extend ``tree`` to all ranks; copies that cannot share an edge move to ``open_``."""
        place, refused = self._place, set[tuple[int, int]]()
        while len(tree.depth) < len(self._ranks):
            for a, b in self._candidates(tree):
                if (a, b) in refused:
                    continue
                n = self._allowed(place[a], place[b], tree, open_)
                if n:
                    break
                refused.add((a, b))  # there will never be more room for it
            else:
                raise AssertionError("trees cannot be completed")  # Edmonds' theorem forbids it
            if n < tree.n:
                open_.append(Grown(tree.root, tree.n - n, [*tree.edges], {**tree.depth}))
                tree.n = n
            self._room[place[a], place[b]] -= n
            tree.edges.append((a, b))
            tree.depth[b] = tree.depth[a] + 1

    def _candidates(self, tree: Grown) -> list[tuple[int, int]]:
        """Return the edges out of ``tree``: nearest to the root first, then with most capacity."""
        inside = np.array([self._place[rank] for rank in tree.depth])
        outside = np.ones(len(self._ranks), np.bool_)
        outside[inside] = False
        room = self._room[inside] * outside
        rows, columns = np.nonzero(room)
        depth = np.array(list(tree.depth.values()))[rows]
        have = room[rows, columns]
        order = np.lexsort((-have, have < tree.n, depth))
        ranks = self._ranks
        return [(ranks[inside[rows[i]]], ranks[columns[i]]) for i in order.tolist()]

    def _allowed(self, a: int, b: int, tree: Grown, open_: list[Grown]) -> int:
        """Return how many copies of ``tree`` may use edge ``a`` to ``b`` and not block others."""
        from scipy.sparse.csgraph import maximum_flow

        others = sum(each.n for each in open_) + self._k * len(self._waiting)
        found = maximum_flow(self._build_reserve(a, open_), a, b).flow_value
        return int(min(self._room[a, b], tree.n, found - others))

    def _build_reserve(self, a: int, open_: list[Grown]) -> "csr_array":
        """Return the unused capacities as a graph in which ``a`` also supplies unfinished trees."""
        from scipy.sparse import csr_array

        n, m = len(self._ranks), len(open_)
        graph = np.zeros((n + m, n + m), np.int64)
        graph[:n, :n] = np.minimum(self._room, n * self._k)  # nobody asks for more
        for root in self._waiting:
            if (i := self._place[root]) != a:
                graph[a, i] += self._k
        for i, each in enumerate(open_, n):
            graph[a, i] = each.n
            graph[i, [self._place[rank] for rank in each.depth]] = each.n
        return csr_array(graph.astype(np.int32))
