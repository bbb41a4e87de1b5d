"""The packet kernel: every packet of every flow, with shared buffers, pauses and transports."""

from engine.kernels.packet.account import PacketRun, PortAccount
from engine.kernels.packet.flows import Flow, FlowColumns, flow_columns
from engine.kernels.packet.inputs import Fabric, Marking, Port
from engine.kernels.packet.network import Completed, PacketNetwork
from engine.kernels.packet.notes import History, Pausing
from engine.kernels.packet.run import simulate_packets
from engine.kernels.packet.settings import (
    Cubic,
    Dcqcn,
    Dctcp,
    Hpcc,
    Settings,
    Stop,
    Swift,
    Tcp,
    Timely,
    Transport,
    Wake,
)

__all__ = [
    "Completed",
    "Cubic",
    "Dcqcn",
    "Dctcp",
    "Fabric",
    "Flow",
    "FlowColumns",
    "History",
    "Hpcc",
    "Marking",
    "PacketNetwork",
    "PacketRun",
    "Pausing",
    "Port",
    "PortAccount",
    "Settings",
    "Stop",
    "Swift",
    "Tcp",
    "Timely",
    "Transport",
    "Wake",
    "flow_columns",
    "simulate_packets",
]
