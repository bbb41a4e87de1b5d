"""Rail-only: NPUs of the same place in their servers share switches, and no others."""

from dataclasses import dataclass
from typing import ClassVar

from dimsweep.engine.network.generators.generator import (
    RAIL,
    Generator,
    Wires,
    check_divides,
    fold,
)
from dimsweep.engine.topology.block import Node


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
            over, name = self.oversubscription, f"rail {rail}"
            fold(wires, own, self.radix, over, name, RAIL, spread=self.spread)
