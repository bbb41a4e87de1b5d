"""What runs: operator graphs of ranks, and layered workloads that are unrolled into them.

The classes that every script needs are in :mod:`engine`; here is the rest.
"""

from engine.workload.amount import Amount
from engine.workload.convnet import Convolution, data_parallel
from engine.workload.footprint import Footprint
from engine.workload.graph import Attention, Kernel, MatMul
from engine.workload.layers import Communication, Layer, Pass, TrainingLoop, training_iteration
from engine.workload.placement import AXES
from engine.workload.trained import TrainedLayer, TrainedNetwork
from engine.workload.transformer import TransformerSlice

__all__ = [
    "AXES",
    "Amount",
    "Attention",
    "Communication",
    "Convolution",
    "Footprint",
    "Kernel",
    "Layer",
    "MatMul",
    "Pass",
    "TrainedLayer",
    "TrainedNetwork",
    "TrainingLoop",
    "TransformerSlice",
    "data_parallel",
    "training_iteration",
]
