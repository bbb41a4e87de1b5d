"""PyTorch's execution traces (ExecutionTraceObserver) and profiles (Kineto), as Chakra traces."""

from dimsweep.engine.formats.pytorch.convert import Converted, convert_traces
from dimsweep.engine.formats.pytorch.host import HostOp, is_execution_trace, read_host
from dimsweep.engine.formats.pytorch.profile import Profile, read_profile
