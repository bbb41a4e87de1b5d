"""Shortest paths of a network: their mean length, and link loads under even spreading."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.network.graph import Kind, Network

if TYPE_CHECKING:  # scipy is imported by the functions that need it: few runs do
    from scipy.sparse import csr_array


# --- path lengths ---------------------------------------------------------------------------------


_CHUNK = 1024  # NPUs whose paths are searched at once
_Ints = NDArray[np.int64]


@dataclass(frozen=True)
class PathLengths:
    """Mean number of links on a shortest path, over all pairs of NPUs.

    ``mean`` is the value for the whole network.  ``failed`` is its average over networks that lack
    one switch each; pairs that are disconnected do not count.
    """

    mean: float
    failed: float


class _Graph(NamedTuple):
    """A network for path searches: the first ``n`` nodes are NPUs; edges are sorted by target."""

    n: int
    nodes: int
    servers: int
    sources: _Ints
    targets: _Ints  # each once, with
    starts: _Ints  # where its edges begin


def measure_path_lengths(network: Network, servers: int = 1) -> PathLengths:
    """Return the mean path lengths of a network (Yan et al., SIGCOMM 2025, table 3).

    With ``servers`` above 1, each group of that number of consecutive NPUs is a server, whose NPUs
    are one link apart.  NPUs forward messages.  Only switches with a cable fail; switches on a
    board do not.

    Switches of one colour (see ``_refine_colours``) should be interchangeable.  For each colour the
    failures of the first and the last switch are computed; if their results differ, all switches of
    the colour fail one by one.  Otherwise the others are assumed, not proven, to give equal
    results.

    Raises :class:`DimsweepError` if ``servers`` does not divide the number of NPUs.
    """
    n = network.n_npus
    if servers < 1 or n % servers:
        problem = f"{n} NPUs cannot be divided into servers of {servers}"
        raise DimsweepError(problem, where="servers", code="mismatch")
    number = {
        node: i
        for i, node in enumerate(
            sorted(network.graph, key=lambda node: (isinstance(node, str), node))
        )
    }
    edges = np.array([(number[one], number[other]) for one, other in network.graph.edges])
    edges = edges.reshape(-1, 2)[np.argsort(edges.reshape(-1, 2)[:, 1], kind="stable")]
    graph = _build_graph(edges, n, len(number), servers)
    colours = _refine_colours(edges, graph)
    cabled = {end for link in network.links if link.medium for end in (link.source, link.target)}
    switches: dict[int, list[int]] = {}
    for node, device in network.devices.items():
        if device.kind is Kind.SWITCH and node in cabled:
            switches.setdefault(int(colours[number[node]]), []).append(number[node])

    def without(switch: int) -> float:
        left = edges[(edges != switch).all(axis=1)]
        return _mean_length(_build_graph(left, n, len(number), servers))

    mean, total, n_switches = _mean_length(graph), 0.0, 0
    for alike in switches.values():
        n_switches += len(alike)
        first, last = without(alike[0]), without(alike[-1]) if len(alike) > 1 else 0.0
        if len(alike) == 1 or first == last:
            total += len(alike) * first
        else:
            total += math.fsum([first, *map(without, alike[1:-1]), last])
    return PathLengths(mean, total / n_switches if n_switches else mean)


def _build_graph(edges: _Ints, n: int, nodes: int, servers: int) -> _Graph:
    targets, starts = np.unique(edges[:, 1], return_index=True)
    return _Graph(n, nodes, servers, edges[:, 0], targets, starts)


def _refine_colours(edges: _Ints, graph: _Graph) -> _Ints:
    """Return a number (colour) per node; nodes of a colour look alike (colour refinement).

    Nodes of a colour have equal numbers of NPUs at each distance, and equal numbers of neighbours
    of each colour.  Sums of random numbers represent multisets of colours.
    """
    random, (n, nodes, servers, *_) = np.random.default_rng(0), graph
    profiles = _profiles(edges, graph)
    colours = np.unique(profiles, axis=0, return_inverse=True)[1].reshape(-1)
    while True:
        marks = random.integers(2**63, size=(colours.max() + 1, 2))
        signs = np.zeros((nodes, 2), dtype=np.int64)
        np.add.at(signs, edges[:, 0], marks[colours[edges[:, 1]]])
        of_server = marks[colours[:n]].reshape(n // servers, servers, 2).sum(axis=1)
        mates = np.zeros((nodes, 2), dtype=np.int64)
        mates[:n] = np.repeat(of_server, servers, axis=0)
        looks = np.column_stack([colours, signs, mates])
        found, again = np.unique(looks, axis=0, return_inverse=True)
        if len(found) == colours.max() + 1:
            return colours
        colours = again.reshape(-1)


def _profiles(edges: _Ints, graph: _Graph) -> _Ints:
    """Return a row per node: the number of NPUs that reach it in 0, 1, ... hops, and more.

    Further columns: its kind, adjacent servers, and sums of squares of the numbers of paths of two
    to four hops to other switches.
    """
    from scipy.sparse import csr_array  # here: few runs ask for path lengths

    near = edges[edges[:, 0] < graph.n]
    places = np.unique(np.column_stack([near[:, 1], near[:, 0] // graph.servers]), axis=0)
    beside = np.bincount(places[:, 0], minlength=graph.nodes)
    found = [beside + graph.nodes * (np.arange(graph.nodes) >= graph.n)]
    for own in _split_chunks(graph.n):
        for hops, reached in enumerate(_spread_bits(own, graph), 1):
            if hops == len(found):
                found.append(np.zeros(graph.nodes, dtype=np.int64))
            found[hops] += np.bitwise_count(reached).sum(axis=1, dtype=np.int64)
    n, size = graph.n, graph.nodes - graph.n
    between = edges[(edges >= n).all(axis=1)] - n
    ones = np.ones(len(between), dtype=np.int64)
    one = csr_array((ones, (between[:, 0], between[:, 1])), shape=(size, size))
    ways = one
    for _ in range(3):
        ways = ways @ one
        squares = np.zeros(graph.nodes, dtype=np.int64)
        squares[n:] = ways.power(2).sum(axis=1)
        found.append(squares)
    return np.column_stack(found)


def _mean_length(graph: _Graph) -> float:
    """Return the mean hops over all ordered pairs of different NPUs that can reach each other."""
    total = pairs = 0
    for own in _split_chunks(graph.n):
        met = [
            int(np.bitwise_count(reached[: graph.n]).sum()) for reached in _spread_bits(own, graph)
        ]
        total += sum(
            hops * (after - before) for hops, (before, after) in enumerate(pairwise(met), 1)
        )
        pairs += met[-1] - met[0]
    return total / pairs if pairs else 0.0


def _split_chunks(n: int) -> Iterator[_Ints]:
    for first in range(0, n, _CHUNK):
        yield np.arange(first, min(n, first + _CHUNK))


def _spread_bits(own: _Ints, graph: _Graph) -> Iterator[NDArray[np.uint64]]:
    """Yield, for 0, 1, ... hops, each node's bit set of the NPUs ``own`` within that many hops."""
    n, nodes, servers, sources, targets, starts = graph
    place = own - own[0]
    reached = np.zeros((nodes, (len(own) + 63) // 64), dtype=np.uint64)
    reached[own, place // 64] = np.uint64(1) << (place % 64).astype(np.uint64)
    while True:
        yield reached
        after = reached.copy()
        if len(sources):
            after[targets] |= np.bitwise_or.reduceat(reached[sources], starts, axis=0)
        if servers > 1:
            of_server = reached[:n].reshape(n // servers, servers, -1)
            together = np.bitwise_or.reduce(of_server, axis=1, keepdims=True)
            after[:n].reshape(n // servers, servers, -1)[:] |= together
        if np.array_equal(after, reached):
            return
        reached = after


# --- loads of links -------------------------------------------------------------------------------
# Every message is spread evenly over all shortest paths, as sprayed packets are: loads follow in
# closed form, without a simulation.
#
# Each lane of a link is a path, so a link of two lanes carries twice as much;
# :meth:`engine.network.routing.Router.spread` counts each link once.  NPUs forward messages and do
# not prefer NVLink, whereas routing prefers paths through an NPU's own server.  All messages of a
# round start at once; the round lasts as long as its busiest link, and latencies are ignored.


Floats = NDArray[np.float64]
Longs = NDArray[np.int64]
_PIECE = 2_000_000  # maximum senders times links in one array


class Wiring(NamedTuple):
    """The links of a network as arrays of shape (links,).

    The columns are source node, target node, number of lanes, and bytes/s of all lanes together.
    The first nodes are the NPUs.
    """

    tail: Longs
    head: Longs
    lanes: Floats
    bandwidth: Floats

    @classmethod
    def from_network(cls, network: Network) -> "Wiring":
        """Return the links of a network as arrays; NPUs are numbered before other nodes."""
        nodes = sorted(network.graph, key=lambda node: (isinstance(node, str), node))
        number = {node: i for i, node in enumerate(nodes)}
        return cls(
            np.array([number[link.source] for link in network.links]),
            np.array([number[link.target] for link in network.links]),
            np.array([link.lanes for link in network.links], dtype=float),
            np.array([link.bandwidth for link in network.links]),
        )


class Spread:
    """Even spreading of messages between NPUs over all their shortest paths.

    ``ends`` are the NPUs that may send or receive.  Every link must have a reverse link of equal
    width.
    """

    def __init__(self, wiring: Wiring, ends: ArrayLike) -> None:
        self._wiring, own = wiring, np.unique(ends)
        self._n_nodes = int(wiring.tail.max()) + 1
        self._row = np.zeros(self._n_nodes, dtype=np.int64)
        self._row[own] = np.arange(len(own))
        # Hops from each end to each node, and the number of paths with so few.
        reached = np.zeros((len(own), self._n_nodes))
        reached[np.arange(len(own)), own] = 1.0
        self._ways = reached.copy()
        self._hops = np.where(reached > 0, 0, -1).astype(np.int16)
        hops = 0
        while (self._hops < 0).any():
            hops += 1
            reached = np.asarray(reached @ self._adjacent) * (self._hops < 0)
            new = reached > 0
            self._hops[new] = hops
            self._ways += reached

    @cached_property
    def _adjacent(self) -> "csr_array":
        from scipy.sparse import csr_array

        tail, head, lanes, _ = self._wiring
        return csr_array((lanes, (tail, head)), shape=(self._n_nodes, self._n_nodes))

    def seconds(self, senders: ArrayLike, targets: ArrayLike) -> Floats:
        """Return each link's busy time (s), shape (links,), if sender i sends target i one byte.

        Senders and targets must be among the NPUs ``ends``.
        """
        tail, head, lanes, bandwidth = self._wiring
        one, other = self._row[np.asarray(senders)], self._row[np.asarray(targets)]
        loads, to = np.zeros(len(tail)), np.asarray(targets)
        step = max(1, _PIECE // len(tail))
        for first in range(0, len(one), step):
            piece = slice(first, first + step)
            a, b, own = one[piece], other[piece], to[piece]
            before = self._hops[a][:, tail]
            after = self._hops[b][:, head]  # as many as there, since ways lead back
            least = self._hops[a, own][:, None]
            row, link = np.nonzero(before + after + 1 == least)
            share = self._ways[a[row], tail[link]] * self._ways[b[row], head[link]]
            share = share * lanes[link] / self._ways[a[row], own[row]]
            loads += np.bincount(link, weights=share, minlength=len(loads))
        return np.asarray(loads / bandwidth)
