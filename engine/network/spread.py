"""What links carry when every message is spread evenly over all shortest ways, as packets are that
are sprayed: in closed form, without a simulation.

Of equally short ways each lane of a link is one, so a link of two lanes takes twice as much, where
:meth:`engine.network.routing.Router.spread` counts each link once, and an NPU passes messages on
and prefers no NVLink, where there ways through its server go first.  All
messages of a round go at once; the round lasts as long as its busiest link, and latencies count
nothing.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.network.graph import Network

if TYPE_CHECKING:  # scipy is imported by the functions that need it: few runs do
    from scipy.sparse import csr_array

Floats = NDArray[np.float64]
_PIECE = 2_000_000  # senders times links that are looked at together


class Spread:
    """The shortest ways through a network whose cables are as wide both ways."""

    def __init__(self, network: Network) -> None:
        self._network, self._n = network, network.n_npus
        nodes = sorted(network.graph, key=lambda node: (isinstance(node, str), node))
        number = {node: i for i, node in enumerate(nodes)}
        self._tail = np.array([number[link.source] for link in network.links])
        self._head = np.array([number[link.target] for link in network.links])
        self._lanes = np.array([link.lanes for link in network.links], dtype=float)
        self._n_nodes = len(nodes)
        self._find()

    def _find(self) -> None:
        """Hops from each NPU to each node, and how many ways have so few."""
        reached: Floats = np.eye(self._n, self._n_nodes)
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

        shape = (self._n_nodes, self._n_nodes)
        return csr_array((self._lanes, (self._tail, self._head)), shape=shape)

    @cached_property
    def bandwidth(self) -> Floats:
        """That of each link, in bytes/s."""
        return np.array([link.bandwidth for link in self._network.links])

    def seconds(self, targets: Sequence[int] | NDArray[np.int64]) -> Floats:
        """How long each link is busy (links,) if NPU i sends a byte to NPU ``targets[i]``."""
        loads, to = np.zeros(len(self._tail)), np.asarray(targets)
        step = max(1, _PIECE // len(self._tail))
        for first in range(0, self._n, step):
            senders = np.arange(first, min(first + step, self._n))
            own = to[senders]
            before = self._hops[senders][:, self._tail]
            after = self._hops[own][:, self._head]  # as many as there, since ways lead back
            least = self._hops[senders, own][:, None]
            row, link = np.nonzero(before + after + 1 == least)
            a, b = senders[row], own[row]
            share = self._ways[a, self._tail[link]] * self._ways[b, self._head[link]]
            share = share * self._lanes[link] / self._ways[a, b]
            loads += np.bincount(link, weights=share, minlength=len(loads))
        return np.asarray(loads / self.bandwidth)
