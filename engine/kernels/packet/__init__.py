"""The packet kernel: every packet of every flow, with shared buffers, pauses and transports."""

from dimsweep.engine.kernels.packet.account import PacketRun, PortAccount
from dimsweep.engine.kernels.packet.flows import Flow
from dimsweep.engine.kernels.packet.inputs import Fabric, Marking, Port
from dimsweep.engine.kernels.packet.network import Completed, PacketNetwork, simulate_packets
from dimsweep.engine.kernels.packet.notes import History, Pausing
from dimsweep.engine.kernels.packet.settings import (
    Settings,
    Stop,
    Wake,
)
