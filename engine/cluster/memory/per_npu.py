"""Remote memory of each NPU: its share of the host's memory, or a drive of its own."""

from dataclasses import dataclass

from dimsweep.engine.cluster.memory.memory import RemoteMemory


@dataclass(frozen=True)
class NpuMemory(RemoteMemory):
    """Nobody shares it: an access lasts latency + bytes / bandwidth."""
