"""Generators of folded Clos networks: fat trees, rail-optimised networks, and NVLink racks."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from dimsweep.engine.network.generators.generator import (
    LAYER,
    RAIL,
    Generator,
    build_folded_clos,
    order_by_rails,
)
from dimsweep.engine.network.wires import Wires, check_count, check_divides
from dimsweep.engine.topology.blocks import Node
from dimsweep.engine.units import BANDWIDTH


@dataclass(frozen=True, kw_only=True)
class FatTree(Generator):
    """A fat tree of one to three tiers of switches (Al-Fares et al., SIGCOMM 2008).

    Each switch has ``radix`` ports.  Each tier below the top has ``oversubscription`` times as many
    ports down as up, one number for each tier.  With several ``rails``, the NPUs of a leaf belong
    to one rail.
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
            build_folded_clos(wires, list(npus), self.radix, self.oversubscription, "tree", LAYER)
            return
        # A group has one server for each port down of a leaf, and one leaf for each rail.
        down = round(self.radix * self.oversubscription[0] / (1 + self.oversubscription[0]))
        order = order_by_rails(npus, down * self.rails, self.rails)
        build_folded_clos(wires, order, self.radix, self.oversubscription, "rails", RAIL)


@dataclass(frozen=True, kw_only=True)
class Roft(FatTree):
    """A rail-optimised fat tree (NVIDIA, DGX SuperPOD reference architecture, 2023).

    NPUs with equal positions in their servers (a rail) share leaf switches.
    """

    kind: ClassVar[str] = "roft"

    rails: int = 8


@dataclass(frozen=True, kw_only=True)
class RailOnly(Generator):
    """A separate fat tree for each rail (Wang et al., Rail-only, arXiv:2307.12169).

    Messages between rails go through the servers.  With ``spread``, each link up of a leaf leads to
    a different spine, even if fewer spines would have enough ports.
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
            build_folded_clos(wires, own, self.radix, over, name, RAIL, spread=self.spread)


@dataclass(frozen=True, kw_only=True)
class Hpn(Generator):
    """Alibaba's HPN: two separate planes, with a port of each NPU (Qian et al., SIGCOMM 2024).

    Half of a leaf's ``radix`` leads down, along ``rails``, so ``radix / 2 * rails`` NPUs form a
    segment.  The other half leads up to the spines of the plane, two ports for each cable.
    """

    kind: ClassVar[str] = "hpn"

    npus: int
    radix: int
    rails: int = 8

    def lay(self, wires: Wires) -> None:
        npus = wires.npus(self.npus)
        order = order_by_rails(npus, self.radix // 2 * self.rails, self.rails)
        for plane in range(2):
            name = f"plane {plane}"
            build_folded_clos(wires, order, self.radix, (1.0,), name, RAIL, wide=2)


@dataclass(frozen=True, kw_only=True)
class NvlRacks(Generator):
    """NVLink racks, joined by a fat tree (NVIDIA, GB200 NVL72: 18 switches, 900 GB/s one way).

    Each of the ``rack`` NPUs of a rack has a link to each of its ``trays`` NVLink switches, with
    ``scale_up`` bytes/s in total.  NPUs at equal positions of the racks are next to each other in
    the fat tree, whose switches have ``radix`` ports.
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
            order = order_by_rails(npus, len(npus), self.rack)
            build_folded_clos(wires, order, self.radix, self.oversubscription, "rails", RAIL)
