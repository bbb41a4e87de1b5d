"""Workloads: operator graphs of ranks, and layers that are unrolled into them.

The classes that every script needs are in :mod:`engine`; all others are here.
"""

from dimsweep.engine.workload.flows import FlowList, ListedFlow, flows_workload
from dimsweep.engine.workload.graph import Amount, Attention, Footprint, Kernel, MatMul
from dimsweep.engine.workload.jobs import Job, Jobs, combine_jobs
from dimsweep.engine.workload.layers import (
    Communication,
    Convolution,
    Layer,
    Pass,
    TrainingLoop,
    TransformerSlice,
    data_parallel,
    training_iteration,
)
from dimsweep.engine.workload.placement import AXES, NO_ROOM, suggested_degrees
from dimsweep.engine.workload.trained import TrainedLayer, TrainedNetwork
