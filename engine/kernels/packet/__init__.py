"""The packet kernel: every packet of every flow, with shared buffers, pauses and transports."""

from engine.kernels.packet.inputs import Fabric, Flow, Marking, Port
from engine.kernels.packet.notes import Pausing, Queue
from engine.kernels.packet.run import PacketRun, PortAccount, simulate_packets
from engine.kernels.packet.settings import (
    Dcqcn,
    Dctcp,
    Hpcc,
    Settings,
    Swift,
    Timely,
    Transport,
    Wake,
)

__all__ = [
    "Dcqcn",
    "Dctcp",
    "Fabric",
    "Flow",
    "Hpcc",
    "Marking",
    "PacketRun",
    "Pausing",
    "Port",
    "PortAccount",
    "Queue",
    "Settings",
    "Swift",
    "Timely",
    "Transport",
    "Wake",
    "simulate_packets",
]
