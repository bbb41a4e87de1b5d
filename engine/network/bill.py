"""Bills of materials: the parts that a network is built from, with counts and prices.

A *need* is a device, cable or transceiver that the network requires; a *part* is the product of a
price list that meets it.  Devices are counted by their ports, cables by medium and length, and a
fibre has a transceiver at each end (:func:`list_needs`, :func:`list_dimension_needs`).  A
:class:`PriceList` assigns a part to each need.  A bill with an unpriced need has no sum.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from dimsweep.engine.network.fabric import Auto, Fabric
from dimsweep.engine.network.graph import Device, Kind, Link, Medium, Network
from dimsweep.engine.network.parts import Amount, Cabling, Need, PartKind, PriceList
from dimsweep.engine.topology.blocks import Node, Switch
from dimsweep.engine.topology.topology import Dimension

Needs = Counter[Need]
_NOISE = 1e-9
_ITSELF = "said by the network itself"
FIBRE: Medium = "fibre"
_NPU = Need(PartKind.NPU)
_SWITCHES = (PartKind.SWITCH, PartKind.OCS)


@dataclass(frozen=True)
class Item:
    """One entry of a bill of materials: a number of identical parts."""

    kind: str
    part: str  # name in the price list
    title: str  # name in reports
    like: str  # properties of the need, such as ports and length
    count: float  # parts, or units of a part that is sold by ``unit``
    price: Amount | None = None  # of one part; None: unknown
    watts: Amount | None = None  # of one part; None: unknown
    unit: str = ""

    @property
    def cost(self) -> float:
        """USD of all parts of this entry; NaN without a price."""
        return math.nan if self.price is None else self.price.value * self.count

    @property
    def power(self) -> float:
        """W of all parts of this entry; NaN if unknown."""
        return math.nan if self.watts is None else self.watts.value * self.count


@dataclass(frozen=True)
class Bill:
    """The bill of materials of a network.

    It has no ``cost`` (USD) if a price is missing, and no ``power`` (W) if a power is missing.
    """

    items: tuple[Item, ...]
    missing: tuple[str, ...] = ()  # sentences about parts without a price or a count
    unpowered: tuple[str, ...] = ()  # sentences about parts without watts
    pue: float = 1.0  # power of the data centre, relative to the power of the parts

    @property
    def cost(self) -> float | None:
        """USD of all items; None if a price is missing."""
        return None if self.missing else math.fsum(item.cost for item in self.items)

    @property
    def power(self) -> float | None:
        """W of all items times the PUE of the data centre; None if a power is unknown."""
        if self.missing or self.unpowered:
            return None
        return self.pue * math.fsum(item.power for item in self.items)

    def count(self, kind: PartKind) -> float:
        """Return the number of parts of kind ``kind``, such as ``switch``."""
        return sum(item.count for item in self.items if item.kind == kind)


def build_bill(needs: Needs, prices: PriceList, missing: Iterable[str] = ()) -> Bill:
    """Return the bill of ``needs``, each met by the cheapest suitable part of a price list.

    Parameters
    ----------
    needs
        Required devices, cables and transceivers, with the number of each.
    prices
        The price list.  If it lists no NPU, the bill omits NPUs.
    missing
        Sentences about parts that could not be counted, to be repeated in the bill.
    """
    found: dict[tuple[str, Amount | None], Item] = {}
    absent, unpowered = list(missing), list[str]()
    of_networks = not prices.parts_of_kind(PartKind.NPU)
    kinds = [*PartKind]

    def order(each: tuple[Need, int]) -> tuple[int, str, tuple[tuple[float, int], ...], float]:
        return kinds.index(each[0].kind), each[0].at, each[0].ports, each[0].length

    for need, n in sorted(needs.items(), key=order):
        if not n or (of_networks and need == _NPU):
            continue
        item = _build_item(need, n, prices)
        if item is None:
            absent.append(_describe_unpriced(need, n, prices))
            continue
        if item.watts is None:
            what = f"{item.title} has no watts"
            example = f" (cost.parts.{item.part}.watts={{value: 100 W, ...}} is one)"
            unpowered.append(
                what + (example if item.part else "; the network says its price alone")
            )
        known = found.get(key := (item.title, item.price))
        if known is not None:  # the same part for another need
            like = known.like
            like += "" if item.like in like.split("; ") else f"; {item.like}"
            item = replace(known, like=like, count=known.count + item.count)
        found[key] = item
    return Bill(tuple(found.values()), tuple(absent), tuple(dict.fromkeys(unpowered)), prices.pue)


def _build_item(need: Need, n: int, prices: PriceList) -> Item | None:
    """Return the bill entry for ``n`` pieces of a need; None if no part with a price meets it."""
    watts = None if need.watts is None else Amount(need.watts, source=_ITSELF)
    if need.price is not None:
        title = need.part or f"{need.kind} of the network's own"
        own = Amount(need.price, source=_ITSELF)
        return Item(need.kind, need.part, title, need.description, n, own, watts)
    found = prices.find(need)
    if found is None:
        return None
    part, pieces = found
    count = -(-n // part.ports) if need.kind is PartKind.NPU else n * pieces
    if watts is None:  # a cable draws nothing: a transceiver does
        free = part.kind is PartKind.CABLE and part.watts is None
        watts = Amount(0.0) if free else part.watts
    return Item(need.kind, part.name, part.label, need.description, count, part.price, watts)


def _describe_unpriced(need: Need, n: int, prices: PriceList) -> str:
    """Return a sentence that names a need without a price, and how to price it."""
    traits = [need.part, need.description, f"at a {need.at}" if need.at else ""]
    like = f" ({', '.join(filter(None, traits))})" if any(traits) else ""
    what = f"{n:,} {need.kind.value if n == 1 else need.kind.plural}{like}"
    known = [part.label for part in prices.parts_of_kind(need.kind) if part.price is not None]
    has = f"the list has {', '.join(known)}" if known else "the list has none"
    keys = [f"kind: {need.kind}"]
    if need.kind is PartKind.CABLE:
        keys += [f"medium: {need.medium}", f"length: {need.length:g} m"]
    elif need.ports:
        bits = f"{need.ports[0][0] * 8e-9:g} Gb/s"
        keys += [f"ports: {max(need.n_ports, need.radix)}", f"bandwidth: {bits}"]
    keys.append('price: {value: 100 USD, date: "2026-11", source: whose, level: V}')
    name = need.part or "NAME"
    slow = all(
        need.ports and p.split(need.ports[0][0]) == 0 for p in prices.parts_of_kind(need.kind)
    )
    if known and slow:
        has += ", all slower (lanes of a link are cables side by side)"
    return f"no price for {what}; {has} (cost.parts.{name}={{{', '.join(keys)}}} is one)"


# --- a graph ------------------------------------------------------------------------------------


@lru_cache(maxsize=2)  # cost, watts and warnings ask for the same network
def list_needs(network: Network, cabling: tuple[Cabling | None, ...] = ()) -> Needs:
    """Return the parts that a network graph needs, and the number of each.

    Each lane of a pair of links in opposite directions is one cable, and each lane of a link
    without a reverse link is one.  A link without a medium is a trace on a board.  If no link has a
    medium, links have the medium of their dimension in ``cabling`` (:func:`find_cabling`), if any.
    A fibre has a transceiver at each end, except at an optical switch.  An NPU with a cable to a
    switch has a NIC; NPUs with cables to each other have none.  A switch without a cable is
    included in its board, unless the network gives its price.
    """
    if has_media(network):
        cabling = ()
    needs, ports = Needs(), dict[Node, Counter[float]]()
    cabled, lit = dict[Node, Counter[float]](), dict[Node, Counter[float]]()
    for link in network.cables():
        bandwidth, lanes = link.bandwidth / link.lanes, link.lanes
        ends = (link.source, link.target)
        medium, length = _medium_and_length(link, network, cabling)
        for node in ends:
            ports.setdefault(node, Counter())[bandwidth] += lanes
        if not medium:
            continue
        needs[
            Need(PartKind.CABLE, ((bandwidth, 1),), medium=medium, length=length, part=link.part)
        ] += lanes
        for node, other in (ends, ends[::-1]):
            kind = network.devices[node].kind
            if kind is not Kind.NPU or network.devices[other].kind is not Kind.NPU:
                cabled.setdefault(node, Counter())[bandwidth] += lanes
            if medium == FIBRE and kind is not Kind.OCS:
                lit.setdefault(node, Counter())[bandwidth] += lanes
    for node, device in network.devices.items():
        needs.update(_device_needs(node, device, ports, cabled, lit))
    return needs


def _device_needs(
    node: Node,
    device: Device,
    ports: dict[Node, Counter[float]],
    cabled: dict[Node, Counter[float]],
    lit: dict[Node, Counter[float]],
) -> Iterator[Need]:
    """Yield one device per plane with its transceivers, and the NIC of an NPU with cables."""
    kind, planes = PartKind(device.kind), device.planes
    own = Need(kind, part=device.part, price=device.price, watts=device.watts)
    if kind is PartKind.SWITCH and node not in cabled and own == Need(kind):
        return  # part of a board, as NVLink's switches in a server
    for plane in range(planes):
        if kind in _SWITCHES:
            has = _ports_of_plane(ports.get(node, Counter()), planes, plane)
            yield replace(own, ports=has, radix=(device.ports or 0) // planes)
        elif kind is PartKind.NIC:
            yield replace(own, ports=_ports_of_plane(cabled.get(node, Counter()), planes, plane))
        else:
            yield own
            if kind is PartKind.NPU and node in cabled:
                yield Need(PartKind.NIC, _ports_of_plane(cabled[node]))
        at = "switch" if kind in _SWITCHES else "nic"
        for bandwidth, n in _ports_of_plane(lit.get(node, Counter()), planes, plane):
            yield Need(PartKind.TRANSCEIVER, ((bandwidth, n),), at=at)


def has_media(network: Network) -> bool:
    """Return whether any link states a medium; if so, links without one are traces on a board."""
    return any(link.medium for link in network.links)


def find_cabling(link: Link, cabling: Sequence[Cabling | None]) -> Cabling | None:
    """Return the cabling of the dimension of a link, or of all dimensions if equal, or None."""
    if 0 <= link.dim < len(cabling):
        return cabling[link.dim]
    return cabling[0] if len({*cabling}) == 1 else None


def _medium_and_length(
    link: Link, network: Network, cabling: Sequence[Cabling | None]
) -> tuple[Medium, float]:
    if link.medium:
        return link.medium, link.length
    kinds = {network.devices[node].kind for node in (link.source, link.target)}
    there = find_cabling(link, cabling)
    if there is None or kinds == {Kind.NPU, Kind.NIC}:
        return "", 0.0
    return there.medium, link.length or there.length


def _ports_of_plane(
    ports: Counter[float], planes: int = 1, plane: int = 0
) -> tuple[tuple[float, int], ...]:
    """Return (bandwidth, count) of the ports of one plane, if ``planes`` planes share ``ports``."""
    own = {bandwidth: (n + plane) // planes for bandwidth, n in ports.items()}
    return tuple(sorted(((each, n) for each, n in own.items() if n), reverse=True))


# --- a product of dimensions ---------------------------------------------------------------------


def list_dimension_needs(
    dim: Dimension, fabric: Fabric, cables: Cabling, prices: PriceList
) -> tuple[Needs, list[str]]:
    """Return the parts that join the NPUs of one group of a dimension, and their counts.

    Also returns sentences about parts that the price list lacks.  A Switch larger than every switch
    of the list becomes the smallest fat tree of listed switches, with half of the ports leading up
    below the top (Al-Fares et al., SIGCOMM 2008); of several trees, the cheapest.  If an NPU's
    bandwidth needs several ports, each port has a separate tree (a plane).  Other blocks and all
    fabrics need the links of their wiring.
    """
    if dim.size == 1 or not cables.medium:
        return Needs(), []
    if isinstance(dim.block, Switch) and fabric == Auto():
        return _cheapest_tree_needs(dim, cables, prices)
    return _wired_needs(dim, fabric, cables, prices), []


def _cheapest_tree_needs(
    dim: Dimension, cables: Cabling, prices: PriceList
) -> tuple[Needs, list[str]]:
    found = list[tuple[float, int, str, Needs]]()
    for part in prices.parts_of_kind(PartKind.SWITCH):
        bandwidth, radix = part.ports_for(dim.bandwidth)
        if part.price is not None and bandwidth and (radix >= 4 or radix >= dim.size):
            needs = _fat_tree_needs(dim, bandwidth, radix, cables, part.name)
            bill = build_bill(needs, prices)
            cost = math.inf if bill.cost is None else bill.cost
            found.append((cost, len(bill.missing), part.name, needs))
    if not found:
        problem = f"no switch with a price can join the {dim.size} NPUs of a Switch"
        return Needs(), [f"{problem} (cost.parts.NAME={{kind: switch, ports: 64, ...}} is one)"]
    return min(found, key=lambda each: each[:3])[3], []


def _fat_tree_needs(
    dim: Dimension, bandwidth: float, radix: int, cables: Cabling, part: str
) -> Needs:
    """Return the needs of the smallest fat trees that join a dimension: one tree per NPU port.

    Half of a switch's ports lead down, and at the top all of them.  ``radix`` must be at least 4,
    or enough to join all NPUs by one switch.
    """
    n, half, planes = dim.size, radix // 2, _count_lanes(dim.bandwidth, bandwidth)
    tiers, used, needs = 1, Counter[int](), Needs()
    while n > 2 * half**tiers and n > radix:
        tiers += 1
    if tiers > 1:  # below the top as many ports down as up
        full, rest = divmod(n, half)
        used.update({radix: (tiers - 1) * full, 2 * rest: (tiers - 1) * bool(rest)})
    full, rest = divmod(n, radix)
    used.update({radix: full})
    used.update({rest: int(bool(rest))})
    for ports, switches in used.items():
        if not ports or not switches:
            continue
        needs[Need(PartKind.SWITCH, ((bandwidth, radix),), part=part)] += planes * switches
        if cables.medium == FIBRE:
            lit = Need(PartKind.TRANSCEIVER, ((bandwidth, ports),), at="switch")
            needs[lit] += planes * switches
    needs[_cable_need(bandwidth, cables)] += planes * tiers * n
    needs[Need(PartKind.NIC, ((bandwidth, planes),))] += n
    if cables.medium == FIBRE:
        needs[Need(PartKind.TRANSCEIVER, ((bandwidth, planes),), at="nic")] += n
    return needs


def _wired_needs(dim: Dimension, fabric: Fabric, cables: Cabling, prices: PriceList) -> Needs:
    """Return the needs of a fabric's links among one group of NPUs; lanes follow from bandwidth."""
    each = dim.bandwidth / fabric.links(dim)
    limits = prices.parts_of_kind(PartKind.SWITCH)
    limits += prices.parts_of_kind(PartKind.TRANSCEIVER) if cables.medium == FIBRE else []
    fastest = max((part.bandwidth for part in limits), default=0.0) or each
    lanes = _count_lanes(each, fastest)
    bandwidth, needs = each / lanes, Needs()
    pairs = dict.fromkeys(frozenset(pair) for pair in fabric.wire(dim, range(dim.size), ""))
    ports, cabled = Counter[Node](), Counter[Node]()
    for pair in pairs:
        ports.update(pair)
        if not all(isinstance(node, int) for node in pair):
            cabled.update(node for node in pair if isinstance(node, int))
        needs[_cable_need(bandwidth, cables)] += lanes
    for node, n in ports.items():
        if isinstance(node, int):
            at, side_by_side, n = "nic", 1, n * lanes
        else:
            at, side_by_side = "switch", lanes
            needs[Need(PartKind.SWITCH, ((bandwidth, n),))] += lanes
        if cables.medium == FIBRE:
            needs[Need(PartKind.TRANSCEIVER, ((bandwidth, n),), at=at)] += side_by_side
    for n in cabled.values():
        needs[Need(PartKind.NIC, ((bandwidth, n * lanes),))] += 1
    return needs


def _count_lanes(bandwidth: float, each: float) -> int:
    """Return the number of ports of ``each`` bytes/s that reach ``bandwidth`` bytes/s together."""
    return max(1, math.ceil(bandwidth / each - _NOISE))


def _cable_need(bandwidth: float, cables: Cabling) -> Need:
    return Need(PartKind.CABLE, ((bandwidth, 1),), medium=cables.medium, length=cables.length)
