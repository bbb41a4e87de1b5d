"""HyperX: switches on a lattice, fully connected along each dimension."""

import math
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

from dimsweep.engine.network.generators.generator import FAR, NEAR, Generator, Wires, check_count
from dimsweep.engine.topology.block import Node


@dataclass(frozen=True, kw_only=True)
class HyperX(Generator):
    """Switches on a lattice of ``sizes``, each joined to all that differ from it in one coordinate
    by ``lanes`` cables, ``hosts`` NPUs at each (Ahn et al., HyperX, SC 2009)."""

    kind: ClassVar[str] = "hyperx"

    sizes: tuple[int, ...]
    hosts: int
    lanes: int = 1

    def lay(self, wires: Wires) -> None:
        for name, value in (
            ("hosts", self.hosts),
            ("lanes", self.lanes),
            ("sizes", len(self.sizes)),
        ):
            check_count(name, value)
        for size in self.sizes:
            check_count("sizes", size)
        npus = wires.npus(math.prod(self.sizes) * self.hosts)
        radix = self.hosts + self.lanes * sum(size - 1 for size in self.sizes)
        made = wires.switches("switch", math.prod(self.sizes), radix)
        for npu in npus:
            wires.cable(npu, made[npu // self.hosts], "copper", NEAR)
        at = dict(zip(product(*map(range, self.sizes)), made, strict=True))
        for d, size in enumerate(self.sizes):
            others = [range(1) if i == d else range(s) for i, s in enumerate(self.sizes)]
            for place in product(*others):
                row: list[Node] = [at[(*place[:d], x, *place[d + 1 :])] for x in range(size)]
                near = d == len(self.sizes) - 1
                wires.mesh(row, "copper" if near else "fibre", NEAR if near else FAR, self.lanes)
