"""PyTorch's execution traces (ExecutionTraceObserver) and profiles (Kineto), as Chakra traces."""

from dimsweep.engine.formats.pytorch.convert import Converted, convert_traces
from dimsweep.engine.formats.pytorch.host import is_execution_trace
from dimsweep.engine.formats.pytorch.profile import Profile, read_profile
