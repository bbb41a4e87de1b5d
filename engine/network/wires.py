"""A builder of network graphs: NPUs, switches and cables, and checks of their numbers.

Fabrics, levels and generators add devices and links to :class:`Wires`; :meth:`Wires.network` makes
the network.  The links of a folded Clos network and of a dragonfly are listed here once, for
fabrics (which replace one switch of a dimension) and for generators (whole networks).
"""

from collections.abc import Iterator
from itertools import permutations
from typing import Any

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.network.graph import Medium, Network
from dimsweep.engine.topology.blocks import Node

MAX_LINKS = 2**20  # about a gigabyte of graph
Place = tuple[str, int] | tuple[str, int, int]  # a tier, and where in it a device is
Router = tuple[int, int]  # the number of a group, and of a router in it


class Wires:
    """A graph under construction, to which NPUs, switches and cables are added.

    Parameters
    ----------
    bandwidth, latency
        Bytes/s (in each plane) and ps of a cable that is added without them.
    planes
        Number of parallel copies of all switches and cables.  The graph has one copy, with the
        bandwidth and lanes of all copies together.
    """

    def __init__(self, bandwidth: float = 0.0, latency: int = 0, planes: int = 1) -> None:
        import networkx as nx  # here: few runs build a network

        self.graph = nx.DiGraph()
        self.n_npus = 0
        self._cables = 0
        self.bandwidth, self.latency, self.planes = planes * bandwidth, latency, planes

    def npus(self, n: int) -> range:
        """Add NPUs 0 to ``n`` - 1, and return their numbers."""
        check_count("npus", n)
        self.n_npus = n
        self.graph.add_nodes_from(range(n))
        return range(n)

    def switches(self, name: str, n: int, ports: int | None, **device: object) -> list[Node]:
        """Add ``n`` switches ``name 0``, ``name 1``, ... with ``ports`` ports (None: any)."""
        made: list[Node] = [f"{name} {i}" for i in range(n)]
        self.graph.add_nodes_from(made, **self.device(ports), **device)
        return made

    def device(self, ports: int | None = None) -> dict[str, int]:
        """Return the node attributes of a switch with ``ports`` ports (None: any) in each plane."""
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
        """Add a link in each direction, or widen the links that the two devices already have.

        ``bandwidth`` (bytes/s) is the bandwidth of a lane, summed over planes; ``length`` is in
        metres. Raises :class:`DimsweepError` beyond :data:`MAX_LINKS`.
        """
        each = self.bandwidth if bandwidth is None else bandwidth
        # Links that share their values, such as both directions of a cable, are checked once.
        width = {"bandwidth": each if lanes == 1 else lanes * each, "lanes": lanes * self.planes}
        if self.graph.has_edge(one, other):
            for ends in ((one, other), (other, one)):
                for name, more in width.items():
                    self.graph.edges[ends][name] += more
            return
        delay = self.latency if latency is None else latency
        self.link(one, other, latency=delay, medium=medium, length=length, **width)
        self._cables += 1
        if 2 * self._cables > MAX_LINKS:
            problem = f"the network has more than {MAX_LINKS:,} links"
            raise DimsweepError(problem, hint="generate a smaller network", code="too-many")

    def link(self, one: Node, other: Node, **attributes: Any) -> None:
        """Add a link each way with the attributes of a :class:`Link`."""
        self.graph.add_edge(one, other, **attributes)
        self.graph.add_edge(other, one, **attributes)

    def mesh(self, nodes: list[Node], medium: Medium, length: float, lanes: int = 1) -> None:
        """Add a cable between every two of ``nodes``."""
        for i, one in enumerate(nodes):
            for other in nodes[:i]:
                self.cable(other, one, medium, length, lanes)

    def network(self, sizes: tuple[int, ...] = ()) -> Network:
        """Return the finished network; ``sizes`` are the sizes of its dimensions, if it has any.

        Raises :class:`DimsweepError` as :class:`Network` does.
        """
        return Network(self.graph, sizes)


# --- shapes that fabrics and generators share -----------------------------------------------------


def clos_cables(
    n: int, leaf: int, up: int, pod: int = 0, cores: int = 0
) -> Iterator[tuple[Place, Place]]:
    """Yield the cables of a folded Clos network over ``n`` ports, as (lower end, upper end).

    Parameters
    ----------
    leaf
        Ports of a leaf.
    up
        Devices above a leaf: all spines (Clos, BSTJ 1953), or the aggregation switches of its pod.
    pod
        Leaves of a pod; 0: there are two tiers.
    cores
        Cores above an aggregation switch.  Number j of each pod leads to core group j (Al-Fares et
        al., SIGCOMM 2008).

    Yields
    ------
    tuple
        Two places: ``("port", i)``, ``("leaf", i)``, ``("spine", j)``, ``("aggregation", pod, j)``,
        or ``("core", group, k)``.  Routing breaks ties in this order.
    """
    for i in range(n // leaf):
        for port in range(i * leaf, (i + 1) * leaf):
            yield ("port", port), ("leaf", i)
        for j in range(up):
            yield ("leaf", i), ("aggregation", i // pod, j) if pod else ("spine", j)
    for p in range(n // (leaf * pod) if pod else 0):
        for j in range(up):
            for k in range(cores):
                yield ("aggregation", p, j), ("core", j, k)


def dragonfly_links(groups: int, routers: int) -> Iterator[tuple[Router, Router]]:
    """Yield the one-way links between the routers of a dragonfly (Kim et al., ISCA 2008).

    The ``routers`` of a group are fully connected, and one link each way joins two groups.
    """
    for group in range(groups):
        for one, other in permutations(range(routers), 2):
            yield (group, one), (group, other)
    yield from group_links(groups, routers)


def group_links(groups: int, routers: int) -> Iterator[tuple[Router, Router]]:
    """Yield one link each way between every two groups of a dragonfly.

    The link of group i to group i + o is at router (o - 1) // h, where h links of each router lead
    to other groups.
    """
    per_router = -(-(groups - 1) // routers)
    for group in range(groups):
        for o in range(1, groups):
            far = (group + o) % groups, (groups - o - 1) // per_router
            yield (group, (o - 1) // per_router), far


# --- checks ---------------------------------------------------------------------------------------


def check_count(name: str, value: int) -> None:
    """Raise :class:`DimsweepError` unless a parameter is a count of 1 or more devices."""
    if not 1 <= value <= MAX_LINKS:
        problem = f"{value}; it must be 1 to {MAX_LINKS}"
        raise DimsweepError(problem, where=name, code="out-of-range")


def check_divides(name: str, value: int, n: int, what: str, hint: str = "") -> None:
    """Raise :class:`DimsweepError` unless ``value`` divides ``n``.

    ``name`` is the parameter with the value, and ``what`` the noun for the ``n`` devices.  The
    default hint suggests a valid ``n``.
    """
    check_count(name, value)
    if n % value:
        raise DimsweepError(
            f"{n} {what} cannot be divided into groups of {value}",
            where=name,
            code="mismatch",
            hint=hint or f"a multiple of {value}, such as {max(1, n // value) * value}",
        )


def divisors_hint(n: int) -> str:
    """Return a hint that lists the divisors of ``n``."""
    return f"such as {', '.join(str(i) for i in range(1, n + 1) if n % i == 0)}"
