"""PyTorch's execution traces (ExecutionTraceObserver) and profiles (Kineto), as Chakra traces."""

from engine.formats.pytorch.convert import Converted, convert_traces
from engine.formats.pytorch.host import is_execution_trace

__all__ = [
    "Converted",
    "convert_traces",
    "is_execution_trace",
]
