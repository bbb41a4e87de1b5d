"""Prices and power of a cluster, per bandwidth or per part, and its bill of materials."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import model_validator

from dimsweep.engine import DimsweepError, Prices, Topology
from dimsweep.engine import cluster as engine
from dimsweep.engine.cluster import (
    OtherPart,
    WholePrices,
    add_npus,
    linear_bill,
    network_bill,
    network_prices,
    product_bill,
)
from dimsweep.engine.network import Amount, Bill, Cabling, Fabric, Network, PartKind, PriceList
from dimsweep.engine.network import Part as EnginePart
from dimsweep.engine.settings import list_settings
from dimsweep.sweeper.config.catalogue import (
    Medium,
    Metres,
    SoldPart,
    engine_medium,
    load_catalogue,
)
from dimsweep.sweeper.part import (
    MoneyOrNone,
    Number,
    Part,
    Power,
    PowerPerBandwidth,
    PriceOfEnergy,
    Seconds,
    default,
    mirror,
    naming_key,
    preserve_errors,
)

_NAME = re.compile(r"[\w-]+")


_TIER = tuple(each.name for each in list_settings(engine.TierPrice))


class TierPrice(mirror(engine.TierPrice)):  # type: ignore[misc]
    """Prices of a network tier: the settings of :class:`engine.cluster.TierPrice`, or of parts."""

    #: Medium of the tier's links, for prices of parts; links on a board need no part.
    medium: Medium | None = None
    #: Length of one link, for prices of parts.
    length: Metres | None = None

    @property
    def is_linear(self) -> bool:
        """True if the tier has a price per bandwidth, or a fixed price."""
        return any(getattr(self, name) for name in _TIER)


class TierPower(Part):
    """Power of a tier's parts, with the keys of :class:`TierPrice`."""

    link: PowerPerBandwidth | None = None
    switch: PowerPerBandwidth | None = None
    nic: PowerPerBandwidth | None = None
    port: Power = default("0 W")
    block: Power = default("0 W")


class ClusterPower(Part):
    """Power of a cluster: of its NPUs and of each network tier."""

    #: Power by tier.
    tiers: dict[str, TierPower] = default(dict)
    #: Power of one NPU with its share of the server.
    npu: Power = default("0 W")
    #: Power drawn by the data centre for each watt of its machines.
    pue: Number = 1.0


class Cost(Part):
    """A price list for a cluster: prices per bandwidth of ``tiers``, or prices of ``parts``."""

    #: Prices by tier.
    tiers: dict[str, TierPrice] = default(dict)
    #: Price of one NPU.
    npu: MoneyOrNone = default("0 USD")
    #: Parts that are bought as units, by name; conf/parts.yaml describes the parts that it names.
    parts: dict[str, SoldPart] = default(dict)
    #: Power of the same things.
    power: ClusterPower = default(ClusterPower)
    #: Time over which the cluster is paid, such as 4 year; gives the price of a token.
    lifetime: Seconds | None = None
    #: Price of electricity, such as 0.08 USD/kWh; adds to the price of a token.
    electricity: PriceOfEnergy = default("0 USD/kWh")
    #: Machines that the list prices; none named: any.
    machines: tuple[str, ...] = ()

    @model_validator(mode="before")
    @classmethod
    @preserve_errors
    def _fill_in(cls, value: Any) -> Any:
        """Add the catalogue's descriptions to parts that are priced by name."""
        parts = value.get("parts") if isinstance(value, Mapping) else None
        if not isinstance(parts, Mapping) or not parts:
            return value
        known = load_catalogue().parts
        filled = {
            name: {**_catalogue_values(known[name]), **each}
            if name in known and isinstance(each, Mapping)
            else each
            for name, each in parts.items()
        }
        return {**value, "parts": filled}

    @model_validator(mode="after")
    @preserve_errors
    def _check(self) -> "Cost":
        if not 1 <= self.power.pue < 10:
            problem = f"{self.power.pue:g}; it must be at least 1 and less than 10"
            hint = "1 counts the machines only; with cooling, 1.3 is typical"
            raise DimsweepError(problem, where="power.pue", hint=hint, code="out-of-range")
        if not self.parts:
            return self
        for name, tier in self.tiers.items():
            if tier.is_linear:
                raise DimsweepError(
                    "the list prices bandwidth here, and whole parts in cost.parts",
                    where=f"tiers.{name}",
                    hint="keep only medium and length of the tier, or leave out cost.parts",
                    code="conflict",
                )
        if self.power.tiers:
            problem, hint = "cost.parts lists whole parts", "give watts next to the price of a part"
            raise DimsweepError(problem, where="power.tiers", hint=hint, code="conflict")
        self.price_list()
        return self

    def price_list(self) -> PriceList:
        """Return the engine's price list of parts, with NPUs if ``npu`` prices them.

        Raises :class:`DimsweepError` naming the wrong part.
        """
        parts = []
        for name, sold in self.parts.items():
            with naming_key(f"parts.{name}"):
                if not _NAME.fullmatch(name):
                    problem = f"{name!r} is not a valid name of a part"
                    hint = "use letters, digits, _ and -; a title may have other characters"
                    raise DimsweepError(problem, hint=hint, code="bad-syntax")
                parts.append(sold.build(name))
        if (own := self.npu_part) is not None:
            if any(part.kind is PartKind.NPU for part in parts):
                problem = "NPUs are priced here and by a part"
                hint = "leave out cost.npu and cost.power.npu, or the part"
                raise DimsweepError(problem, where="npu", hint=hint, code="duplicate")
            parts.append(own)
        cabling = {
            name: Cabling(engine_medium(tier.medium), float(tier.length or 0))
            for name, tier in self.tiers.items()
            if tier.medium is not None
        }
        return PriceList(tuple(parts), tuple(cabling.items()), self.power.pue)

    @property
    def npu_part(self) -> EnginePart | None:
        """Part of the bill that is one NPU; None if an NPU has no separate price and power."""
        if not self.npu and not self.power.npu:
            return None
        own = Amount(float(self.npu)), Amount(float(self.power.npu))
        return EnginePart("npu", PartKind.NPU, "NPUs", price=own[0], watts=own[1])

    @property
    def has_npus(self) -> bool:
        """True if the total cost includes the NPUs."""
        return bool(self.npu_price or self.power.npu)

    @property
    def server(self) -> SoldPart | None:
        """The server or NPU with the lowest price per NPU among the parts.

        It is None if no part has NPUs.
        """
        servers = [part for part in self.parts.values() if part.kind is PartKind.NPU and part.price]
        return min(servers, key=_npu_share, default=None)

    @property
    def npu_price(self) -> float:
        """Price of one NPU (USD), separate or as a share of a server; 0 if unpriced."""
        return float(self.npu) if self.server is None else _npu_share(self.server)


def _npu_share(server: SoldPart) -> float:
    """Return the price of a server divided by its number of NPUs (USD)."""
    assert server.price is not None
    return float(server.price.value) / server.ports


def _catalogue_values(part: SoldPart) -> dict[str, Any]:
    """Return the keys of a part of the catalogue that differ from their defaults."""
    usual = SoldPart.defaults()
    return {name: each for name, each in part.plain().items() if each != usual[name]}


@dataclass(frozen=True)
class Purchase:
    """A network and its NPUs, bought at the prices of one price list."""

    cost: Cost
    topology: Topology
    fabrics: tuple[Fabric, ...] = ()
    graph: Network | None = None  # replaces the fabrics
    others: tuple[OtherPart, ...] = ()  # NPUs that are bought as another part

    def bill(self) -> Bill:
        """Return the bill of materials, including parts without a price."""
        cost, others = self.cost, self.others
        if cost.parts and self.graph is not None:
            return network_bill(self.graph, self.topology, cost.price_list(), others)
        if cost.parts:
            return product_bill(self.topology, self.fabrics, cost.price_list(), others)
        tables = _build_tiers(cost.tiers), _build_tiers(cost.power.tiers)
        bill = linear_bill(self.topology, tables[0], self.fabrics, self.graph, tables[1])
        n = self.topology.n_npus if self.graph is None else self.graph.n_npus
        npus = [(other.part, len(other.at)) for other in others]
        if cost.npu_part is not None:
            npus = [(cost.npu_part, n - sum(n for _, n in npus)), *npus]
        return replace(add_npus(bill, npus), pue=cost.power.pue)

    def prices(self) -> Prices | None:
        """Return the price of the network as a function of bandwidths; None if a part has no price.

        :meth:`bill` names the parts without a price.
        """
        cost = self.cost
        found = self._tier_prices(cost.tiers, cost.npu) if self._is_linear else self._part_prices()
        if found is None:
            return None
        return replace(found, lifetime=cost.lifetime or 0.0, energy=cost.electricity)

    def watts(self) -> Prices | None:
        """Return the power of the network, as prices in W.

        It is None if the power of a part is unknown.
        """
        if not self._is_linear:
            return self._part_prices(watts=True)
        power = self.cost.power
        found = self._tier_prices(power.tiers, power.npu, watts=True)
        if found is None or power.pue == 1:
            return found
        each = tuple(power.pue * watts for watts in found.per_bandwidth)
        return Prices(each, power.pue * found.fixed)

    @property
    def _is_linear(self) -> bool:
        return self.graph is None and not self.cost.parts

    def _tier_prices(
        self,
        tiers: Mapping[str, TierPrice | TierPower],
        npu: float,
        *,
        watts: bool = False,
    ) -> Prices | None:
        """Return prices (or ``watts``) from a table of ``tiers``.

        NPUs of other kinds replace the given numbers of NPUs.
        """
        found = network_prices(self.topology, _build_tiers(tiers), npu, self.fabrics)
        lines = add_npus(Bill(()), ((other.part, len(other.at)) for other in self.others))
        total = lines.power if watts else lines.cost
        if found is None or total is None:
            return None
        n = sum(len(other.at) for other in self.others)
        return replace(found, fixed=found.fixed + (total - n * npu)) if n else found

    def _part_prices(self, *, watts: bool = False) -> Prices | None:
        """Return the price (or power) of all parts.

        In a network graph it does not depend on bandwidths.
        """
        bill, none = self.bill(), (0.0,) * len(self.topology.dims)
        total = bill.power if watts else bill.cost
        if total is None:
            return None
        if self.graph is not None:
            return Prices(none, total)
        return WholePrices(
            none,
            total,
            topology=self.topology,
            fabrics=self.fabrics,
            parts=self.cost.price_list(),
            others=self.others,
            watts=watts,
        )


def _build_tiers(tiers: Mapping[str, TierPrice | TierPower]) -> dict[str, engine.TierPrice]:
    return {
        tier: engine.TierPrice(**each.settings(engine.TierPrice)) for tier, each in tiers.items()
    }
