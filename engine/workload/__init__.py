"""What runs: operator graphs of ranks, and layered workloads that are unrolled into them.

The classes that every script needs are in :mod:`engine`; here is the rest.
"""

from dimsweep.engine.workload.amount import Amount
from dimsweep.engine.workload.convnet import Convolution, data_parallel
from dimsweep.engine.workload.flows import FlowList, ListedFlow, flows_workload
from dimsweep.engine.workload.footprint import Footprint
from dimsweep.engine.workload.graph import Attention, Kernel, MatMul
from dimsweep.engine.workload.jobs import Job, Jobs, together
from dimsweep.engine.workload.layers import (
    Communication,
    Layer,
    Pass,
    TrainingLoop,
    training_iteration,
)
from dimsweep.engine.workload.placement import AXES, NO_ROOM, suggested_degrees
from dimsweep.engine.workload.trained import TrainedLayer, TrainedNetwork
from dimsweep.engine.workload.transformer import TransformerSlice
