"""A part of ATOP's space of networks: one or two layers of switches above the NPUs.

These hyper-parameters (:class:`engine.network.generators.Atop`) vary: the number of switches of a
layer (N, powers of two), the blocks into which each connection divides both layers (H), whether
NPUs also connect to the upper layer, the lanes of a cable between layers (B), the speed of a lane,
and whether a single layer is a full mesh (D, S, P).  Each node connects to all nodes of its block
(E).  Each network is generated once.
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
SERVER = 8  # NPUs on NVLink
_NEAR, _LAYER, _FAR = 3.0, 30.0, 50.0  # metres, as the generator has them
_LANES = (1, 2, 3, 4)
_SPEEDS = (25e9, 50e9)  # bytes/s of a lane


@dataclass(frozen=True)
class Limits:
    """Limits of the space (section 7 of the source)."""

    npus: int
    switch: float  # bytes/s of a switch
    port: float = 200e9  # bytes/s of all ports of an NPU
    ports: int = 8  # of an NPU


@dataclass(frozen=True)
class Connection:
    """How the nodes of two adjacent layers are connected.

    The nodes below are divided into blocks, and the nodes above into classes. Block i connects to
    class i modulo the number of classes.
    """

    below: int  # nodes
    above: int  # nodes
    size: int  # neighbouring nodes of a block below
    classes: int  # classes of nodes above
    lanes: int = 1  # of a cable

    @property
    def n_above(self) -> int:
        """Number of nodes above to which each node below connects."""
        return self.above // self.classes

    @property
    def n_below(self) -> int:
        """Number of nodes below to which each node above connects."""
        return self.below // self.classes

    @property
    def node_classes(self) -> Longs:
        """Class of each node below (nodes below,)."""
        return np.arange(self.below) // self.size % self.classes

    def build_between(self, lower: int, upper: int) -> Between:
        """Return the generator's connection of the layers numbered ``lower`` and ``upper``."""
        blocks = (self.below // self.size, self.classes)
        return Between(lower=lower, upper=upper, blocks=blocks, width=self.lanes)


@dataclass(frozen=True)
class LayeredNetwork:
    """A network of NPUs below one or two layers of switches."""

    low: Connection  # of the NPUs to the lower layer
    high: Connection | None  # of the NPUs to the upper layer
    up: Connection | None  # of the lower to the upper layer
    mesh: bool  # the lower layer is a full mesh
    speed: float  # bytes/s of a lane

    @property
    def npus(self) -> int:
        """Number of NPUs."""
        return self.low.below

    def build_generator(self) -> Atop:
        """Return the generator that builds the network's graph."""
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
        """Number of an NPU's lanes to each layer of switches."""
        high = self.high
        return self.low.n_above * self.low.lanes, high.n_above * high.lanes if high else 0

    @property
    def between_switches(self) -> int:
        """Number of lanes between switches, both directions counted."""
        n = self.low.above
        inside = n * (n - 1) if self.mesh else 0
        return inside + (2 * n * self.up.n_above * self.up.lanes if self.up else 0)

    @property
    def ports(self) -> tuple[int, int]:
        """Used ports of a switch of each layer; 0 without an upper layer."""
        low, high, up = self.low, self.high, self.up
        n = low.n_below * low.lanes + (up.n_above * up.lanes if up else 0)
        n += (low.above - 1) * self.mesh
        above = (high.n_below * high.lanes if high else 0) + (up.n_below * up.lanes if up else 0)
        return n, above

    def cost(self, shop: "PriceCache") -> float:
        """Return the price in USD without NPUs, or NaN if a part is missing.

        It equals :func:`engine.cluster.network_bill` of the graph.
        """
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
        """Return a description of the network in one line."""
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
    """A price list with cached prices of parts; NaN for missing parts."""

    def __init__(self, prices: PriceList) -> None:
        self._prices, self._known = prices, dict[tuple[object, ...], float]()

    def price_part(self, kind: PartKind, bandwidth: float, n: int, at: str = "") -> float:
        """Return the USD of a part with ``n`` ports, or of the transceivers of ``n`` ports."""
        return self._find_price(kind, bandwidth, n, at, "", 0.0)

    def price_cable(self, bandwidth: float, medium: Medium, length: float) -> float:
        """Return the price (USD) of a cable."""
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
    """Yield all connected networks of the space within the limits."""
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
    """Yield all networks of two layers of switches with a given lower connection."""
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
    """Yield all ways to connect NPUs to a layer of switches with up to ``cap`` ports."""
    for above in _list_powers(2, npus // 2):
        for classes in _list_powers(1, above):
            if above // classes > lanes or npus // classes > cap:
                continue
            yield from (
                Connection(npus, above, size, classes) for size in _list_sizes(npus, classes)
            )


@cache
def _connect_layers(n: int, above: int, left: int, cap: int) -> list[Connection]:
    """Return all ways to connect two layers of switches with ``left`` and ``cap`` free ports."""
    return [
        Connection(n, above, size, classes, lanes)
        for classes, lanes in itertools.product(_list_powers(1, min(n, above)), _LANES)
        if above // classes * lanes <= left and n // classes * lanes <= cap
        for size in _list_sizes(n, classes)
    ]


def _list_sizes(n: int, classes: int) -> list[int]:
    """Return block sizes that give at least ``classes`` blocks; one class has one block."""
    return [n] if classes == 1 else _list_powers(1, n // classes)


def _is_connected(network: LayeredNetwork) -> bool:
    """Return whether the network connects all servers."""
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
    """Return the nodes below and above of each class, as two bit masks.

    ``together`` neighbours below count as one node.
    """
    below = [0] * join.classes
    for node, own in enumerate(join.node_classes.tolist()):
        below[own] |= 1 << node // together
    over = _mask_bits(join.n_above)
    return [(nodes, over << own * join.n_above) for own, nodes in enumerate(below)]


def _mask_bits(n: int) -> int:
    return (1 << n) - 1


# Loads of links, computed for one link of each equivalence class.
#
# Numbers of nodes and blocks are powers of two, so a connection requires that some bits of a node's
# number equal bits of the number of the node above.  Inverting bits in the numbers of all nodes of
# a layer maps the network to itself if equal bits are inverted together: a symmetry.  A pattern of
# traffic that a symmetry preserves loads equivalent links equally, so only some NPUs have to send.


class _BitField(NamedTuple):
    """The position of a layer's node number (``n`` bits) in masks over all layers."""

    first: int
    n: int

    def bits(self, of: int, n: int) -> range:
        """Return the positions of ``n`` bits of the node number, from the bit of value ``of``."""
        start = self.first + of.bit_length() - 1
        return range(start, start + n)

    def select_bits(self, mask: int) -> int:
        """Return the bits of a mask that belong to this layer."""
        return (mask >> self.first) & ((1 << self.n) - 1)


class _LinkKind(NamedTuple):
    """Links of one kind, between two layers in one direction."""

    tail: Longs
    head: Longs
    lanes: int
    bandwidth: float
    key: Longs  # numbers of both ends
    masks: Sequence[int]  # bits of keys that symmetries invert

    @property
    def reversed(self) -> "_LinkKind":
        """The links in the opposite direction."""
        return self._replace(tail=self.head, head=self.tail)


class FoldedLinks:
    """Equivalence classes of a network's links, for patterns of swaps and of shifts by ``far``.

    The symmetries that preserve these patterns invert the highest bit of NPUs' numbers, and bits
    below ``far``.
    """

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
        of, n = list[Longs](), 0  # class of each link
        for kind in kinds:
            _, own = np.unique(_find_representative(kind.key, kind.masks), return_inverse=True)
            of.append(n + own)
            n += int(own.max()) + 1
        self._class_of_link = np.concatenate(of)
        self._each = network.npus / len(self._senders) / np.bincount(self._class_of_link)

    def seconds(self, targets: Longs) -> Floats:
        """Return each class of links' busy seconds if NPU i sends a byte to ``targets[i]``."""
        busy = self._spread.seconds(self._senders, targets[self._senders])
        return np.asarray(np.bincount(self._class_of_link, weights=busy) * self._each)

    @cached_property
    def _connections(self) -> Sequence[tuple[Connection, int, int]]:
        """Connections of adjacent layers, each with the numbers of the layers below and above."""
        network = self._network
        several = (network.low, 0, 1), (network.high, 0, 2), (network.up, 1, 2)
        return [(join, below, above) for join, below, above in several if join]

    @cached_property
    def _symmetries(self) -> Sequence[int]:
        """Generators of the symmetries, as masks of all layers' bits."""
        fields, npus = self._fields, self._fields[0]
        one = list(range(fields[-1].first + fields[-1].n))  # the first of several equal bits
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
        """Return the symmetries of a layer's nodes, or of the links of two layers, as bit masks."""
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
    """Return the smallest number that each number can become by inverting disjoint bit masks."""
    found = numbers.copy()
    for mask in masks:
        found ^= np.where(found & (mask & -mask), mask, 0)
    return found
