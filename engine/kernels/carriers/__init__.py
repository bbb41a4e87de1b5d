"""Networks that carry whole messages: by shares of links (flows), or packet by packet."""

from collections.abc import Callable, Collection, Mapping

from engine.cluster.network import NetworkModel
from engine.fidelity import Fidelity
from engine.kernels.carriers.carrier import Carrier, Kind, Ways, routes_between, ways_between
from engine.kernels.carriers.flows import FlowCarrier
from engine.kernels.carriers.packets import PacketCarrier
from engine.kernels.carriers.traffic import Traffic
from engine.network.graph import Network

# A carrier on a network under a model, which notes what the links of some numbers do.
CARRIERS: Mapping[Fidelity, Callable[[Network, NetworkModel, Collection[int]], Carrier]] = {
    Fidelity.FLOW: FlowCarrier,
    Fidelity.PACKET: PacketCarrier,
}

__all__ = [
    "CARRIERS",
    "Carrier",
    "FlowCarrier",
    "Kind",
    "PacketCarrier",
    "Traffic",
    "Ways",
    "routes_between",
    "ways_between",
]
