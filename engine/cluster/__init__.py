"""Clusters: network dimensions, NPUs, memory and prices, on which workloads run.

The classes that every script needs are in :mod:`engine`; all others are here.
"""

from dimsweep.engine.cluster.billing import (
    OtherPart,
    WholePrices,
    add_npus,
    linear_bill,
    network_bill,
    product_bill,
)
from dimsweep.engine.cluster.cluster import Nccl, OtherNpus, RailShares, Timing, Timings
from dimsweep.engine.cluster.cost import TierPrice, network_prices
from dimsweep.engine.cluster.kernel_times import KernelTimes, kernel_times
from dimsweep.engine.cluster.network_model import Switching
from dimsweep.engine.cluster.npu import Dataflow, ShareCurve, SystolicArray
from dimsweep.engine.cluster.packet_model import Mark
from dimsweep.engine.cluster.remote_memory import MEMORIES, Request
