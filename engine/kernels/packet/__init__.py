"""The packet kernel: simulates every packet of every flow, with buffers, pauses and transports."""

from dimsweep.engine.kernels.packet.inputs import Fabric, Flow, Marking, Port, Settings, Stop, Wake
from dimsweep.engine.kernels.packet.network import (
    Completed,
    History,
    PacketNetwork,
    PacketRun,
    Pausing,
    PortAccount,
    simulate_packets,
)
