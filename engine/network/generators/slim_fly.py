"""Slim Fly: the densest switches of diameter 2, MMS graphs."""

from dataclasses import dataclass
from typing import ClassVar

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.network.generators.generator import FAR, NEAR, Generator, Wires


@dataclass(frozen=True, kw_only=True)
class SlimFly(Generator):
    """2 q^2 switches of diameter 2 (Besta and Hoefler, SC 2014, after McKay, Miller and Siran, J.
    Comb. Theory B 1998), for a prime ``q`` that is 1 more than a multiple of 4.

    Each has (3 q - 1) / 2 cables to others, and ``hosts`` NPUs: none given, half as many, rounded
    up.
    """

    kind: ClassVar[str] = "slim_fly"

    q: int
    hosts: int | None = None

    def lay(self, wires: Wires) -> None:
        q = self.q
        if q % 4 != 1 or q > 997 or any(q % i == 0 for i in range(2, int(q**0.5) + 1)) or q < 5:
            hint = "5, 13, 17, 29, 37, 41, 53, 61, 73 and so on"
            raise DimsweepError(f"{q} is no such prime below 1,000", where="q", hint=hint)
        degree = (3 * q - 1) // 2
        hosts = (degree + 1) // 2 if self.hosts is None else self.hosts
        npus = wires.npus(2 * q * q * hosts)
        made = wires.switches("switch", 2 * q * q, degree + hosts)
        for npu in npus:
            wires.cable(npu, made[npu // hosts], "copper", NEAR)
        root = next(g for g in range(2, q) if len({pow(g, i, q) for i in range(q - 1)}) == q - 1)
        even = {pow(root, i, q) for i in range(0, q - 1, 2)}
        odd = {pow(root, i, q) for i in range(1, q - 1, 2)}
        for half, steps in ((0, even), (1, odd)):
            for x in range(q):
                line = made[(half * q + x) * q : (half * q + x + 1) * q]
                for y in range(q):
                    for other in range(y):
                        if (y - other) % q in steps:
                            wires.cable(line[other], line[y], "copper", NEAR)
        for x in range(q):
            for y in range(q):
                for m in range(q):  # (0, x, y) to (1, m, c) where y = m x + c
                    c = (y - m * x) % q
                    wires.cable(made[x * q + y], made[(q + m) * q + c], "fibre", FAR)
