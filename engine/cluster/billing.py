"""Bills of whole clusters, priced by discrete parts or by bandwidth.

The network is a product of dimensions or a graph.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.cluster.cost import Prices, TierPrice
from dimsweep.engine.errors import InfeasibleError
from dimsweep.engine.network.bill import (
    Bill,
    Item,
    Needs,
    build_bill,
    find_cabling,
    has_media,
    list_dimension_needs,
    list_needs,
)
from dimsweep.engine.network.fabric import Fabric, fit_fabrics
from dimsweep.engine.network.graph import Device, Kind, Link, Network
from dimsweep.engine.network.parts import Amount, Need, Part, PartKind, PriceList
from dimsweep.engine.topology.blocks import Node
from dimsweep.engine.topology.topology import Topology

_OF_NO_TIER = (
    "links of the network belong to no dimension, so no tier prices them (dim of each link says "
    "which it is of; a list of whole parts, cost.parts, needs none)"
)


class OtherPart(NamedTuple):
    """The NPUs, by number, that are bought as another ``part`` than the cluster's NPU."""

    part: Part
    at: tuple[int, ...]


def product_bill(
    topology: Topology,
    fabrics: Sequence[Fabric],
    prices: PriceList,
    others: Sequence[OtherPart] = (),
) -> Bill:
    """Return the bill of a topology (a product of dimensions), in whole parts.

    Raises
    ------
    DimsweepError
        For fabrics that do not suit the dimensions.
    """
    n = topology.n_npus - sum(len(other.at) for other in others)
    needs, missing = Needs({Need(PartKind.NPU): n}), list[str]()
    for dim, fabric in fit_fabrics(topology, fabrics):
        cables = prices.cables(dim.tier)
        if dim.size == 1:
            continue
        if cables is None:
            what = f"no medium for dimension {dim.name}, tier {dim.tier or 'none'}"
            hint = f"cost.tiers.{dim.tier or 'NAME'}.medium=fibre, copper, or board for none at all"
            missing.append(f"{what} ({hint})")
            continue
        line, unknown = list_dimension_needs(dim, fabric, cables, prices)
        missing += unknown
        for need, n in line.items():
            needs[need] += n * (topology.n_npus // dim.size)
    return add_npus(build_bill(needs, prices, missing), ((o.part, len(o.at)) for o in others))


def add_npus(bill: Bill, npus: Iterable[tuple[Part, int]]) -> Bill:
    """Return ``bill`` with one more entry for each (part, number of NPUs) in ``npus``."""
    items, missing, unpowered = list[Item](), list[str](), list[str]()
    for part, n in npus:
        count = -(-n // part.ports)
        item = Item(part.kind, part.name, part.label, "", count, part.price, part.watts)
        items += [item] * bool(n)
        what = f"the {n:,} NPUs of {part.name}"
        if n and item.price is None:
            missing.append(f"no price for {what} (cost: {{price: 20 kUSD}} there is one)")
        if n and item.watts is None:
            unpowered.append(f"no watts for {what} (cost: {{watts: 1 kW}} there says them)")
    above = sum(item.kind == PartKind.NPU for item in bill.items)
    return replace(
        bill,
        items=(*bill.items[:above], *items, *bill.items[above:]),
        missing=(*bill.missing, *missing),
        unpowered=(*bill.unpowered, *unpowered),
    )


def network_bill(
    network: Network, topology: Topology, prices: PriceList, others: Sequence[OtherPart] = ()
) -> Bill:
    """Return the bill of a network graph, in whole parts.

    If no link has a medium, links have the medium of their dimension's tier.  An NPU whose part,
    price or power is in the graph is never billed as one of ``others``.
    """
    cabling = tuple(prices.cables(dim.tier) for dim in topology.dims)
    needs, plain = Needs(list_needs(network, cabling)), Need(PartKind.NPU)

    def is_plain(device: Device) -> bool:  # the network says nothing about its part
        return not device.part and device.price is None and device.watts is None

    others = [
        other._replace(at=tuple(npu for npu in other.at if is_plain(network.devices[npu])))
        for other in others
    ]
    needs[plain] -= sum(len(other.at) for other in others)
    missing = []
    is_known = all(find_cabling(link, cabling) is not None for link in network.cables())
    if not has_media(network) and not is_known:
        missing.append(
            "no link of the network says its medium, so not all cables are counted (medium: fibre "
            "or copper of its links, or cost.tiers.NAME.medium for the links of a dimension)"
        )
    return add_npus(build_bill(needs, prices, missing), ((o.part, len(o.at)) for o in others))


@dataclass(frozen=True)
class WholePrices(Prices):
    """The cost of a topology in whole parts, as a function of its bandwidths.

    The cost rises in steps with bandwidth.  With ``watts``, amounts are power (W) instead of USD.
    """

    topology: Topology = field(kw_only=True)
    fabrics: tuple[Fabric, ...] = field(kw_only=True)
    parts: PriceList = field(kw_only=True)
    others: tuple[OtherPart, ...] = field(kw_only=True, default=())
    watts: bool = field(kw_only=True, default=False)
    _known: dict[tuple[float, ...], float] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def cost(self, bandwidth: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the USD (or W) of the network for bandwidths of shape (..., D) in bytes/s.

        Raises :class:`InfeasibleError` for a bandwidth that no parts of the list provide.
        """
        costs = []
        for row in map(tuple, bandwidth.reshape(-1, bandwidth.shape[-1]).tolist()):
            if row not in self._known:
                bill = self.bill(row)
                total = bill.power if self.watts else bill.cost
                if total is None:
                    raise InfeasibleError((*bill.missing, *bill.unpowered)[0], where="cost")
                self._known[row] = total
            costs.append(self._known[row])
        return np.array(costs).reshape(bandwidth.shape[:-1])

    @property
    def is_linear(self) -> bool:
        """False: parts are bought as units, so the cost is not proportional to bandwidth."""
        return False

    def bill(self, bandwidth: Sequence[float]) -> Bill:
        """Return the bill of the network with these bandwidths (bytes/s, one per dimension)."""
        pairs = zip(self.topology.dims, bandwidth, strict=True)
        dims = tuple(replace(dim, bandwidth=float(b)) for dim, b in pairs)
        return product_bill(Topology(dims), self.fabrics, self.parts, self.others)


# --- prices of bandwidth --------------------------------------------------------------------------

_GB = 1e9
_AMOUNTS = {"link": "GB/s", "switch": "GB/s", "nic": "GB/s", "port": "", "block": ""}
_CALLED = {
    "link": "links",
    "switch": "switch ports",
    "nic": "NICs",
    "port": "ports",
    "block": "blocks",
}


def linear_bill(
    topology: Topology,
    tiers: Mapping[str, TierPrice],
    fabrics: Sequence[Fabric] = (),
    network: Network | None = None,
    watts: Mapping[str, TierPrice] | None = None,
) -> Bill:
    """Return the bill of a network, priced by tier; it contains no NPUs.

    Links, switches and NICs are billed by GB/s, ports and blocks by count.  A product of dimensions
    has the amounts of :func:`network_prices`.  A graph is counted:

    - A cable is one link of its bandwidth; a cable between two NPUs is two.
    - Every end at a switch is a switch port.
    - Every end at a NIC, or at an NPU without a NIC, is a NIC.
    - A link from an NPU to its NIC is part of the NIC.  A link without dimension on a board is part
      of the board.
    - An NPU has a port in each dimension in which it has links, and each switch is a block.
    - A link belongs to the tier of its dimension.
    """
    if network is None:
        amounts, missing = _amounts_of_product(topology, fabrics), list[str]()
    else:
        amounts, unknown = _amounts_of_graph(network, topology)
        missing = [*unknown]
    items = list[Item]()
    order = [dim.tier for dim in topology.dims]

    def place(each: tuple[tuple[str, str], float]) -> tuple[int, int]:
        tier, name = each[0]
        return order.index(tier) if tier in order else len(order), [*_AMOUNTS].index(name)

    for (tier, name), amount in sorted(amounts.items(), key=place):
        if not amount:
            continue
        price = getattr(tiers.get(tier, TierPrice()), name)
        draws = getattr((watts or {}).get(tier, TierPrice()), name)
        if name == "link" and price is None:
            missing.append(
                f"no price for links of tier {tier or 'none'} (cost.tiers.{tier or 'NAME'}.link="
                "'10 USD/(GB/s)' is one)"
            )
        if price or draws or name == "link":
            unit = _AMOUNTS[name]
            scale = _GB if unit else 1.0
            each = None if price is None else Amount(price * scale)
            drawn = Amount((draws or 0.0) * scale) if tier in (watts or {}) else None
            title = f"{_CALLED[name]} ({tier})"
            items.append(Item(name, f"{tier}.{name}", title, "", amount / scale, each, drawn, unit))
    lit = {tier for tier, each in (watts or {}).items() if each.link is not None}
    unlit = sorted({tier for tier, _ in amounts} - lit)
    unpowered = [f"no watts for links of tier {', '.join(unlit)}"] if unlit else []
    return Bill(tuple(items), tuple(dict.fromkeys(missing)), tuple(unpowered))


def _amounts_of_product(
    topology: Topology, fabrics: Sequence[Fabric]
) -> dict[tuple[str, str], float]:
    """Return the amount of each (tier, part): bytes/s for links and the like, else a count."""
    n, amounts = topology.n_npus, defaultdict[tuple[str, str], float](float)
    for dim, fabric in fit_fabrics(topology, fabrics):
        if dim.size == 1:
            continue
        bill, whole = fabric.bill(dim), n * dim.bandwidth
        amounts[dim.tier, "link"] += whole * bill.links
        for part in dim.block.parts:
            times = bill.ports if part == "switch" else 1.0
            amounts[dim.tier, part] += whole * times
        amounts[dim.tier, "port"] += n
        amounts[dim.tier, "block"] += n // dim.size * bill.ports
    return amounts


@lru_cache(maxsize=2)  # cost, watts and warnings ask for the same network
def _amounts_of_graph(
    network: Network, topology: Topology
) -> tuple[dict[tuple[str, str], float], list[str]]:
    import networkx as nx  # here: few runs build a network

    amounts, missing = defaultdict[tuple[str, str], float](float), list[str]()
    ports, blocks = set[tuple[str, int, Node]](), dict[Node, str]()
    direct = dict[tuple[str, int], list[tuple[Node, Node]]]()  # links between NPUs
    boards = has_media(network)
    for link in network.cables():
        ends = (link.source, link.target)
        kinds = [network.devices[node].kind for node in ends]
        tier = _tier(link, topology)
        if {*kinds} == {Kind.NPU, Kind.NIC} or (boards and not link.medium and link.dim < 0):
            continue
        if tier is None:
            missing.append(_OF_NO_TIER)
            continue
        back = network.number.get((link.target, link.source))
        both = [link.bandwidth, *([] if back is None else [network.links[back].bandwidth])]
        if {*kinds} == {Kind.NPU}:
            direct.setdefault((tier, link.dim), []).append(ends)
            amounts[tier, "link"] += math.fsum(both)
        else:
            amounts[tier, "link"] += max(both)
        for node, kind in zip(ends, kinds, strict=True):
            if kind is Kind.NPU:
                ports.add((tier, link.dim, node))
            if kind in (Kind.NPU, Kind.NIC) and {*kinds} != {Kind.NPU}:
                amounts[tier, "nic"] += max(both)
            elif kind is not Kind.NPU:
                amounts[tier, "switch"] += max(both)
                blocks.setdefault(node, tier)
    for tier, _, _ in ports:
        amounts[tier, "port"] += 1
    for tier in blocks.values():
        amounts[tier, "block"] += 1
    for (tier, _), pairs in direct.items():
        # Links that hang together are one block: a ring, or a mesh.
        amounts[tier, "block"] += int(nx.number_connected_components(nx.Graph(pairs)))
    return amounts, list(dict.fromkeys(missing))


def _tier(link: Link, topology: Topology) -> str | None:
    """Return the price tier of a link's dimension, or of all dimensions if equal, or None."""
    if 0 <= link.dim < len(topology.dims):
        return topology.dims[link.dim].tier
    tiers = {dim.tier for dim in topology.dims}
    return tiers.pop() if len(tiers) == 1 else None
