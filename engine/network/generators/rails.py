"""Networks along rails: NPUs of the same place in their servers share switches."""

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
class Roft(Generator):
    """A rail-optimised fat tree: a fat tree whose leaves have NPUs of one rail each, of ``rails``
    (NVIDIA, DGX SuperPOD reference architecture, 2023)."""

    kind: ClassVar[str] = "roft"

    npus: int
    radix: int
    rails: int = 8
    oversubscription: tuple[float, ...] = (1.0,)

    def lay(self, wires: Wires) -> None:
        npus = wires.npus(self.npus)
        check_divides("rails", self.rails, self.npus, "NPUs")
        # As many servers as a leaf has ports down are a group, with a leaf for each rail.
        down = round(self.radix * self.oversubscription[0] / (1 + self.oversubscription[0]))
        size = min(self.npus, max(1, down) * self.rails)
        check_divides("npus", size, self.npus, "NPUs")
        order: list[Node] = []
        for group in range(0, self.npus, size):
            for rail in range(self.rails):
                order += npus[group + rail : group + size : self.rails]
        first = ("fibre", RAIL)
        fold(wires, order, self.radix, self.oversubscription, "rails", first=first)  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class RailOnly(Generator):
    """A fat tree of its own for each of ``rails``, and none between them: other rails are reached
    by way of the servers (Wang et al., Rail-only, arXiv:2307.12169).  ``spread`` out, each link up
    of a leaf leads to a spine of its own, also where fewer spines have ports enough."""

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
            name = f"rail {rail}"
            over, wide = self.oversubscription, self.spread
            fold(wires, own, self.radix, over, name, first=("fibre", RAIL), spread=wide)
