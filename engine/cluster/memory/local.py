"""An NPU's own memory, for traces whose nodes name their loads and stores of it."""

from dataclasses import dataclass
from typing import ClassVar

from dimsweep.engine.cluster.memory.memory import RemoteMemory


@dataclass(frozen=True)
class LocalMemory(RemoteMemory):
    """An access lasts latency + bytes / bandwidth.  How much it holds is ``npu.memory``, so no plan
    can keep in it what an NPU has no room for."""

    HOLDS: ClassVar[bool] = False
