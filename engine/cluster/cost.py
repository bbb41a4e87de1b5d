"""Cost of a cluster's network, by prices per tier.

LIBRA's model (Won et al., ISPASS 2024), simplified: the links, switches and NICs of a dimension's
block add up to a price u_d per NPU and per GB/s, so C = C0 + N * sum_d u_d * b_d.  C0 is the cost
at any bandwidth, which LIBRA leaves out: NPUs, ports, chassis.

A fabric that replaces a block is billed for its own links and switches: a Clos for the links and
ports of all its levels, and for fewer if it is oversubscribed.

:mod:`engine.cluster.billing` computes the cost of a graph, and of whole parts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.network.fabric import Fabric, fit_fabrics
from dimsweep.engine.topology.topology import Topology
from dimsweep.engine.units import MONEY, PRICE_PER_BANDWIDTH


@dataclass(frozen=True)
class TierPrice:
    """Prices of the parts of one tier: links, switches and NICs per GB/s, ports and blocks each."""

    #: Price of a link per bandwidth; null: links are not sold.
    link: Annotated[float, PRICE_PER_BANDWIDTH] | None = None
    #: Price of a switch port per bandwidth.
    switch: Annotated[float, PRICE_PER_BANDWIDTH] | None = None
    #: Price of a NIC per bandwidth.
    nic: Annotated[float, PRICE_PER_BANDWIDTH] | None = None
    #: Price of each NPU in a dimension, at any bandwidth.
    port: Annotated[float, MONEY] = 0.0
    #: Price of each ring, full mesh or switch in a dimension, at any bandwidth.
    block: Annotated[float, MONEY] = 0.0


@dataclass(frozen=True)
class Prices:
    """The cost of a network as a linear function of the dimensions' bandwidths.

    ``per_bandwidth``, shape (D,), is USD for one byte/s more per NPU, summed over all NPUs;
    ``fixed`` is the USD that does not depend on bandwidth.
    """

    per_bandwidth: tuple[float, ...]
    fixed: float = 0.0
    lifetime: float = 0.0
    energy: float = 0.0

    def cost(self, bandwidth: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the USD of the network for bandwidths of shape (..., D) in bytes/s."""
        # Summed dimension by dimension: a matrix product rounds by the size of the batch.
        total = np.full(bandwidth.shape[:-1], self.fixed)
        for d, price in enumerate(self.per_bandwidth):
            total = total + bandwidth[..., d] * price
        return total

    @property
    def is_linear(self) -> bool:
        """True if the cost is proportional to bandwidth."""
        return True


def network_prices(
    topology: Topology,
    tiers: dict[str, TierPrice],
    npu_price: float = 0.0,
    fabrics: Sequence[Fabric] = (),
) -> Prices | None:
    """Return the prices of ``topology`` by tier; None if a dimension's tier has no price."""
    n, per_npu, fixed = topology.n_npus, [], topology.n_npus * npu_price
    for dim, fabric in fit_fabrics(topology, fabrics):
        if dim.size == 1:
            per_npu.append(0.0)
            continue
        price = tiers.get(dim.tier)
        if price is None or price.link is None:
            return None
        bill = fabric.bill(dim)
        times = {"link": bill.links, "switch": bill.ports, "nic": 1.0}
        per_npu.append(
            price.link * bill.links
            + sum((getattr(price, part) or 0.0) * times[part] for part in dim.block.parts)
        )
        fixed += n * price.port + n // dim.size * price.block * bill.ports
    return Prices(tuple(n * unit for unit in per_npu), fixed)
