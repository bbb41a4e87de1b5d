"""Fat trees: of switches of any radix, oversubscribed or not in each tier, along rails or not."""

from dataclasses import dataclass
from typing import ClassVar

from dimsweep.engine.network.generators.generator import (
    LAYER,
    RAIL,
    Generator,
    Wires,
    along_rails,
    check_divides,
    fold,
)


@dataclass(frozen=True, kw_only=True)
class FatTree(Generator):
    """``npus`` under one to three tiers of switches of ``radix`` ports (Al-Fares et al., SIGCOMM
    2008); each tier below the top has ``oversubscription`` times as many ports down as up, one
    number for each of them.  With several ``rails`` a leaf has NPUs of one rail each."""

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
    architecture, 2023)."""

    kind: ClassVar[str] = "roft"

    rails: int = 8
