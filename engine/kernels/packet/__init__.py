"""The packet kernel: every packet of every flow, with shared buffers, pauses and transports."""

from dimsweep.engine.kernels.packet.account import History, PacketRun, Pausing, PortAccount
from dimsweep.engine.kernels.packet.flows import Flow
from dimsweep.engine.kernels.packet.inputs import Fabric, Marking, Port, Settings, Stop, Wake
from dimsweep.engine.kernels.packet.network import Completed, PacketNetwork, simulate_packets
