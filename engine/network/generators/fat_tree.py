"""Fat trees: of switches of any radix, with any oversubscription in each tier."""

from dataclasses import dataclass
from typing import ClassVar

from dimsweep.engine.network.generators.generator import Generator, Wires, fold


@dataclass(frozen=True, kw_only=True)
class FatTree(Generator):
    """``npus`` under one to three tiers of switches of ``radix`` ports (Al-Fares et al., SIGCOMM
    2008); each tier below the top has ``oversubscription`` times as many ports down as up, one
    number for each of them."""

    kind: ClassVar[str] = "fat_tree"

    npus: int
    radix: int
    oversubscription: tuple[float, ...] = (1.0,)

    def lay(self, wires: Wires) -> None:
        fold(wires, list(wires.npus(self.npus)), self.radix, self.oversubscription, "tree")
