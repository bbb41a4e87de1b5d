"""The base class of network generators, and folded Clos networks of switches of one radix."""

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
    """A network from a few numbers: a subclass, and a line of registration.

    ``bandwidth`` is that of a port (bytes/s, one way), ``latency`` that of a cable (ps).  With
    ``server`` above 1, so many NPUs that follow each other are in a server and joined by a switch
    of ``nvlink`` bytes/s and ``nvlink_latency`` ps for each.  There are ``planes`` of the network
    side by side, each with ports of its own, over which every message is spread evenly; NVLink is
    there once.  Its switches, but those of servers, fail so often and are repaired so long as
    :class:`Device` says it of one.
    """

    kind: ClassVar[str]

    bandwidth: Annotated[float, BANDWIDTH] = 50e9
    latency: Annotated[int, TIME] = 500_000
    server: int = 1
    nvlink: Annotated[float, BANDWIDTH] = 450e9
    nvlink_latency: Annotated[int, TIME] = 300_000
    planes: int = 1
    fails: float | None = None
    repair: Annotated[float, TIME] | None = None

    @abstractmethod
    def lay(self, wires: "Wires") -> None:
        """Lay the wires; raises :class:`DimsweepError` naming the parameter that makes no such
        network.
        """

    def build(self) -> Network:
        """The network.  Raises :class:`DimsweepError` for parameters that make none."""
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


def along_rails(npus: range, size: int, rails: int) -> list[Node]:
    """The NPUs in groups of ``size`` or, if they are fewer, one, those of a group rail by rail.
    Raises :class:`DimsweepError` for what cannot be shared out so.
    """
    size = max(1, min(len(npus), size))
    check_divides("npus", size, len(npus), "NPUs")
    check_divides("rails", rails, size, "NPUs of a group")
    groups = (npus[first : first + size] for first in range(0, len(npus), size))
    return [npu for group in groups for rail in range(rails) for npu in group[rail::rails]]


def fold(
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
    """A folded Clos network over ``below``, of as few tiers (one to three) of switches of ``radix``
    ports as it takes (Clos, BSTJ 1953; Al-Fares et al., SIGCOMM 2008).

    Each tier has ``over`` times as many ports down as up.  Those that follow each other in
    ``below`` share a leaf, by fibres of so many ``metres``.  Ports up are ``wide`` times as fast,
    and count as so many.  Where there are fewer pods than a core switch has ports, cores have
    several lanes to each; ``spread`` out, each link up leads to a switch of its own.
    """
    many = [*over] or [1.0]
    down, up = _split(radix, many[0], wide)
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
        above = _n_tops(n_leaves, up, radix, wide, spread)
        wires.switches(f"{name} spine", above, radix)
        lanes = {"leaf": up // above}
    else:
        low, high = _split(radix, many[min(1, len(many) - 1)], wide)
        low //= wide
        _check_full(low, n_leaves, f"{n} ports on {n_leaves} leaves", "pods")
        n_pods = n_leaves // low
        if n_pods * wide > radix:
            problem = f"{n} ports need more than three tiers of switches with {radix} ports"
            hint = f"{n * radix // (n_pods * wide)} ports or fewer, or a greater radix"
            raise DimsweepError(problem, where="radix", hint=hint, code="unsupported")
        for p in range(n_pods):
            wires.switches(f"{name} pod {p} aggregation", up, radix)
        above, cores = up, _n_tops(n_pods, high, radix, wide, spread)
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


def _split(radix: int, over: float, wide: int) -> tuple[int, int]:
    """The ports down, and the links up, of a switch."""
    if not 0 < over < math.inf or radix < 2:
        if radix < 2:
            problem = f"{radix}; it must be 2 or more"
            raise DimsweepError(problem, where="radix", code="out-of-range")
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


def _n_tops(n_below: int, up: int, radix: int, wide: int, spread: bool) -> int:
    """Return the fewest switches of ``radix`` ports that ``up`` links of each of ``n_below``
    switches can be shared out to evenly.
    """
    n = up if spread else -(-n_below * up * wide // radix)
    while up % n:
        n += 1
    return n
