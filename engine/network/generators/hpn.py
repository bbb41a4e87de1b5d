"""HPN: two planes, and two switches for each NPU."""

from dataclasses import dataclass
from typing import ClassVar

from dimsweep.engine.cluster.blocks.block import Node
from dimsweep.engine.network.generators.generator import (
    RAIL,
    Generator,
    Wires,
    check_divides,
    fold,
)


@dataclass(frozen=True, kw_only=True)
class Hpn(Generator):
    """Each NPU has two ports, to leaves in two planes that meet nowhere else (Qian et al., Alibaba
    HPN, SIGCOMM 2024).

    Half of a leaf's ``radix`` leads down, along ``rails``, so that ``radix / 2 * rails`` NPUs are a
    segment; the other half leads up, two ports a cable, to a spine of the plane.
    """

    kind: ClassVar[str] = "hpn"

    npus: int
    radix: int
    rails: int = 8

    def lay(self, wires: Wires) -> None:
        npus = wires.npus(self.npus)
        size = min(self.npus, self.radix // 2 * self.rails)
        check_divides("npus", max(1, size), self.npus, "NPUs")
        check_divides("rails", self.rails, size, "NPUs of a segment")
        order: list[Node] = []
        for segment in range(0, self.npus, size):
            for rail in range(self.rails):
                order += npus[segment + rail : segment + size : self.rails]
        for plane in range(2):
            name = f"plane {plane}"
            fold(wires, order, self.radix, (1.0,), name, first=("fibre", RAIL), wide=2)
