"""Transports: reactions of senders to congestion, one file each."""

from dimsweep.engine.cluster.transports import TRANSPORTS, BitRate, Ticks, Transport
from dimsweep.engine.kernels.packet.hooks import compile_together, ignore
from dimsweep.engine.kernels.packet.rud import Balance, Rud
from dimsweep.engine.kernels.packet.tables import register
from dimsweep.engine.kernels.packet.tcp import Tcp
from dimsweep.engine.kernels.packet.transports.cubic import Cubic
from dimsweep.engine.kernels.packet.transports.dcqcn import Dcqcn
from dimsweep.engine.kernels.packet.transports.dctcp import Dctcp
from dimsweep.engine.kernels.packet.transports.hpcc import Hpcc
from dimsweep.engine.kernels.packet.transports.nscc import Nscc
from dimsweep.engine.kernels.packet.transports.rccc import Rccc
from dimsweep.engine.kernels.packet.transports.reno import Reno
from dimsweep.engine.kernels.packet.transports.static import Static
from dimsweep.engine.kernels.packet.transports.swift import Swift
from dimsweep.engine.kernels.packet.transports.timely import Timely

__all__ = [
    "TRANSPORTS",
    "Balance",
    "BitRate",
    "Cubic",
    "Dcqcn",
    "Dctcp",
    "Hpcc",
    "Nscc",
    "Rccc",
    "Reno",
    "Rud",
    "Static",
    "Swift",
    "Tcp",
    "Ticks",
    "Timely",
    "Transport",
    "ignore",
    "register",
]

# A new transport is one file with a subclass, and one line here.
_OURS = (
    Static,
    Dcqcn,
    Dctcp,
    Timely,
    Hpcc,
    Swift,
    Reno,
    Cubic,
)
_ALONE = (Nscc, Rccc)  # those that do so much else that runs of theirs have a kernel of their own
register(*_OURS, *_ALONE)
compile_together(*_OURS)
