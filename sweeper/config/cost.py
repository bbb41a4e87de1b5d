"""What a cluster costs, and what it draws: prices and watts by tier."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import engine
from engine.cluster import TierPrice as EngineTierPrice
from engine.cluster import network_prices
from engine.network import Fabric
from sweeper.config.parts.part import (
    MoneyOrNone,
    Part,
    Power,
    PowerPerBandwidth,
    PriceOfEnergy,
    PricePerBandwidth,
    Seconds,
    default,
)


class TierPrice(Part):
    """Prices per bandwidth, such as "7.8 USD/(GB/s)"; ``port`` and ``block`` are USD at any
    bandwidth, of each NPU in a dimension and of each ring, full mesh or switch in it."""

    link: PricePerBandwidth | None = None
    switch: PricePerBandwidth | None = None
    nic: PricePerBandwidth | None = None
    port: MoneyOrNone = default("0 USD")
    block: MoneyOrNone = default("0 USD")


class TierPower(Part):
    """Watts of a tier's parts, each as :class:`TierPrice` has its price."""

    link: PowerPerBandwidth | None = None
    switch: PowerPerBandwidth | None = None
    nic: PowerPerBandwidth | None = None
    port: Power = default("0 W")
    block: Power = default("0 W")


class ClusterPower(Part):
    """Watts by tier, and of one NPU with its share of the server."""

    tiers: dict[str, TierPower] = default(dict)
    npu: Power = default("0 W")


class Cost(Part):
    """Prices by tier, and of one NPU; ``power``: what they draw.  ``lifetime`` (such as 4 year) and
    ``electricity`` (0.08 USD/kWh) make a price of a token of them.  ``machines``: those that it
    prices; none named: any."""

    tiers: dict[str, TierPrice] = default(dict)
    npu: MoneyOrNone = default("0 USD")
    power: ClusterPower = default(ClusterPower)
    lifetime: Seconds | None = None
    electricity: PriceOfEnergy = default("0 USD/kWh")
    machines: tuple[str, ...] = ()

    def build(
        self, topology: engine.Topology, fabrics: Sequence[Fabric] = ()
    ) -> engine.Prices | None:
        """What the network of ``fabrics`` costs; ``None`` when a dimension's tier has no price."""
        prices = _by_tier(topology, self.tiers, self.npu, fabrics)
        if prices is None:
            return None
        return replace(prices, lifetime=self.lifetime or 0.0, energy=self.electricity)

    def build_power(
        self, topology: engine.Topology, fabrics: Sequence[Fabric] = ()
    ) -> engine.Prices | None:
        """What the cluster draws, in watts; ``None`` when a dimension's tier has none."""
        return _by_tier(topology, self.power.tiers, self.power.npu, fabrics)


def _by_tier(
    topology: engine.Topology,
    tiers: Mapping[str, TierPrice | TierPower],
    npu: float,
    fabrics: Sequence[Fabric],
) -> engine.Prices | None:
    built = {name: EngineTierPrice(**dict(each)) for name, each in tiers.items()}
    return network_prices(topology, built, npu, fabrics)
