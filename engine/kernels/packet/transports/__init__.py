"""Transports: how senders answer to congestion, one file each."""

from engine.cluster.transports import TRANSPORTS, BitRate, Ticks, Transport
from engine.kernels.packet.hooks import nothing, register
from engine.kernels.packet.tcp import Tcp
from engine.kernels.packet.transports.cubic import Cubic
from engine.kernels.packet.transports.dcqcn import Dcqcn
from engine.kernels.packet.transports.dctcp import Dctcp
from engine.kernels.packet.transports.hpcc import Hpcc
from engine.kernels.packet.transports.reno import Reno
from engine.kernels.packet.transports.static import Static
from engine.kernels.packet.transports.swift import Swift
from engine.kernels.packet.transports.timely import Timely

__all__ = [
    "TRANSPORTS",
    "BitRate",
    "Cubic",
    "Dcqcn",
    "Dctcp",
    "Hpcc",
    "Reno",
    "Static",
    "Swift",
    "Tcp",
    "Ticks",
    "Timely",
    "Transport",
    "nothing",
    "register",
]

# A new transport is one file with a subclass, and one line here.
register(Static)
register(Dcqcn)
register(Dctcp)
register(Timely)
register(Hpcc)
register(Swift)
register(Reno)
register(Cubic)
