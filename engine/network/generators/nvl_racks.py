"""Racks whose NPUs share NVLink switches, joined by rails."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from dimsweep.engine.network.generators.generator import (
    RAIL,
    Generator,
    Wires,
    along_rails,
    check_count,
    fold,
)
from dimsweep.engine.units import BANDWIDTH


@dataclass(frozen=True, kw_only=True)
class NvlRacks(Generator):
    """``racks`` of ``rack`` NPUs, each with a link to each of ``trays`` NVLink switches, which have
    ``scale_up`` bytes/s for each NPU together (NVIDIA, GB200 NVL72: 18 switches, 900 GB/s one way);
    between racks, a fat tree of switches of ``radix`` ports, NPUs of the same place next to each
    other."""

    kind: ClassVar[str] = "nvl_racks"

    racks: int
    rack: int = 72
    trays: int = 18
    radix: int = 64
    scale_up: Annotated[float, BANDWIDTH] = 900e9
    oversubscription: tuple[float, ...] = (1.0,)

    def lay(self, wires: Wires) -> None:
        for name in ("racks", "rack", "trays", "radix"):
            check_count(name, getattr(self, name))
        npus = wires.npus(self.racks * self.rack)
        for rack in range(self.racks):
            own = npus[rack * self.rack : (rack + 1) * self.rack]
            for switch in wires.switches(f"rack {rack} NVLink switch", self.trays, self.rack):
                for npu in own:
                    each = self.scale_up / self.trays
                    wires.cable(npu, switch, bandwidth=each, latency=self.nvlink_latency)
        if self.racks > 1:
            order = along_rails(npus, len(npus), self.rack)
            fold(wires, order, self.radix, self.oversubscription, "rails", RAIL)
