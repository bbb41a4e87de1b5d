"""The packet kernel: every packet of every flow, with shared buffers, pauses and transports."""

from engine.kernels.packet.account import PacketRun, PortAccount
from engine.kernels.packet.flows import Flow, FlowColumns, flow_columns
from engine.kernels.packet.inputs import Fabric, Marking, Port
from engine.kernels.packet.network import Completed, PacketNetwork
from engine.kernels.packet.notes import History, Pausing
from engine.kernels.packet.run import simulate_packets
from engine.kernels.packet.settings import (
    Settings,
    Stop,
    Wake,
)

__all__ = [
    "Completed",
    "Fabric",
    "Flow",
    "FlowColumns",
    "History",
    "Marking",
    "PacketNetwork",
    "PacketRun",
    "Pausing",
    "Port",
    "PortAccount",
    "Settings",
    "Stop",
    "Wake",
    "flow_columns",
    "simulate_packets",
]
