"""PolarFly, switches of diameter 2, as a generator of networks (Lakhotia et al., SC 2022).

    dimsweep simulate plugins=examples/plugins/polar_fly.py fidelity=flow workload=all_reduce \\
        network.generator='{kind: polar_fly, q: 3, hosts: 2}' topology.shape='Switch(26)' \\
        topology.latency='1 us' topology.tiers=[]
"""

from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

from dimsweep.engine import DimsweepError
from dimsweep.engine.network.generators import Generator, Wires, register


@dataclass(frozen=True, kw_only=True)
class PolarFly(Generator):
    """q^2 + q + 1 switches for a prime ``q``, the points of the projective plane over its residues,
    with ``hosts`` NPUs each.  Switches are joined where their points are orthogonal, so each has
    q + 1 others, or q if it is orthogonal to itself; any two are joined or share one of these."""

    kind: ClassVar[str] = "polar_fly"

    q: int = 3
    hosts: int = 2

    def lay(self, wires: Wires) -> None:
        q = self.q
        if not 2 <= q <= 127 or any(q % divisor == 0 for divisor in range(2, q)):
            raise DimsweepError(f"{q} is no prime up to 127", where="q", hint="such as 3, 5, 7, 11")
        points = [(1, a, b) for a in range(q) for b in range(q)]
        points += [(0, 1, a) for a in range(q)] + [(0, 0, 1)]
        switches = wires.switches("switch", len(points), q + 1 + self.hosts)
        for npu in wires.npus(self.hosts * len(points)):
            wires.cable(npu, switches[npu // self.hosts], "copper", 3.0)
        for (i, one), (j, other) in combinations(enumerate(points), 2):
            if sum(a * b for a, b in zip(one, other, strict=True)) % q == 0:
                wires.cable(switches[i], switches[j], "fibre", 30.0)


register(PolarFly)
