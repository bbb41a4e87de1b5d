"""Networks that carry whole messages: by shares of links (flows), or packet by packet."""

from collections.abc import Callable, Mapping

from engine.cluster.network import NetworkModel
from engine.fidelity import Fidelity
from engine.kernels.carriers.carrier import Carrier, Ways
from engine.kernels.carriers.flows import FlowCarrier
from engine.kernels.carriers.packets import PacketCarrier
from engine.network.graph import Network

CARRIERS: Mapping[Fidelity, Callable[[Network, NetworkModel], Carrier]] = {
    Fidelity.FLOW: FlowCarrier,
    Fidelity.PACKET: PacketCarrier,
}

__all__ = ["CARRIERS", "Carrier", "FlowCarrier", "PacketCarrier", "Ways"]
