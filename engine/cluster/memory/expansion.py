"""Memory expansion: what exceeds an NPU's own memory lives in a slower one beside it (CXL-like)."""

from dataclasses import dataclass
from typing import ClassVar

from dimsweep.engine.cluster.memory.memory import RemoteMemory


@dataclass(frozen=True)
class MemoryExpansion(RemoteMemory):
    """``capacity`` and ``bandwidth`` of each NPU, beside its own memory.

    COMET's hybrid memory (arXiv:2211.16648): traffic is divided as the footprint is, so a share f
    of it in expanded memory makes the bandwidth 1 / ((1 - f) / own + f / expanded).
    """

    HOLDS: ClassVar[bool] = False  # kernels work on what it holds where it lies
    EXPANDS: ClassVar[bool] = True

    def blended(self, bandwidth: float, memory: float, footprint: float) -> float:
        """Bytes/s of an NPU whose own memory has ``bandwidth`` and holds ``memory`` bytes of
        ``footprint``."""
        away = max(0.0, footprint - memory) / footprint if footprint else 0.0
        return 1.0 / ((1.0 - away) / bandwidth + away / self.bandwidth)
