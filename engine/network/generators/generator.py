"""The base class of network generators, and a builder of folded Clos networks."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, ClassVar

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.network.graph import Network
from dimsweep.engine.network.wires import Wires, check_count, check_divides, clos_cables
from dimsweep.engine.topology.blocks import Node
from dimsweep.engine.units import BANDWIDTH, TIME

NEAR, RAIL, LAYER, FAR = 3.0, 15.0, 30.0, 50.0  # metres of cables, as ATOP (SIGCOMM 2025) has them


@dataclass(frozen=True, kw_only=True)
class Generator(ABC):
    """Base class: a rule that builds a network from a few numbers.

    Each rule is a registered subclass, and its fields are its parameters.
    """

    kind: ClassVar[str]

    bandwidth: Annotated[float, BANDWIDTH] = 50e9  # of a port, one way
    latency: Annotated[int, TIME] = 500_000  # of a cable
    server: int = 1  # consecutive NPUs that an NVLink switch joins; 1: no such switch
    nvlink: Annotated[float, BANDWIDTH] = 450e9  # of an NPU to the switch of its server
    nvlink_latency: Annotated[int, TIME] = 300_000
    planes: int = 1  # copies of the network, except NVLink; each takes a part of every message
    fails: float | None = None  # failures a year of each switch outside of servers
    repair: Annotated[float, TIME] | None = None

    @abstractmethod
    def lay(self, wires: "Wires") -> None:
        """Add the network to ``wires``; raise :class:`DimsweepError` naming a bad parameter."""

    def build(self) -> Network:
        """Return the network.  Raises :class:`DimsweepError` naming a bad parameter."""
        check_count("planes", self.planes)
        wires = Wires(self.bandwidth, self.latency, self.planes)
        self.lay(wires)
        n = wires.n_npus
        failures = {"fails": self.fails, "repair": self.repair}
        failures = {name: value for name, value in failures.items() if value is not None}
        for node, device in wires.graph.nodes(data=True):
            if not isinstance(node, int):
                device |= failures
        if self.server > 1:
            check_divides("server", self.server, n, "NPUs")
            for npu in range(n):
                switch = f"NVSwitch {npu // self.server}"
                wires.cable(npu, switch, bandwidth=self.nvlink, latency=self.nvlink_latency)
        elif self.server < 1:
            problem = f"a server of {self.server} NPUs; it must be 1 or more"
            raise DimsweepError(problem, where="server", code="out-of-range")
        return wires.network()


def order_by_rails(npus: range, size: int, rails: int) -> list[Node]:
    """Return the NPUs in groups of ``size`` (or one smaller group), by rail in each group.

    Raises :class:`DimsweepError` if the groups or the rails do not divide the NPUs.
    """
    size = max(1, min(len(npus), size))
    check_divides("npus", size, len(npus), "NPUs")
    check_divides("rails", rails, size, "NPUs of a group")
    groups = (npus[first : first + size] for first in range(0, len(npus), size))
    return [npu for group in groups for rail in range(rails) for npu in group[rail::rails]]


def build_folded_clos(
    wires: Wires,
    below: list[Node],
    radix: int,
    over: Iterable[float],
    name: str,
    metres: float,
    *,
    wide: int = 1,
    spread: bool = False,
) -> None:
    """Build a folded Clos network over the nodes ``below`` with as few tiers (1 to 3) as possible.

    Switches have ``radix`` ports (Clos, BSTJ 1953; Al-Fares et al., SIGCOMM 2008).  Each tier has
    ``over`` times as many ports down as up.  Consecutive nodes share a leaf, through fibres of
    ``metres``.  Links up are ``wide`` times as fast and use ``wide`` ports.  If there are fewer
    pods than ports of a core switch, cores have several lanes to each pod; with ``spread``, each
    link up leads to a different switch.
    """
    many = [*over] or [1.0]
    down, up = _split_ports(radix, many[0], wide)
    n = len(below)
    if n <= radix:
        (one,) = wires.switches(name, 1, radix)
        for node in below:
            wires.cable(node, one, "fibre", metres)
        return
    _check_full(down, n, f"{n} ports", "leaves")
    names = {
        "leaf": f"{name} leaf {{}}",
        "spine": f"{name} spine {{}}",
        "aggregation": f"{name} pod {{}} aggregation {{}}",
        "core": f"{name} core group {{}} {{}}",
    }
    n_leaves = n // down
    wires.switches(f"{name} leaf", n_leaves, radix)
    if n_leaves * wide <= radix:
        low = cores = 0
        above = _count_tops(n_leaves, up, radix, wide, spread)
        wires.switches(f"{name} spine", above, radix)
        lanes = {"leaf": up // above}
    else:
        low, high = _split_ports(radix, many[min(1, len(many) - 1)], wide)
        low //= wide
        _check_full(low, n_leaves, f"{n} ports on {n_leaves} leaves", "pods")
        n_pods = n_leaves // low
        if n_pods * wide > radix:
            problem = f"{n} ports need more than three tiers of switches with {radix} ports"
            hint = f"{n * radix // (n_pods * wide)} ports or fewer, or a greater radix"
            raise DimsweepError(problem, where="radix", hint=hint, code="unsupported")
        for p in range(n_pods):
            wires.switches(f"{name} pod {p} aggregation", up, radix)
        above, cores = up, _count_tops(n_pods, high, radix, wide, spread)
        for j in range(up):
            wires.switches(f"{name} core group {j}", cores, radix)
        lanes = {"leaf": 1, "aggregation": high // cores}
    bandwidth = wide * wires.bandwidth
    for (tier, *place), (tier_above, *place_above) in clos_cables(n, down, above, low, cores):
        upper = names[tier_above].format(*place_above)
        if tier == "port":
            wires.cable(below[place[0]], upper, "fibre", metres)
        else:
            lower = names[tier].format(*place)
            wires.cable(lower, upper, "fibre", LAYER, lanes[tier], bandwidth)


def _check_full(each: int, n: int, what: str, tier: str) -> None:
    if n % each:
        raise DimsweepError(
            f"{what} do not fill {tier} of {each}",
            where="radix",
            hint=f"a multiple of {each}, such as {-(-n // each) * each}, or another radix",
            code="mismatch",
        )


def _split_ports(radix: int, over: float, wide: int) -> tuple[int, int]:
    """Return the number of ports down and of links up of a switch with ``radix`` ports."""
    if radix < 2:
        problem = f"{radix}; it must be 2 or more"
        raise DimsweepError(problem, where="radix", code="out-of-range")
    if not 0 < over < math.inf:
        problem = f"{over:g}; it must be finite and more than zero"
        raise DimsweepError(
            problem, where="oversubscription", hint="such as 1", code="out-of-range"
        )
    up = round(radix / (1 + over)) // wide
    down = radix - up * wide
    if up < 1 or abs(down - over * up * wide) > 1e-6 * radix:
        raise DimsweepError(
            f"a radix of {radix} cannot be split {over:g} to 1",
            where="oversubscription",
            code="mismatch",
            hint="ports down and up must be whole numbers, such as 24 and 8 for 3 to 1",
        )
    return down, up


def _count_tops(n_below: int, up: int, radix: int, wide: int, spread: bool) -> int:
    """Return the minimum number of top switches that take equal shares of all links up."""
    n = up if spread else -(-n_below * up * wide // radix)
    while up % n:
        n += 1
    return n
