"""Models as layers of kernels and collectives: transformers, convolutions, DLRM, GNMT."""

from dimsweep.engine.model.convolution import ConvNet
from dimsweep.engine.model.rank import (
    ContextExchange,
    LayerBlock,
    Model,
    Module,
    RankModel,
    Recompute,
    Shard,
    TensorOverlap,
    refuse,
)
from dimsweep.engine.model.recommendation import Dlrm
from dimsweep.engine.model.recurrent import Gnmt
from dimsweep.engine.model.transformer import Transformer
