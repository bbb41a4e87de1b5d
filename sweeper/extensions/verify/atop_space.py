"""A part of ATOP's space, each network once: one or two layers of switches above the NPUs.

Of its hyper-parameters (:class:`engine.network.generators.Atop`) these are left open: how many
switches a layer has (N, powers of two), into how many blocks each connection divides both layers
(H), whether NPUs are joined to the upper layer, too, how many lanes a cable between the layers has
(B), how fast a lane is, and whether the lower layer is a full mesh where there is no upper one (D,
S, P).  Each node is joined to all of its block (E).  A partition of a layer counts once, by
whatever numbers of blocks.
"""

import itertools
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.network import Medium, Need, PartKind, PriceList, Spread, Wiring
from dimsweep.engine.network.generators import Atop, Between, Within

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]
SERVER = 8  # NPUs that NVLink joins
_NEAR, _LAYER, _FAR = 3.0, 30.0, 50.0  # metres, as the generator has them
_LANES = (1, 2, 3, 4)
_SPEEDS = (25e9, 50e9)  # bytes/s of a lane


@dataclass(frozen=True)
class Limits:
    """What there may be of ``npus``: bytes/s of a ``switch`` and of all ports of an NPU, and its
    ports (section 7 of the source)."""

    npus: int
    switch: float
    port: float = 200e9
    ports: int = 8


@dataclass(frozen=True)
class Connection:
    """A connection of ``below`` nodes to ``above``: each block of ``size`` neighbours to one of
    ``classes`` of the nodes above, in turn, by cables of so many ``lanes``."""

    below: int
    above: int
    size: int
    classes: int
    lanes: int = 1

    @property
    def n_above(self) -> int:
        """The nodes above that each one is joined to."""
        return self.above // self.classes

    @property
    def n_below(self) -> int:
        """The nodes below that each one is joined to."""
        return self.below // self.classes

    @property
    def node_classes(self) -> Longs:
        """The class of each node below (below,)."""
        return np.arange(self.below) // self.size % self.classes

    def build_between(self, lower: int, upper: int) -> Between:
        blocks = (self.below // self.size, self.classes)
        return Between(lower=lower, upper=upper, blocks=blocks, width=self.lanes)


@dataclass(frozen=True)
class LayeredNetwork:
    """A network: NPUs ``low`` to the lower layer of switches, ``high`` to the upper one if to any,
    the layers ``up`` to one another if at all; or the lower layer as a ``mesh``.  A lane has
    ``speed`` bytes/s."""

    low: Connection
    high: Connection | None
    up: Connection | None
    mesh: bool
    speed: float

    @property
    def npus(self) -> int:
        return self.low.below

    def build_generator(self) -> Atop:
        upper = self.high or self.up
        layers = (self.npus, self.low.above, *([upper.above] if upper else []))
        between = [self.low.build_between(0, 1)]
        between += [self.high.build_between(0, 2)] if self.high else []
        between += [self.up.build_between(1, 2)] if self.up else []
        n = self.low.above
        inside = Within(layer=1, sizes=(n,), outward=(n - 1,), a=((1, 1),), c=(0,))
        return Atop(
            layers=layers,
            between=tuple(between),
            within=(inside,) if self.mesh else (),
            bandwidth=self.speed,
            latency=5_000_000,
            server=SERVER,
            nvlink_latency=1_000_000,
        )

    @property
    def lanes(self) -> tuple[int, int]:
        """Those of an NPU, to each layer."""
        high = self.high
        return self.low.n_above * self.low.lanes, high.n_above * high.lanes if high else 0

    @property
    def between_switches(self) -> int:
        """Lanes from switch to switch, both ways."""
        n = self.low.above
        inside = n * (n - 1) if self.mesh else 0
        return inside + (2 * n * self.up.n_above * self.up.lanes if self.up else 0)

    @property
    def ports(self) -> tuple[int, int]:
        """Those of a switch of each layer that are in use; 0 where there is none."""
        low, high, up = self.low, self.high, self.up
        n = low.n_below * low.lanes + (up.n_above * up.lanes if up else 0)
        n += (low.above - 1) * self.mesh
        above = (high.n_below * high.lanes if high else 0) + (up.n_below * up.lanes if up else 0)
        return n, above

    def cost(self, shop: "PriceCache") -> float:
        """USD, without the NPUs: what :func:`engine.cluster.network_bill` says of the graph; NaN
        where no part is so."""
        low, up, n, bw = self.low, self.up, self.npus, self.speed
        own, above = self.ports
        to_low, to_high = self.lanes
        meshed = (low.above - 1) * self.mesh
        raised = up.n_above * up.lanes if up else 0
        found = n * shop.price_part(PartKind.NIC, bw, to_low + to_high)
        found += low.above * shop.price_part(PartKind.SWITCH, bw, own)
        found += n * to_low * shop.price_cable(bw, "copper", _NEAR)
        if meshed + raised:
            found += low.above * shop.price_part(
                PartKind.TRANSCEIVER, bw, meshed + raised, "switch"
            )
        if meshed:
            found += low.above * meshed // 2 * shop.price_cable(bw, "fibre", _FAR)
        if raised:
            found += low.above * raised * shop.price_cable(bw, "fibre", _LAYER)
        if upper := self.high or up:
            each = shop.price_part(PartKind.SWITCH, bw, above)
            found += upper.above * (
                each + shop.price_part(PartKind.TRANSCEIVER, bw, above, "switch")
            )
        if to_high:
            each = to_high * shop.price_cable(bw, "fibre", _NEAR)
            found += n * (each + shop.price_part(PartKind.TRANSCEIVER, bw, to_high, "nic"))
        return found

    def describe(self) -> str:
        """What it is, in a line."""
        words = [f"{self.low.above} switches x {self.ports[0]}"]
        if upper := self.high or self.up:
            words.append(f"{upper.above} x {self.ports[1]}")
        low, high = self.lanes
        words.append(f"{low + high} ports of {self.speed * 8e-9:g} Gb/s a GPU")
        words.append(f"low {self.low.size}/{self.low.classes}")
        if self.high:
            words.append(f"high {self.high.size}/{self.high.classes}")
        if self.up:
            words.append(f"up {self.up.size}/{self.up.classes} by {self.up.lanes}")
        return ", ".join(words + ["mesh"] * self.mesh)


class PriceCache:
    """What parts cost by a list, asked for again and again; NaN for what it has not."""

    def __init__(self, prices: PriceList) -> None:
        self._prices, self._known = prices, dict[tuple[object, ...], float]()

    def price_part(self, kind: PartKind, bandwidth: float, n: int, at: str = "") -> float:
        """USD of one with ``n`` ports of a bandwidth, or of the transceivers in these."""
        return self._find_price(kind, bandwidth, n, at, "", 0.0)

    def price_cable(self, bandwidth: float, medium: Medium, length: float) -> float:
        """USD of one."""
        return self._find_price(PartKind.CABLE, bandwidth, 1, "", medium, length)

    def _find_price(
        self, kind: PartKind, bandwidth: float, n: int, at: str, medium: Medium, length: float
    ) -> float:
        key = (kind, bandwidth, n, at, medium, length)
        if key not in self._known:
            need = Need(kind, ((bandwidth, n),), medium=medium, length=length, at=at)
            found = self._prices.find(need)
            known = found is not None and found[0].price is not None
            self._known[key] = found[0].price.value * found[1] if known else math.nan  # type: ignore[index, union-attr]
        return self._known[key]


def generate_networks(limits: Limits) -> Iterator[LayeredNetwork]:
    """All networks of the space that keep the limits, and in which each NPU reaches all others."""
    for speed in _SPEEDS:
        cap = int(limits.switch / speed + 1e-9)
        lanes = min(limits.ports, int(limits.port / speed + 1e-9))
        lows = list(_connect_npus(limits.npus, cap, lanes))
        for low in lows:
            alone = (LayeredNetwork(low, None, None, mesh, speed) for mesh in (False, True))
            tall = _generate_two_layers(low, lows, limits.npus, cap, speed)
            for network in itertools.chain(alone, tall):
                fits = max(network.ports) <= cap and sum(network.lanes) <= lanes
                if fits and _is_connected(network):
                    yield network


def _generate_two_layers(
    low: Connection, highs: Sequence[Connection], npus: int, cap: int, speed: float
) -> Iterator[LayeredNetwork]:
    """All networks of two layers of switches whose lower one is joined so."""
    left = cap - low.n_below
    for above in _list_powers(2, npus // 2):
        for up in _connect_layers(low.above, above, left, cap):
            yield LayeredNetwork(low, None, up, False, speed)
    for high in highs:
        yield LayeredNetwork(low, high, None, False, speed)
        for up in _connect_layers(low.above, high.above, left, cap - high.n_below):
            yield LayeredNetwork(low, high, up, False, speed)


def _list_powers(least: int, most: int) -> list[int]:
    return [2**i for i in range(least.bit_length() - 1, most.bit_length()) if least <= 2**i <= most]


def _connect_npus(npus: int, cap: int, lanes: int) -> Iterator[Connection]:
    """All connections of NPUs to a layer of switches."""
    for above in _list_powers(2, npus // 2):
        for classes in _list_powers(1, above):
            if above // classes > lanes or npus // classes > cap:
                continue
            yield from (
                Connection(npus, above, size, classes) for size in _list_sizes(npus, classes)
            )


@cache
def _connect_layers(n: int, above: int, left: int, cap: int) -> list[Connection]:
    """All connections of two layers of switches, which have so many ports left, and above."""
    return [
        Connection(n, above, size, classes, lanes)
        for classes, lanes in itertools.product(_list_powers(1, min(n, above)), _LANES)
        if above // classes * lanes <= left and n // classes * lanes <= cap
        for size in _list_sizes(n, classes)
    ]


def _list_sizes(n: int, classes: int) -> list[int]:
    """Sizes of blocks of which there are as many as classes at least; of one class all are one."""
    return [n] if classes == 1 else _list_powers(1, n // classes)


def _is_connected(network: LayeredNetwork) -> bool:
    """Whether all servers are joined."""
    high, up = network.high, network.up
    above = (high or up).above if high or up else 0  # type: ignore[union-attr]
    return _reaches_all(network.low, high, up and replace(up, lanes=1), network.mesh, above)


@cache
def _reaches_all(
    low: Connection, high: Connection | None, up: Connection | None, mesh: bool, above: int
) -> bool:
    first = low.below // SERVER  # servers come first, then the switches of each layer
    last = first + low.above
    joined = [below | over << first for below, over in _list_class_members(low, SERVER)]
    joined += (
        [below | over << last for below, over in _list_class_members(high, SERVER)] if high else []
    )
    joined += (
        [below << first | over << last for below, over in _list_class_members(up, 1)] if up else []
    )
    joined += [_mask_bits(low.above) << first] if mesh else []
    reached, before = joined[0], 0
    while reached != before:
        before = reached
        for nodes in joined:
            if nodes & reached:
                reached |= nodes
    return reached == _mask_bits(last + above)


@cache
def _list_class_members(join: Connection, together: int) -> list[tuple[int, int]]:
    """The nodes that each class joins, those below and those above, as the bits of two numbers;
    so many neighbours below are one node ``together``."""
    below = [0] * join.classes
    for node, own in enumerate(join.node_classes.tolist()):
        below[own] |= 1 << node // together
    over = _mask_bits(join.n_above)
    return [(nodes, over << own * join.n_above) for own, nodes in enumerate(below)]


def _mask_bits(n: int) -> int:
    return (1 << n) - 1


# What the links of a layered network carry, worked out for one of all that are alike.
#
# Layers have powers of two of nodes and blocks, so a connection says which bits of a node's
# number and of those above are equal. Inverting bits in the numbers of all nodes of a layer
# leaves the network as it is, if equal bits are inverted together: a symmetry. A pattern of
# traffic that keeps it loads the links alike that it takes to one another, so few of the NPUs
# have to send.


class _BitField(NamedTuple):
    """Where the ``n`` bits of a layer's numbers lie in masks, which have those of all layers."""

    first: int
    n: int

    def bits(self, of: int, n: int) -> range:
        """``n`` of them, from the one that is worth ``of`` nodes on."""
        start = self.first + of.bit_length() - 1
        return range(start, start + n)

    def select_bits(self, mask: int) -> int:
        """Those of a mask, as a mask of the layer's own numbers."""
        return (mask >> self.first) & ((1 << self.n) - 1)


class _LinkKind(NamedTuple):
    """Links of one kind, their keys (the numbers of both ends), and masks of the bits of keys that
    symmetries invert."""

    tail: Longs
    head: Longs
    lanes: int
    bandwidth: float
    key: Longs
    masks: Sequence[int]

    @property
    def reversed(self) -> "_LinkKind":
        """Those that lead the other way."""
        return self._replace(tail=self.head, head=self.tail)


class FoldedLinks:
    """A network's links as far as they differ, for ``patterns`` that are kept by symmetries which
    invert no bits of NPUs' numbers but those below ``far`` and the highest one: swaps, and shifts
    by multiples of ``far``."""

    def __init__(self, network: LayeredNetwork, patterns: Collection[Longs], far: int) -> None:
        self._network, self._far = network, far
        upper = network.high or network.up
        counts = network.npus, network.low.above, upper.above if upper else 0
        sizes = [max(n, 1).bit_length() - 1 for n in counts]
        self._fields = [_BitField(sum(sizes[:i]), n) for i, n in enumerate(sizes)]
        self._first = np.cumsum([0, *counts]).tolist()  # of each layer's nodes, and of NVLink's
        npus, kinds = np.arange(network.npus), [*self._list_link_kinds()]
        self._senders = np.flatnonzero(_find_representative(npus, self._masks(0)) == npus)
        ends = [self._senders, *(to[self._senders] for to in patterns)]
        self._spread = Spread(_build_wiring(kinds), np.concatenate(ends))
        of, n = list[Longs](), 0  # of each link, which are alike
        for kind in kinds:
            _, own = np.unique(_find_representative(kind.key, kind.masks), return_inverse=True)
            of.append(n + own)
            n += int(own.max()) + 1
        self._class_of_link = np.concatenate(of)
        self._each = network.npus / len(self._senders) / np.bincount(self._class_of_link)

    def seconds(self, targets: Longs) -> Floats:
        """How long links that are alike are busy if NPU i sends a byte to NPU ``targets[i]``."""
        busy = self._spread.seconds(self._senders, targets[self._senders])
        return np.asarray(np.bincount(self._class_of_link, weights=busy) * self._each)

    @cached_property
    def _connections(self) -> Sequence[tuple[Connection, int, int]]:
        """The connections, each with the layers below and above."""
        network = self._network
        several = (network.low, 0, 1), (network.high, 0, 2), (network.up, 1, 2)
        return [(join, below, above) for join, below, above in several if join]

    @cached_property
    def _symmetries(self) -> Sequence[int]:
        """The symmetries that are no products of others, as masks of all layers' bits."""
        fields, npus = self._fields, self._fields[0]
        one = list(range(fields[-1].first + fields[-1].n))  # of equal bits, the first one
        for join, below, above in self._connections:
            n = join.classes.bit_length() - 1
            equal = fields[below].bits(join.size, n), fields[above].bits(join.n_above, n)
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
                own |= self._fields[layer].select_bits(symmetry) << first
                first += self._fields[layer].n
            found.add(own)
        return [*(found - {0})]

    def _list_link_kinds(self) -> Iterator[_LinkKind]:
        network = self._network
        for join, below, above in self._connections:
            up = self._build_connection_links(join, below, above)
            yield from (up, up.reversed)
        if network.mesh:
            n = network.low.above
            one, other = np.nonzero(~np.eye(n, dtype=bool))
            yield self._build_links(one, other, (1, 1), 1)
        npus, masks = np.arange(network.npus), self._masks(0)
        switch = self._first[-1] + npus // SERVER
        inside = _LinkKind(npus, switch, 1, network.build_generator().nvlink, npus, masks)
        yield from (inside, inside.reversed)

    def _build_connection_links(self, join: Connection, below: int, above: int) -> _LinkKind:
        one = np.repeat(np.arange(join.below), join.n_above)
        other = (join.node_classes[:, None] * join.n_above + np.arange(join.n_above)).reshape(-1)
        return self._build_links(one, other, (below, above), join.lanes)

    def _build_links(
        self, one: Longs, other: Longs, layers: tuple[int, int], lanes: int
    ) -> _LinkKind:
        below, above = layers
        key = one | other << self._fields[below].n
        tail, head = self._first[below] + one, self._first[above] + other
        bandwidth = lanes * self._network.speed
        return _LinkKind(tail, head, lanes, bandwidth, key, self._masks(below, above))


def _build_wiring(kinds: Sequence[_LinkKind]) -> Wiring:
    counts = [len(kind.tail) for kind in kinds]
    return Wiring(
        np.concatenate([kind.tail for kind in kinds]),
        np.concatenate([kind.head for kind in kinds]),
        np.repeat([float(kind.lanes) for kind in kinds], counts),
        np.repeat([kind.bandwidth for kind in kinds], counts),
    )


def _find_representative(numbers: Longs, masks: Sequence[int]) -> Longs:
    """The least of the numbers that each one is made by inverting the bits of masks, which share
    none."""
    found = numbers.copy()
    for mask in masks:
        found ^= np.where(found & (mask & -mask), mask, 0)
    return found
