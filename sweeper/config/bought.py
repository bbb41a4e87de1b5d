"""What a network is bought as: its bill, and its cost and watts at any bandwidths."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dimsweep.engine import Prices, Topology
from dimsweep.engine.cluster import (
    OtherPart,
    TierPrice,
    WholePrices,
    linear_bill,
    network_bill,
    network_prices,
    product_bill,
    with_npus,
)
from dimsweep.engine.network import Bill, Fabric, Network
from dimsweep.sweeper.config import cost as config


@dataclass(frozen=True)
class Bought:
    """The network of ``fabrics``, or the ``graph`` in its place, by the list ``cost``; ``others``
    are NPUs that are bought as another part than the rest."""

    cost: config.Cost
    topology: Topology
    fabrics: tuple[Fabric, ...] = ()
    graph: Network | None = None
    others: tuple[OtherPart, ...] = ()

    def bill(self) -> Bill:
        """What it is bought as, and what of it has no price."""
        cost, others = self.cost, self.others
        if cost.parts and self.graph is not None:
            return network_bill(self.graph, self.topology, cost.price_list(), others)
        if cost.parts:
            return product_bill(self.topology, self.fabrics, cost.price_list(), others)
        tables = _tiers(cost.tiers), _tiers(cost.power.tiers)
        bill = linear_bill(self.topology, tables[0], self.fabrics, self.graph, tables[1])
        n = self.topology.n_npus if self.graph is None else self.graph.n_npus
        npus = [(other.part, len(other.at)) for other in others]
        if cost.npu_part is not None:
            npus = [(cost.npu_part, n - sum(n for _, n in npus)), *npus]
        return replace(with_npus(bill, npus), pue=cost.power.pue)

    def prices(self) -> Prices | None:
        """What it costs; ``None`` when something of it has no price (:meth:`bill` says what)."""
        cost = self.cost
        found = self._linear(cost.tiers, cost.npu) if self._is_linear else self._whole()
        if found is None:
            return None
        return replace(found, lifetime=cost.lifetime or 0.0, energy=cost.electricity)

    def watts(self) -> Prices | None:
        """What it draws; ``None`` when something of it has no watts."""
        if not self._is_linear:
            return self._whole(watts=True)
        power = self.cost.power
        found = self._linear(power.tiers, power.npu, watts=True)
        if found is None or power.pue == 1:
            return found
        each = tuple(power.pue * watts for watts in found.per_bandwidth)
        return Prices(each, power.pue * found.fixed)

    @property
    def _is_linear(self) -> bool:
        return self.graph is None and not self.cost.parts

    def _linear(
        self,
        tiers: Mapping[str, config.TierPrice | config.TierPower],
        npu: float,
        *,
        watts: bool = False,
    ) -> Prices | None:
        """By a table of tiers, with the NPUs of other kinds in the place of so many."""
        found = network_prices(self.topology, _tiers(tiers), npu, self.fabrics)
        lines = with_npus(Bill(()), ((other.part, len(other.at)) for other in self.others))
        total = lines.power if watts else lines.cost
        if found is None or total is None:
            return None
        n = sum(len(other.at) for other in self.others)
        return replace(found, fixed=found.fixed + (total - n * npu)) if n else found

    def _whole(self, *, watts: bool = False) -> Prices | None:
        """In whole parts; a graph costs what it does at any bandwidths of the dimensions."""
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


def _tiers(tiers: Mapping[str, config.TierPrice | config.TierPower]) -> dict[str, TierPrice]:
    names = ("link", "switch", "nic", "port", "block")
    return {
        tier: TierPrice(**{name: getattr(each, name) for name in names})
        for tier, each in tiers.items()
    }
