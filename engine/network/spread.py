"""What links carry when every message is spread evenly over all shortest ways, as packets are that
are sprayed: in closed form, without a simulation.

Of equally short ways each lane of a link is one, so a link of two lanes takes twice as much, where
:meth:`engine.network.routing.Router.spread` counts each link once, and an NPU passes messages on
and prefers no NVLink, where there ways through its server go first.  All
messages of a round go at once; the round lasts as long as its busiest link, and latencies count
nothing.
"""

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dimsweep.engine.network.graph import Network

if TYPE_CHECKING:  # scipy is imported by the functions that need it: few runs do
    from scipy.sparse import csr_array

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]
_PIECE = 2_000_000  # senders times links that are looked at together


class Wiring(NamedTuple):
    """Links as arrays (links,): the nodes that they lead from and to, of which the first are the
    NPUs; their lanes, and bytes/s of all of these together."""

    tail: Longs
    head: Longs
    lanes: Floats
    bandwidth: Floats

    @classmethod
    def of(cls, network: Network) -> "Wiring":
        nodes = sorted(network.graph, key=lambda node: (isinstance(node, str), node))
        number = {node: i for i, node in enumerate(nodes)}
        return cls(
            np.array([number[link.source] for link in network.links]),
            np.array([number[link.target] for link in network.links]),
            np.array([link.lanes for link in network.links], dtype=float),
            np.array([link.bandwidth for link in network.links]),
        )


class Spread:
    """The shortest ways between some NPUs, the ``ends``, through links that are as wide both
    ways."""

    def __init__(self, wiring: Wiring, ends: ArrayLike) -> None:
        self._wiring, own = wiring, np.unique(ends)
        self._n_nodes = int(wiring.tail.max()) + 1
        self._row = np.zeros(self._n_nodes, dtype=np.int64)
        self._row[own] = np.arange(len(own))
        self._find(own)

    def _find(self, ends: Longs) -> None:
        """Hops from each end to each node, and how many ways have so few."""
        reached = np.zeros((len(ends), self._n_nodes))
        reached[np.arange(len(ends)), ends] = 1.0
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
        """How long each link is busy (links,) if each sender sends a byte to its target, all of
        them ends."""
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
