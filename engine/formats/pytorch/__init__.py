"""PyTorch's execution traces (ExecutionTraceObserver) and profiles (Kineto), as Chakra traces."""

from dimsweep.engine.formats.pytorch.convert import Converted, convert_traces
from dimsweep.engine.formats.pytorch.recorded import (
    HostOp,
    Profile,
    is_execution_trace,
    read_host,
    read_profile,
)
