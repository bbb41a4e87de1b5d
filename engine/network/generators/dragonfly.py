"""Dragonflies: groups of switches, each joined to all others."""

from dataclasses import dataclass
from typing import ClassVar

from dimsweep.engine.network.fabric import group_links
from dimsweep.engine.network.generators.generator import (
    FAR,
    NEAR,
    Generator,
    Wires,
    check_count,
)


@dataclass(frozen=True, kw_only=True)
class DragonflyNetwork(Generator):
    """``groups`` of ``routers`` that are fully connected, ``hosts`` NPUs at each, one cable between
    each pair of groups (Kim et al., ISCA 2008).

    None given: as many groups as there can be if each router has ``hosts`` cables to others, and
    twice as many routers to a group (the balanced dragonfly of the paper).  The NPUs of router k
    follow those of router k - 1, and routers are dealt out to groups in turn.
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
        for own in of:
            wires.mesh(own, "copper", NEAR)
        for (one, i), (other, j) in group_links(groups, routers):
            if one < other:
                wires.cable(of[one][i], of[other][j], "fibre", FAR)


@dataclass(frozen=True, kw_only=True)
class DragonflyPlus(Generator):
    """Dragonfly+: groups of ``leaves`` and ``spines``, each leaf joined to each spine, ``hosts``
    NPUs at a leaf; one cable between each pair of ``groups`` or more, from spine to spine
    (Shpiner et al., HiPINEB 2017)."""

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
