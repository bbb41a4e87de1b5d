"""Models as layers of kernels and collectives: transformers, convolutions, DLRM, GNMT."""

from engine.model.convolution import ConvNet
from engine.model.rank import ContextExchange, Module, Recompute, TensorOverlap
from engine.model.recommendation import Dlrm
from engine.model.recurrent import Gnmt
from engine.model.transformer import Transformer

__all__ = [
    "ContextExchange",
    "ConvNet",
    "Dlrm",
    "Gnmt",
    "Module",
    "Recompute",
    "TensorOverlap",
    "Transformer",
]
