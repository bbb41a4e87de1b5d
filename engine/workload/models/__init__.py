"""Models as layers of kernels and collectives: transformers, convolutions, DLRM, GNMT."""

from dimsweep.engine.workload.models.convolution import ConvNet
from dimsweep.engine.workload.models.model import (
    ContextExchange,
    Graphs,
    LayerBlock,
    Model,
    Module,
    RankModel,
    Recompute,
    Shard,
    TensorOverlap,
    refuse,
)
from dimsweep.engine.workload.models.recommendation import Dlrm
from dimsweep.engine.workload.models.recurrent import Gnmt
from dimsweep.engine.workload.models.transformer import Transformer
