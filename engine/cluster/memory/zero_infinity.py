"""ZeRO-Infinity: the drives of a node, and what every NPU reads and writes through its own link."""

from dataclasses import dataclass
from typing import ClassVar

from dimsweep.engine.cluster.memory.memory import MemoryOfNodes, Request, Service, Sharing
from dimsweep.engine.errors import check_least
from dimsweep.engine.units import PICOSECONDS


@dataclass(frozen=True)
class ZeroInfinity(MemoryOfNodes):
    """Rajbhandari et al., "ZeRO-Infinity" (SC 2021): what a node's NPUs keep away is divided among
    its ``drives``, each of ``bandwidth`` and ``capacity``, so that all of them serve every access
    (its bandwidth-centric partitioning, section 6.1); an NPU gets no more than ``link_bandwidth``
    (of its PCIe), if that is given."""

    SHARING: ClassVar[Sharing] = Sharing.NODE

    drives: int = 1
    link_bandwidth: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, 1, "drives")
        self._check_amount("link_bandwidth")

    def moves(self, n_bytes: float) -> float:
        """Picoseconds in which the drives move ``n_bytes``."""
        return super().moves(n_bytes / self.drives)

    def service(self, request: Request) -> Service:
        """By the drives, and by the NPU's own link."""
        service = super().service(request)
        if self.link_bandwidth is None:
            return service
        return service._replace(own=request.n_bytes / self.link_bandwidth * PICOSECONDS)

    def held_for_each(self, npus: int) -> float | None:
        """Bytes that each NPU of a node may keep on its drives."""
        return None if self.capacity is None else self.capacity * self.drives / npus
