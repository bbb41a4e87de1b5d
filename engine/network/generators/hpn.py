"""HPN: two planes, and two switches for each NPU."""

from dataclasses import dataclass
from typing import ClassVar

from dimsweep.engine.network.generators.generator import (
    RAIL,
    Generator,
    Wires,
    along_rails,
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
        order = along_rails(npus, self.radix // 2 * self.rails, self.rails)
        for plane in range(2):
            name = f"plane {plane}"
            fold(wires, order, self.radix, (1.0,), name, RAIL, wide=2)
