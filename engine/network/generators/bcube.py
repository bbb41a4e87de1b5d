"""BCube: NPUs with a port to a switch of each level, which pass messages on."""

from dataclasses import dataclass
from typing import ClassVar

from dimsweep.engine.network.generators.generator import LAYER, NEAR, Generator, Wires, check_count


@dataclass(frozen=True, kw_only=True)
class BCube(Generator):
    """BCube(n, k): n^k NPUs, whose numbers in base ``n`` have ``k`` digits; those that differ in
    digit i only share a switch of level i (Guo et al., SIGCOMM 2009).  No switch is joined to
    another: NPUs pass messages on."""

    kind: ClassVar[str] = "bcube"

    n: int
    k: int = 2

    def lay(self, wires: Wires) -> None:
        check_count("n", self.n)
        check_count("k", self.k)
        npus = wires.npus(self.n**self.k if self.k < 21 else 0)
        for level in range(self.k):
            below = self.n**level
            own = wires.switches(f"level {level} switch", len(npus) // self.n, self.n)
            for npu in npus:
                switch = own[npu // (below * self.n) * below + npu % below]
                wires.cable(npu, switch, *(("copper", NEAR) if level == 0 else ("fibre", LAYER)))
