"""Networks of few hops between switches: dragonflies, Slim Fly, Jellyfish and HyperX."""

import math
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.network.generators.generator import FAR, NEAR, Generator
from dimsweep.engine.network.wires import Wires, check_count, dragonfly_links, group_links
from dimsweep.engine.topology.blocks import Node


@dataclass(frozen=True, kw_only=True)
class DragonflyNetwork(Generator):
    """A dragonfly with one cable between each pair of groups (Kim et al., ISCA 2008).

    The ``routers`` of a group are fully connected, and each has ``hosts`` NPUs.  By default a group
    has 2 * hosts routers, each with ``hosts`` cables to other groups, and there are as many groups
    as possible (the paper's balanced dragonfly).  Consecutive NPUs share a router, and consecutive
    routers are in different groups.
    """

    kind: ClassVar[str] = "dragonfly"

    hosts: int
    routers: int | None = None
    groups: int | None = None

    def lay(self, wires: Wires) -> None:
        check_count("hosts", self.hosts)
        routers = 2 * self.hosts if self.routers is None else self.routers
        groups = routers * self.hosts + 1 if self.groups is None else self.groups
        check_count("routers", routers)
        check_count("groups", groups)
        far = -(-(groups - 1) // routers)
        radix = self.hosts + routers - 1 + far
        npus = wires.npus(self.hosts * routers * groups)
        of = [wires.switches(f"group {group} router", routers, radix) for group in range(groups)]
        for npu in npus:
            router, group = divmod(npu // self.hosts, groups)
            wires.cable(npu, of[group][router], "copper", NEAR)
        for one, other in dragonfly_links(groups, routers):
            if one < other:  # a cable is a link each way
                (a, i), (b, j) = one, other
                wires.cable(of[a][i], of[b][j], *(("copper", NEAR) if a == b else ("fibre", FAR)))


@dataclass(frozen=True, kw_only=True)
class DragonflyPlus(Generator):
    """Dragonfly+: groups of leaves and spines (Shpiner et al., HiPINEB 2017).

    Each leaf of a group has ``hosts`` NPUs and a cable to each spine of the group.  At least one
    cable joins each pair of groups, from spine to spine.
    """

    kind: ClassVar[str] = "dragonfly_plus"

    hosts: int
    leaves: int
    spines: int
    groups: int

    def lay(self, wires: Wires) -> None:
        for name in ("hosts", "leaves", "spines", "groups"):
            check_count(name, getattr(self, name))
        npus = wires.npus(self.hosts * self.leaves * self.groups)
        far = -(-(self.groups - 1) // self.spines)
        tops = []
        for group in range(self.groups):
            leaves = wires.switches(f"group {group} leaf", self.leaves, self.hosts + self.spines)
            tops.append(wires.switches(f"group {group} spine", self.spines, self.leaves + far))
            for leaf in leaves:
                for spine in tops[-1]:
                    wires.cable(leaf, spine, "fibre", NEAR)
            for i in range(self.hosts * self.leaves):
                npu = npus[group * self.hosts * self.leaves + i]
                wires.cable(npu, leaves[i // self.hosts], "copper", NEAR)
        for (group, one), (other, two) in group_links(self.groups, self.spines):
            if group < other:
                wires.cable(tops[group][one], tops[other][two], "fibre", FAR)


@dataclass(frozen=True, kw_only=True)
class SlimFly(Generator):
    """Slim Fly: 2 q^2 switches of diameter 2, for a prime ``q`` with q mod 4 = 1.

    Each switch has (3 q - 1) / 2 cables to other switches, and ``hosts`` NPUs: by default half as
    many, rounded up.  See Besta and Hoefler (SC 2014), after McKay, Miller and Siran (J. Comb.
    Theory B 1998).
    """

    kind: ClassVar[str] = "slim_fly"

    q: int
    hosts: int | None = None

    def lay(self, wires: Wires) -> None:
        q = self.q
        if q % 4 != 1 or q > 997 or any(q % i == 0 for i in range(2, int(q**0.5) + 1)) or q < 5:
            hint = "5, 13, 17, 29, 37, 41, 53, 61, 73 and so on"
            problem = f"{q}; it must be a prime below 1,000 that leaves 1 when divided by 4"
            raise DimsweepError(problem, where="q", hint=hint, code="out-of-range")
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


@dataclass(frozen=True, kw_only=True)
class Jellyfish(Generator):
    """Jellyfish: a random regular graph of switches (Singla et al., NSDI 2012).

    Each of the ``switches`` has ``radix`` ports: ``hosts`` of them lead to NPUs, the other ports to
    other switches.
    """

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
                f"{self.switches} switches with {degree} ports each for other switches",
                where="hosts",
                hint="radix minus hosts must be 2 or more and less than the number of switches, "
                "and their product even",
                code="out-of-range",
            )
        npus = wires.npus(self.switches * self.hosts)
        made = wires.switches("switch", self.switches, self.radix)
        for npu in npus:
            wires.cable(npu, made[npu // self.hosts], "copper", NEAR)
        for one, other in sorted(nx.random_regular_graph(degree, self.switches, self.seed).edges):
            wires.cable(made[one], made[other], "fibre", FAR)


@dataclass(frozen=True, kw_only=True)
class HyperX(Generator):
    """HyperX: a lattice of switches with ``hosts`` NPUs each (Ahn et al., SC 2009).

    Each switch is joined by ``lanes`` cables to all switches that differ from it in one coordinate.
    """

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
