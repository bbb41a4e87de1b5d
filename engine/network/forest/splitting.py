"""Devices without data taken out of a network, so that no less can be sent among the others.

Bang-Jensen, Frank and Jackson, "Preserving and increasing local edge-connectivity in mixed graphs"
(1995): where as much leaves a device as enters it, links in and out can be joined pair by pair
until none is left, and every NPU still receives as much from all others.  Zhao et al.
("ForestColl", arXiv 2402.06787) so take switches out.  How much of a pair can be joined follows
from the flows after joining all of it: what some NPU then lacks was too much.

Any order of pairs will do, but not any makes short trees.  So first each device shares what comes
in among all that lies further on, in proportion; pairs are looked at one by one where that is not
enough.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from dimsweep.engine.network.cuts import Capacities, Flows
from dimsweep.engine.network.forest.wires import Wires


class Join(NamedTuple):
    """``n`` units from ``a`` through a device to ``b``."""

    a: int
    b: int
    n: int


class Splitter:
    """Takes devices out of ``wires`` while each of the ranks receives ``k`` units from each."""

    def __init__(self, wires: Wires, like: Capacities, k: int) -> None:
        self.wires, self._like, self._k = wires, like, k
        self._hops = _hops(like)

    def run(self) -> Wires:
        """What is left with no devices but the ranks; those with the fewest links go first."""
        ranks = set(self._like.ranks)
        wires = self.wires
        devices = [i for i in range(len(self._like.nodes)) if i not in ranks]
        for device in sorted(devices, key=lambda i: (len(wires.into[i]) + len(wires.out[i]), i)):
            self._take_out(device)
        return self.wires

    def _take_out(self, device: int) -> None:
        self._join(device, self._shares(device))
        if self._lack(self._without(device)):
            wires = self.wires
            for a in sorted(wires.into[device]):
                for b in sorted(wires.out[device]):
                    self._one(device, a, b)
        self.wires.drop(device)

    def _shares(self, device: int) -> list[Join]:
        """What comes in from each side, shared by what goes on from here to where it is no detour;
        and the other way round: the less of the two."""
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
        """Whether some rank's shortest way to another leads through all three."""
        hops = self._hops
        through = hops.to[:, a] + hops.between[a, device] + hops.between[device, b]
        total = through[:, None] + hops.back[None, :, b]
        return a != b and bool((total == hops.ranks).any())

    def _join(self, device: int, joins: Sequence[Join]) -> None:
        """Do them if nobody then lacks anything, else half of them, and the other half."""
        if not joins:
            return
        before = self.wires.copy()
        for a, b, n in joins:
            self.wires.join(a, device, b, n)
        if not self._lack(self.wires):
            return
        self.wires = before
        if len(joins) > 1:
            half = len(joins) // 2
            self._join(device, joins[:half])
            self._join(device, joins[half:])

    def _one(self, device: int, a: int, b: int) -> None:
        """Join as much of a pair as can be."""
        n = min(self.wires.between(a, device), self.wires.between(device, b))
        if not n:
            return
        after = self.wires.copy()
        after.join(a, device, b, n)
        n -= self._lack(after)
        if n > 0:
            self.wires.join(a, device, b, n)

    def _without(self, device: int) -> Wires:
        wires = self.wires.copy()
        wires.drop(device)
        return wires

    def _lack(self, wires: Wires) -> int:
        """The most that any rank lacks of what all ranks have for it."""
        return lack(wires, self._like, self._k)


class _Hops(NamedTuple):
    """The fewest links between all devices, from ranks, to them, and among them."""

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


def lack(wires: Wires, like: Capacities, k: int) -> int:
    """The most that any rank lacks of receiving ``k`` units from each of the ranks."""
    capacities = wires.capacities(like)
    flows = Flows(capacities, Fraction(1, k))
    return max(flows.wanted - flows.value(twins[0]) for twins in capacities.twins)
