"""Jellyfish: switches joined at random."""

from dataclasses import dataclass
from typing import ClassVar

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.network.generators.generator import FAR, NEAR, Generator, Wires, check_count


@dataclass(frozen=True, kw_only=True)
class Jellyfish(Generator):
    """``switches`` of ``radix`` ports with ``hosts`` NPUs each; the other ports make a random
    regular graph of the ``seed`` (Singla et al., NSDI 2012)."""

    kind: ClassVar[str] = "jellyfish"

    switches: int
    radix: int
    hosts: int
    seed: int = 0

    def lay(self, wires: Wires) -> None:
        import networkx as nx

        for name in ("switches", "radix", "hosts"):
            check_count(name, getattr(self, name))
        degree = self.radix - self.hosts
        if not 2 <= degree < self.switches or degree * self.switches % 2:
            raise DimsweepError(
                f"{self.switches} switches with {degree} ports each for one another",
                where="hosts",
                hint="two ports or more, fewer than switches, and an even number in all",
            )
        npus = wires.npus(self.switches * self.hosts)
        made = wires.switches("switch", self.switches, self.radix)
        for npu in npus:
            wires.cable(npu, made[npu // self.hosts], "copper", NEAR)
        for one, other in sorted(nx.random_regular_graph(degree, self.switches, self.seed).edges):
            wires.cable(made[one], made[other], "fibre", FAR)
