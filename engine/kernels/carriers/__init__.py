"""Carriers: networks that move whole messages, as flows that share links or packet by packet."""

from collections.abc import Callable, Collection, Mapping

from dimsweep.engine.cluster.network_model import NetworkModel
from dimsweep.engine.kernels.carriers.carrier import (
    Carrier,
    FlowCarrier,
    Kind,
    PacketCarrier,
    Traffic,
    Ways,
    ways_between,
)
from dimsweep.engine.kinds import Fidelity
from dimsweep.engine.network.graph import Network

# A carrier on a network under a model, which notes what the links of some numbers do.
CARRIERS: Mapping[Fidelity, Callable[[Network, NetworkModel, Collection[int]], Carrier]] = {
    Fidelity.FLOW: FlowCarrier,
    Fidelity.PACKET: PacketCarrier,
}
