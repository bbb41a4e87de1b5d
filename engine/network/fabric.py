"""Fabrics: the wiring of each dimension of a topology, and the network of all dimensions.

A fabric replaces the links of a dimension's block, such as a fat tree instead of one switch.
"""

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, NamedTuple

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.network.graph import Link, Network
from dimsweep.engine.network.wires import (
    MAX_LINKS,
    Wires,
    check_count,
    check_divides,
    clos_cables,
    divisors_hint,
    dragonfly_links,
)
from dimsweep.engine.topology.blocks import Block, Node, Pair, Ring, Switch
from dimsweep.engine.topology.coordinates import lines
from dimsweep.engine.topology.topology import Dimension, Topology


class PartCounts(NamedTuple):
    """Links and switch ports per NPU, as multiples of the counts of the dimension's block.

    A Ring's block counts its links; a Switch's block counts one link and one port.  A link between
    two switches counts as one link and two ports.
    """

    links: float = 1.0
    ports: float = 1.0


class Fabric(ABC):
    """The wiring of one dimension; a base class whose defaults suit replacements of a Switch.

    By default a fabric gives each NPU one link and closes no ring.  Routing breaks ties by the
    order of a node's links.
    """

    replaces: ClassVar[Block] = Switch()

    def check(self, dim: Dimension) -> None:
        """Raise :class:`DimsweepError` unless the fabric suits the dimension."""
        if dim.block != self.replaces:
            raise DimsweepError(
                f"a {type(self).__name__} cannot replace {dim.name}",
                hint=f"it replaces a {self.replaces.name}",
                code="conflict",
            )

    def links(self, dim: Dimension) -> int:
        """Return the number of links of an NPU, which share its bandwidth."""
        return 1

    def closes_ring(self, dim: Dimension, p: int, stride: int) -> bool:
        """Return whether a group of the dimension forms a ring (:meth:`Block.closes_ring`)."""
        return False

    @abstractmethod
    def bill(self, dim: Dimension) -> PartCounts:
        """Return the links and switch ports per NPU, relative to the dimension's block."""

    @abstractmethod
    def wire(self, dim: Dimension, npus: range, place: str) -> Iterator[Pair]:
        """Yield the links (from, to) of one group; ``place`` makes the names of switches unique."""


@dataclass(frozen=True)
class Auto(Fabric):
    """The default fabric: the links of the dimension's block itself."""

    def check(self, dim: Dimension) -> None:
        """Accept every dimension."""

    def links(self, dim: Dimension) -> int:
        return dim.block.links(dim.size)

    def closes_ring(self, dim: Dimension, p: int, stride: int) -> bool:
        return dim.block.closes_ring(dim.size, p, stride)

    def bill(self, dim: Dimension) -> PartCounts:
        return PartCounts()

    def wire(self, dim: Dimension, npus: range, place: str) -> Iterator[Pair]:
        return dim.block.wire(npus, place)


@dataclass(frozen=True)
class Mesh(Fabric):
    """A Ring without its closing link: each link has half an NPU's bandwidth; end NPUs have one."""

    replaces = Ring()

    def links(self, dim: Dimension) -> int:
        return 2

    def bill(self, dim: Dimension) -> PartCounts:
        """Return the link count of a Ring minus the closing link, relative to the Ring."""
        return PartCounts(links=1 - 1 / dim.size)

    def wire(self, dim: Dimension, npus: range, place: str) -> Iterator[Pair]:
        for i, npu in enumerate(npus):
            if i + 1 < len(npus):
                yield npu, npus[i + 1]
            if i > 0:
                yield npu, npus[i - 1]


@dataclass(frozen=True)
class Clos(Fabric):
    """A folded Clos network (fat tree) instead of one switch, with links of equal bandwidth.

    ``levels`` is 2 (leaves and spines) or 3 (leaves, aggregation switches, cores), ``leaf`` the
    number of NPUs of a leaf switch, ``pod`` the number of leaf switches of a pod (3 levels only).
    Every switch below the top has ``oversubscription`` times as many links down as up.  Raises
    :class:`DimsweepError` for numbers that do not give a whole number of switches.
    """

    levels: int
    leaf: int
    pod: int | None = None
    oversubscription: float = 1.0

    def __post_init__(self) -> None:
        if self.levels not in (2, 3):
            problem = f"a Clos of {self.levels} levels; it must be 2 or 3"
            raise DimsweepError(problem, where="levels", code="out-of-range")
        if (self.pod is not None) != (self.levels == 3):
            raise DimsweepError(
                f"a Clos of {self.levels} levels with pod {self.pod}",
                where="pod",
                hint="with 3 levels, give the leaf switches of a pod; with 2 levels, leave pod out",
                code="conflict" if self.pod else "missing",
            )
        if not 0 < self.oversubscription < math.inf:
            raise DimsweepError(
                f"{self.oversubscription:g}; it must be finite and more than zero",
                where="oversubscription",
                hint="1 gives equal bandwidth up and down",
                code="out-of-range",
            )
        for name, down in (("leaf", self.leaf), ("pod", self.pod)):
            if down is not None:
                check_count(name, down)
                up = down / self.oversubscription
                if not 1 <= up < math.inf or abs(up - round(up)) > 1e-9 * up:
                    raise DimsweepError(
                        f"{name} {down} over {self.oversubscription:g} leaves {up:g} links up, "
                        "which must be a whole number",
                        where="oversubscription",
                        hint=divisors_hint(down),
                        code="mismatch",
                    )

    def links_up(self, down: int) -> int:
        """Return the number of links up of a switch with ``down`` links down."""
        return round(down / self.oversubscription)

    def check(self, dim: Dimension) -> None:
        super().check(dim)
        _check_shares("leaf", self.leaf, "NPUs", dim.size)
        if self.pod is not None:
            _check_shares("pod", self.pod, "leaf switches", dim.size // self.leaf)

    def bill(self, dim: Dimension) -> PartCounts:
        """Return the links and ports per NPU, summed over all levels of the Clos network."""
        share = 1 / self.oversubscription
        above = share if self.pod is None else share + share**2
        return PartCounts(links=1 + above, ports=1 + 2 * above)

    def wire(self, dim: Dimension, npus: range, place: str) -> Iterator[Pair]:
        names = {
            "leaf": f"leaf {place} no {{}}",
            "spine": f"spine {place} no {{}}",
            "aggregation": f"aggregation {place} pod {{}} no {{}}",
            "core": f"core {place} group {{}} no {{}}",
        }
        pod = self.pod or 0
        cores = self.links_up(pod) if pod else 0
        for (tier, *at), (above, *at_above) in clos_cables(
            len(npus), self.leaf, self.links_up(self.leaf), pod, cores
        ):
            lower = npus[at[0]] if tier == "port" else names[tier].format(*at)
            upper = names[above].format(*at_above)
            yield lower, upper
            yield upper, lower


@dataclass(frozen=True)
class Dragonfly(Fabric):
    """A dragonfly instead of one switch, with links of equal bandwidth (Kim et al., ISCA 2008).

    The ``routers`` of a group are fully connected, each router has ``npus`` NPUs, and one link
    joins each pair of groups.  Raises :class:`DimsweepError` for numbers below one.
    """

    routers: int
    npus: int

    def __post_init__(self) -> None:
        check_count("routers", self.routers)
        check_count("npus", self.npus)

    def check(self, dim: Dimension) -> None:
        super().check(dim)
        _check_shares("npus", self.npus, "NPUs", dim.size)
        _check_shares("routers", self.routers, "routers in all", dim.size // self.npus)

    def bill(self, dim: Dimension) -> PartCounts:
        """Return links and switch ports per NPU, inside groups and between them."""
        groups = dim.size // (self.routers * self.npus)
        ends = (self.routers - 1 + (groups - 1) / self.routers) / self.npus
        return PartCounts(links=1 + ends / 2, ports=1 + ends)

    def wire(self, dim: Dimension, npus: range, place: str) -> Iterator[Pair]:
        routers, groups = self.routers, len(npus) // (self.routers * self.npus)

        def name(group: int, router: int) -> str:
            return f"router {place} group {group} no {router}"

        for i, npu in enumerate(npus):
            router = name(*divmod(i // self.npus, routers))
            yield npu, router
            yield router, npu
        for one, other in dragonfly_links(groups, routers):
            yield name(*one), name(*other)


def build_network(
    topology: Topology, fabrics: Sequence[Fabric] = (), buffer: float | None = None
) -> Network:
    """Return the network graph of a topology: each dimension's fabric joins its groups of NPUs.

    Parameters
    ----------
    topology
        Dimensions, each with the bandwidth and latency of its links.
    fabrics
        One for each dimension; none: :class:`Auto` everywhere.
    buffer
        Bytes of messages that may wait at the far end of each link; None: no limit.

    Raises
    ------
    DimsweepError
        For a fabric that does not suit its dimension, and beyond
        :data:`engine.network.wires.MAX_LINKS`.
    """

    def links() -> Iterator[tuple[Node, Node, dict[str, Any]]]:
        for d, (dim, fabric) in enumerate(fit_fabrics(topology, fabrics)):
            if dim.size == 1:
                continue
            bandwidth = dim.bandwidth / fabric.links(dim)
            known = {"bandwidth": bandwidth, "latency": dim.latency, "buffer": buffer, "dim": d}
            for number, npus in enumerate(lines(topology.sizes, d)):
                for source, target in fabric.wire(dim, npus, f"d{d} line {number}"):
                    yield source, target, known

    found = list(islice(links(), MAX_LINKS + 1))
    if len(found) > MAX_LINKS:
        raise DimsweepError(
            f"{topology.name} has more than {MAX_LINKS:,} links",
            where="network",
            hint="simulate messages on a smaller cluster",
            code="too-many",
        )
    laid = Wires()
    laid.npus(topology.n_npus)
    laid.graph.add_edges_from(found)
    return laid.network(topology.sizes)


def fit_fabrics(topology: Topology, fabrics: Sequence[Fabric]) -> list[tuple[Dimension, Fabric]]:
    """Return each dimension with its fabric; without ``fabrics``, with :class:`Auto`.

    Raises :class:`DimsweepError` for a wrong number of fabrics, and for one that does not suit its
    dimension.
    """
    if fabrics and len(fabrics) != len(topology.dims):
        raise DimsweepError(
            f"{len(fabrics)} fabrics for the {len(topology.dims)} dimensions of {topology.name}",
            where="network.fabric",
            hint="give one for each dimension, or none",
            code="mismatch",
        )
    pairs = list(zip(topology.dims, fabrics or [Auto()] * len(topology.dims), strict=True))
    for d, (dim, fabric) in enumerate(pairs):
        try:
            fabric.check(dim)
        except DimsweepError as error:
            raise error.with_prefix(f"network.fabric[{d}]") from None
    return pairs


def _check_shares(name: str, value: int, what: str, n: int) -> None:
    check_divides(name, value, n, what, divisors_hint(n))


# --- networks that are products of dimensions -----------------------------------------------------


_Wire = tuple[Node, Node, float, int]


def is_product(network: Network, topology: Topology) -> bool:
    """Return whether a network has exactly the links of the topology's blocks.

    Names of switches are ignored.
    """
    try:
        own = build_network(topology)
    except DimsweepError:  # too large to be a graph
        return False
    return len(own.links) == len(network.links) and _count_links(own) == _count_links(network)


def _count_links(network: Network) -> tuple[Counter[_Wire], Counter[frozenset[_Wire]]]:
    """Return the links between NPUs with counts, and the number of switches with equal links."""
    direct: Counter[_Wire] = Counter()
    at: dict[Node, set[_Wire]] = {}
    for link in network.links:
        ends = [end for end in (link.source, link.target) if isinstance(end, str)]
        wire = *_drop_switch_name(link), link.bandwidth, link.latency
        if not ends:
            direct[wire] += 1
        for end in ends:
            at.setdefault(end, set()).add(wire)
    return direct, Counter(map(frozenset, at.values()))


def _drop_switch_name(link: Link) -> tuple[Node, Node]:
    """Return the ends of a link, with "" instead of the name of a switch."""
    source, target = (end if isinstance(end, int) else "" for end in (link.source, link.target))
    return source, target
