"""What the links of a layered network carry, worked out for one of all that are alike.

Layers have powers of two of nodes and blocks, so a connection says which bits of a node's number
and of those above are equal.  Inverting bits in the numbers of all nodes of a layer leaves the
network as it is, if equal bits are inverted together: a symmetry.  A pattern of traffic that keeps
it loads the links alike that it takes to one another, so few of the NPUs have to send.
"""

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dimsweep.engine.network import Spread, Wiring
from dimsweep.sweeper.questions.networks.layered import SERVER, Joined, Layered, Longs
from dimsweep.sweeper.questions.networks.traffic import Floats


class _Field(NamedTuple):
    """Where the ``n`` bits of a layer's numbers lie in masks, which have those of all layers."""

    first: int
    n: int

    def bits(self, of: int, n: int) -> range:
        """``n`` of them, from the one that is worth ``of`` nodes on."""
        start = self.first + of.bit_length() - 1
        return range(start, start + n)

    def part(self, mask: int) -> int:
        """Those of a mask, as a mask of the layer's own numbers."""
        return (mask >> self.first) & ((1 << self.n) - 1)


class _Links(NamedTuple):
    """Links of one kind, their keys (the numbers of both ends), and masks of the bits of keys that
    symmetries invert."""

    tail: Longs
    head: Longs
    lanes: int
    bandwidth: float
    key: Longs
    masks: Sequence[int]

    @property
    def back(self) -> "_Links":
        """Those that lead the other way."""
        return self._replace(tail=self.head, head=self.tail)


class Folded:
    """A network's links as far as they differ, for ``patterns`` that are kept by symmetries which
    invert no bits of NPUs' numbers but those below ``far`` and the highest one: swaps, and shifts
    by multiples of ``far``."""

    def __init__(self, network: Layered, patterns: Collection[Longs], far: int) -> None:
        self._network, self._far = network, far
        upper = network.high or network.up
        counts = network.npus, network.low.above, upper.above if upper else 0
        sizes = [max(n, 1).bit_length() - 1 for n in counts]
        self._fields = [_Field(sum(sizes[:i]), n) for i, n in enumerate(sizes)]
        self._first = np.cumsum([0, *counts]).tolist()  # of each layer's nodes, and of NVLink's
        npus, kinds = np.arange(network.npus), [*self._kinds()]
        self._senders = np.flatnonzero(_smallest(npus, self._masks(0)) == npus)
        ends = [self._senders, *(to[self._senders] for to in patterns)]
        self._spread = Spread(_wiring(kinds), np.concatenate(ends))
        of, n = list[Longs](), 0  # of each link, which are alike
        for kind in kinds:
            _, own = np.unique(_smallest(kind.key, kind.masks), return_inverse=True)
            of.append(n + own)
            n += int(own.max()) + 1
        self._of = np.concatenate(of)
        self._each = network.npus / len(self._senders) / np.bincount(self._of)

    def seconds(self, targets: Longs) -> Floats:
        """How long links that are alike are busy if NPU i sends a byte to NPU ``targets[i]``."""
        busy = self._spread.seconds(self._senders, targets[self._senders])
        return np.asarray(np.bincount(self._of, weights=busy) * self._each)

    @cached_property
    def _joins(self) -> Sequence[tuple[Joined, int, int]]:
        """The connections, each with the layers below and above."""
        network = self._network
        several = (network.low, 0, 1), (network.high, 0, 2), (network.up, 1, 2)
        return [(join, below, above) for join, below, above in several if join]

    @cached_property
    def _symmetries(self) -> Sequence[int]:
        """The symmetries that are no products of others, as masks of all layers' bits."""
        fields, npus = self._fields, self._fields[0]
        one = list(range(fields[-1].first + fields[-1].n))  # of equal bits, the first one
        for join, below, above in self._joins:
            n = join.classes.bit_length() - 1
            equal = fields[below].bits(join.size, n), fields[above].bits(join.room, n)
            for bits in zip(*equal, strict=True):
                firsts = {one[bit] for bit in bits}
                one = [min(firsts) if first in firsts else first for first in one]
        fixed = npus.bits(self._far, npus.n - self._far.bit_length())
        kept = {one[bit] for bit in fixed}
        masks = dict[int, int]()
        for bit, first in enumerate(one):
            if first not in kept:
                masks[first] = masks.get(first, 0) | 1 << bit
        return [*masks.values()]

    def _masks(self, *layers: int) -> list[int]:
        """Symmetries of links between two layers, or of a layer's nodes, as masks of their keys."""
        found = set[int]()
        for symmetry in self._symmetries:
            own, first = 0, 0
            for layer in layers:
                own |= self._fields[layer].part(symmetry) << first
                first += self._fields[layer].n
            found.add(own)
        return [*(found - {0})]

    def _kinds(self) -> Iterator[_Links]:
        network = self._network
        for join, below, above in self._joins:
            up = self._joined(join, below, above)
            yield from (up, up.back)
        if network.mesh:
            n = network.low.above
            one, other = np.nonzero(~np.eye(n, dtype=bool))
            yield self._links(one, other, (1, 1), 1)
        npus, masks = np.arange(network.npus), self._masks(0)
        switch = self._first[-1] + npus // SERVER
        inside = _Links(npus, switch, 1, network.generator().nvlink, npus, masks)
        yield from (inside, inside.back)

    def _joined(self, join: Joined, below: int, above: int) -> _Links:
        one = np.repeat(np.arange(join.below), join.room)
        other = (join.of[:, None] * join.room + np.arange(join.room)).reshape(-1)
        return self._links(one, other, (below, above), join.lanes)

    def _links(self, one: Longs, other: Longs, layers: tuple[int, int], lanes: int) -> _Links:
        below, above = layers
        key = one | other << self._fields[below].n
        tail, head = self._first[below] + one, self._first[above] + other
        bandwidth = lanes * self._network.speed
        return _Links(tail, head, lanes, bandwidth, key, self._masks(below, above))


def _wiring(kinds: Sequence[_Links]) -> Wiring:
    counts = [len(kind.tail) for kind in kinds]
    return Wiring(
        np.concatenate([kind.tail for kind in kinds]),
        np.concatenate([kind.head for kind in kinds]),
        np.repeat([float(kind.lanes) for kind in kinds], counts),
        np.repeat([kind.bandwidth for kind in kinds], counts),
    )


def _smallest(numbers: Longs, masks: Sequence[int]) -> Longs:
    """The least of the numbers that each one is made by inverting the bits of masks, which share
    none."""
    found = numbers.copy()
    for mask in masks:
        found ^= np.where(found & (mask & -mask), mask, 0)
    return found
