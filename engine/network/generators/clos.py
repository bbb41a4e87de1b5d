"""Folded Clos networks: fat trees, along rails or not, and networks of NVLink domains and rails."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from dimsweep.engine.network.generators.generator import LAYER, RAIL, Generator, along_rails, fold
from dimsweep.engine.network.wires import Wires, check_count, check_divides
from dimsweep.engine.topology.blocks import Node
from dimsweep.engine.units import BANDWIDTH


@dataclass(frozen=True, kw_only=True)
class FatTree(Generator):
    """``npus`` under one to three tiers of switches of ``radix`` ports (Al-Fares et al., SIGCOMM
    2008); each tier below the top has ``oversubscription`` times as many ports down as up, one
    number for each of them.  With several ``rails`` a leaf has NPUs of one rail each.
    """

    kind: ClassVar[str] = "fat_tree"

    npus: int
    radix: int
    rails: int = 1
    oversubscription: tuple[float, ...] = (1.0,)

    def lay(self, wires: Wires) -> None:
        npus = wires.npus(self.npus)
        check_divides("rails", self.rails, self.npus, "NPUs")
        if self.rails == 1:
            fold(wires, list(npus), self.radix, self.oversubscription, "tree", LAYER)
            return
        # As many servers as a leaf has ports down are a group, with a leaf for each rail.
        down = round(self.radix * self.oversubscription[0] / (1 + self.oversubscription[0]))
        order = along_rails(npus, down * self.rails, self.rails)
        fold(wires, order, self.radix, self.oversubscription, "rails", RAIL)


@dataclass(frozen=True, kw_only=True)
class Roft(FatTree):
    """A rail-optimised fat tree: one of several ``rails`` (NVIDIA, DGX SuperPOD reference
    architecture, 2023).
    """

    kind: ClassVar[str] = "roft"

    rails: int = 8


@dataclass(frozen=True, kw_only=True)
class RailOnly(Generator):
    """A fat tree of its own for each of ``rails``, and none between them: other rails are reached
    by way of the servers (Wang et al., Rail-only, arXiv:2307.12169).  ``spread`` out, each link up
    of a leaf leads to a spine of its own, also where fewer spines have ports enough.
    """

    kind: ClassVar[str] = "rail_only"

    npus: int
    radix: int
    rails: int = 8
    server: int = 8
    oversubscription: tuple[float, ...] = (1.0,)
    spread: bool = False

    def lay(self, wires: Wires) -> None:
        npus = wires.npus(self.npus)
        check_divides("rails", self.rails, self.npus, "NPUs")
        for rail in range(self.rails):
            own: list[Node] = list(npus[rail :: self.rails])
            over, name = self.oversubscription, f"rail {rail}"
            fold(wires, own, self.radix, over, name, RAIL, spread=self.spread)


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


@dataclass(frozen=True, kw_only=True)
class NvlRacks(Generator):
    """``racks`` of ``rack`` NPUs, each with a link to each of ``trays`` NVLink switches, which have
    ``scale_up`` bytes/s for each NPU together (NVIDIA, GB200 NVL72: 18 switches, 900 GB/s one way);
    between racks, a fat tree of switches of ``radix`` ports, NPUs of the same place next to each
    other.
    """

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
