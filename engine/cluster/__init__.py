"""What a workload runs on: network dimensions, NPUs, memory, and what they cost.

The classes that every script needs are in :mod:`engine`; here is the rest.
"""

from engine.cluster.bisection import bisection, cuts
from engine.cluster.blocks.topology import parse_shape
from engine.cluster.compute import Dataflow, EfficiencyCurve, SystolicArray
from engine.cluster.cost import TierPrice, network_prices
from engine.cluster.kernel_times import KernelTimes, kernel_times
from engine.cluster.library import Nccl, Timing, Timings
from engine.cluster.memory import MEMORIES, Request
from engine.cluster.network import Switching

__all__ = [
    "MEMORIES",
    "Dataflow",
    "EfficiencyCurve",
    "KernelTimes",
    "Nccl",
    "Request",
    "Switching",
    "SystolicArray",
    "TierPrice",
    "Timing",
    "Timings",
    "bisection",
    "cuts",
    "kernel_times",
    "network_prices",
    "parse_shape",
]
