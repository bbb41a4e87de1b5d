"""What every generator of networks knows about itself, and the wires that it lays."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Any, ClassVar

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.network.fabric import MAX_LINKS
from dimsweep.engine.network.graph import Medium, Network
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
        network."""

    def build(self) -> Network:
        """The network.  Raises :class:`DimsweepError` for parameters that make none."""
        check_count("planes", self.planes)
        wires = Wires(self.bandwidth, self.latency, self.planes)
        self.lay(wires)
        n = wires.n_npus
        told = {"fails": self.fails, "repair": self.repair}
        told = {name: value for name, value in told.items() if value is not None}
        for node, device in wires.graph.nodes(data=True):
            if not isinstance(node, int):
                device |= told
        if self.server > 1:
            check_divides("server", self.server, n, "NPUs")
            inside: dict[str, Any] = {"bandwidth": self.nvlink, "latency": self.nvlink_latency}
            for npu in range(n):
                wires.cable(npu, f"NVSwitch {npu // self.server}", **inside)
        elif self.server < 1:
            raise DimsweepError(f"a server of {self.server} NPUs", where="server", hint="1 or more")
        return Network(wires.graph)


class Wires:
    """A graph of NPUs, switches and cables that grows; ``bandwidth`` (bytes/s) and ``latency`` (ps)
    are those of a cable of which nothing else is said.  Of all switches and cables there are so
    many ``planes``, which are one in the graph: as wide as all of them, ``bandwidth`` too."""

    def __init__(self, bandwidth: float, latency: int, planes: int = 1) -> None:
        import networkx as nx  # here: few runs build a network

        self.graph = nx.DiGraph()
        self.n_npus = 0
        self._links = 0
        self.bandwidth, self.latency, self.planes = planes * bandwidth, latency, planes

    def npus(self, n: int) -> range:
        """The first ``n`` NPUs."""
        check_count("npus", n)
        self.n_npus = n
        self.graph.add_nodes_from(range(n))
        return range(n)

    def switches(self, name: str, n: int, ports: int, **device: object) -> list[Node]:
        """``n`` switches called ``name 0`` and so on, of a radix of ``ports``."""
        made: list[Node] = [f"{name} {i}" for i in range(n)]
        self.graph.add_nodes_from(made, **self.device(ports), **device)
        return made

    def device(self, ports: int | None = None) -> dict[str, int]:
        """The attributes of a switch of a radix of ``ports`` (None: any), of which each plane has
        one."""
        radix = {} if ports is None else {"ports": ports * self.planes}
        return radix | ({"planes": self.planes} if self.planes > 1 else {})

    def cable(
        self,
        one: Node,
        other: Node,
        medium: Medium = "",
        length: float = 0.0,
        lanes: int = 1,
        bandwidth: float | None = None,
        latency: int | None = None,
    ) -> None:
        """A link each way; ``bandwidth`` is that of a lane, of all planes together.  Laid again, it
        is a lane wider."""
        told: dict[str, Any] = {
            "bandwidth": lanes * (self.bandwidth if bandwidth is None else bandwidth),
            "latency": self.latency if latency is None else latency,
            "medium": medium,
            "length": length,
            "lanes": lanes * self.planes,
        }
        for ends in ((one, other), (other, one)):
            if self.graph.has_edge(*ends):
                self.graph.edges[ends]["bandwidth"] += told["bandwidth"]
                self.graph.edges[ends]["lanes"] += told["lanes"]
            else:
                self.graph.add_edge(*ends, **told)
                self._links += 1
        if self._links > MAX_LINKS:
            raise DimsweepError(
                f"the network has more than {MAX_LINKS:,} links", hint="generate a smaller one"
            )

    def mesh(self, nodes: list[Node], medium: Medium, length: float, lanes: int = 1) -> None:
        """A cable between each two."""
        for i, one in enumerate(nodes):
            for other in nodes[:i]:
                self.cable(other, one, medium, length, lanes)


def along_rails(npus: range, size: int, rails: int) -> list[Node]:
    """The NPUs in groups of ``size`` or, if they are fewer, one, those of a group rail by rail.
    Raises :class:`DimsweepError` for what cannot be shared out so."""
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
    leaves = wires.switches(f"{name} leaf", n // down, radix)
    for i, node in enumerate(below):
        wires.cable(node, leaves[i // down], "fibre", metres)
    if len(leaves) * wide <= radix:
        _spread(wires, leaves, up, radix, f"{name} spine", wide, spread)
        return
    low, high = _split(radix, many[min(1, len(many) - 1)], wide)
    low //= wide
    _check_full(low, len(leaves), f"{n} ports on {len(leaves)} leaves", "pods")
    pods = [leaves[i : i + low] for i in range(0, len(leaves), low)]
    if len(pods) * wide > radix:
        what = f"{n} ports need more than three tiers of switches of {radix} ports"
        hint = f"{n * radix // (len(pods) * wide)} ports or fewer, or a greater radix"
        raise DimsweepError(what, where="radix", hint=hint)
    above: list[list[Node]] = []
    for p, pod in enumerate(pods):
        above.append(wires.switches(f"{name} pod {p} aggregation", up, radix))
        for leaf, each in product(pod, above[-1]):
            wires.cable(leaf, each, "fibre", LAYER, bandwidth=wide * wires.bandwidth)
    for j, group in enumerate(zip(*above, strict=True)):
        _spread(wires, [*group], high, radix, f"{name} core group {j}", wide, spread)


def _check_full(each: int, n: int, what: str, tier: str) -> None:
    if n % each:
        raise DimsweepError(
            f"{what} do not fill {tier} of {each}",
            where="radix",
            hint=f"a multiple of {each}, such as {-(-n // each) * each}, or another radix",
        )


def _split(radix: int, over: float, wide: int) -> tuple[int, int]:
    """The ports down, and the links up, of a switch."""
    if not 0 < over < math.inf or radix < 2:
        what = f"oversubscription {over:g}" if radix > 1 else f"a radix of {radix}"
        raise DimsweepError(
            what, where="oversubscription" if radix > 1 else "radix", hint="such as 1"
        )
    up = round(radix / (1 + over)) // wide
    down = radix - up * wide
    if up < 1 or abs(down - over * up * wide) > 1e-6 * radix:
        raise DimsweepError(
            f"a radix of {radix} cannot be split {over:g} to 1",
            where="oversubscription",
            hint="ports down and up must be whole numbers, such as 24 and 8 for 3 to 1",
        )
    return down, up


def _spread(
    wires: Wires, below: list[Node], up: int, radix: int, name: str, wide: int, spread: bool
) -> None:
    """``up`` links of each switch, shared out to as few switches of ``radix`` ports as it takes."""
    count = up if spread else -(-len(below) * up * wide // radix)
    while up % count:
        count += 1
    tops = wires.switches(name, count, radix)
    for node in below:
        for top in tops:
            wires.cable(node, top, "fibre", LAYER, up // count, wide * wires.bandwidth)


def check_count(name: str, value: int) -> None:
    """Raise :class:`DimsweepError` unless a parameter is a number of parts."""
    if not 1 <= value <= MAX_LINKS:
        raise DimsweepError(f"{value} is not in 1..{MAX_LINKS}", where=name)


def check_divides(name: str, value: int, n: int, what: str) -> None:
    """Raise :class:`DimsweepError` unless ``n`` can be shared out by ``value``."""
    check_count(name, value)
    if n % value:
        raise DimsweepError(
            f"{n} {what} cannot be shared out by {value}",
            where=name,
            hint=f"a multiple of {value}, such as {max(1, n // value) * value}",
        )
