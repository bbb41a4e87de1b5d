"""Fat trees of two or three levels, as htsim numbers and wires them."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from dimsweep.engine.errors import DimsweepError


class Cable(NamedTuple):
    """A link's end, which sends; ``slow`` where the link has failed in this direction."""

    node: int
    to: int
    is_host: bool
    slow: bool


@dataclass(frozen=True)
class Tree:
    """``hosts``, ``per_leaf`` of them under a leaf, which has ``up`` links.

    Of ``levels`` 2 each of those leads to a spine of its own.  Of 3, a pod has ``up`` leaves and as
    many switches above them, and the j-th of each pod leads to cores j, j + up, and so on.  Nodes
    are hosts, leaves, spines or the pods' upper switches, and cores.  The first ``failed`` links
    from cores down to upper switches run at a part of their rate.
    """

    hosts: int
    per_leaf: int
    up: int
    levels: int = 3
    failed: int = 0

    @classmethod
    def of(cls, hosts: int, failed: int = 0) -> "Tree":
        """Of k-port switches: k^3 / 4 hosts; raises :class:`DimsweepError` for other numbers."""
        k = round((4 * hosts) ** (1 / 3))
        if k % 2 or k**3 != 4 * hosts or not hosts:
            raise DimsweepError(f"{hosts} hosts are no fat tree", hint="k^3 / 4 of them, k even")
        return cls(hosts, k // 2, k // 2, failed=failed)

    @property
    def diameter(self) -> int:
        """Links on the longest of the shortest ways."""
        return 2 * self.levels

    @property
    def oversubscription(self) -> float:
        """What a leaf's hosts may send by what its links upwards carry."""
        return self.per_leaf / self.up

    @property
    def switches(self) -> range:
        """The numbers of all switches."""
        cores = self.up**2 if self.levels == 3 else 0
        return range(self.hosts, self._upper + self._n_upper + cores)

    @cached_property
    def _upper(self) -> int:
        return self.hosts + self.hosts // self.per_leaf

    @property
    def _n_upper(self) -> int:
        return self.hosts // self.per_leaf if self.levels == 3 else self.up

    def _leaf(self, host: int) -> int:
        return self.hosts + host // self.per_leaf

    def _pod(self, host: int) -> int:
        return host // (self.per_leaf * self.up)

    def cables(self) -> Iterator[Cable]:
        """Both ends of every link."""
        for host in range(self.hosts):
            yield Cable(host, self._leaf(host), True, False)
            yield Cable(self._leaf(host), host, False, False)
        for leaf in range(self._upper - self.hosts):
            for j in range(self.up):
                upper = self._upper + (leaf // self.up * self.up if self.levels == 3 else 0) + j
                yield Cable(self.hosts + leaf, upper, False, False)
                yield Cable(upper, self.hosts + leaf, False, False)
        for i in range(self._n_upper if self.levels == 3 else 0):
            for j in range(self.up):
                upper, core = self._upper + i, self._core(i % self.up, j)
                yield Cable(upper, core, False, False)
                yield Cable(core, upper, False, i * self.up + j < self.failed)

    def _core(self, place: int, j: int) -> int:
        return self._upper + self._n_upper + j * self.up + place

    def ways(self, source: int, target: int) -> tuple[tuple[int, ...], ...]:
        """All shortest ways: the nodes that are passed."""
        one, other = self._leaf(source), self._leaf(target)
        if one == other:
            return ((source, one, target),)
        if self.levels == 2:
            uppers = range(self._upper, self._upper + self.up)
            return tuple((source, one, upper, other, target) for upper in uppers)
        pod, far = (self._upper + self._pod(host) * self.up for host in (source, target))
        if pod == far:
            return tuple((source, one, pod + j, other, target) for j in range(self.up))
        return tuple(
            (source, one, pod + i, self._core(i, j), far + i, other, target)
            for i in range(self.up)
            for j in range(self.up)
        )
