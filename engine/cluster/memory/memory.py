"""What a memory is: how an access is served, who shares a server, and how much it holds."""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, NamedTuple

from dimsweep.engine.errors import DimsweepError, InfeasibleError
from dimsweep.engine.units import MAX_PICOSECONDS, PICOSECONDS


class Sharing(StrEnum):
    """The NPUs that one server of a memory serves: each its own, those of a node, or all."""

    NPU = "npu"
    NODE = "node"
    CLUSTER = "cluster"


class Request(NamedTuple):
    """What the NPUs of a server ask for at once: ``n_bytes`` that each of them owns.

    ``npus`` of ``nodes`` nodes ask.  In a gather or a reduction ``members`` of them, on
    ``member_nodes`` nodes, get (or give) the bytes of one another, too.  ``copies`` of them ask for
    the same bytes, or store what may be summed up.  They ``store``, or else load.
    """

    n_bytes: float
    npus: int = 1
    nodes: int = 1
    members: int = 1
    member_nodes: int = 1
    copies: int = 1
    store: bool = False


class Service(NamedTuple):
    """How an access is served, in ps: its ``latency``, and then what its bytes take to move.

    These move as slowly as the slowest lets them: the NPU's ``own`` path, the server of its
    ``node``, or that of the ``cluster``.  Each is given for an access that has it for itself; a
    server that serves n NPUs at once takes n times as long.
    """

    latency: float
    own: float = 0.0
    node: float = 0.0
    cluster: float = 0.0

    def lasts(self, in_node: float, in_cluster: float) -> float:
        """Picoseconds while the servers serve that many NPUs at once, this one included."""
        return self.latency + max(self.own, in_node * self.node, in_cluster * self.cluster)


@dataclass(frozen=True)
class RemoteMemory:
    """A server has ``bandwidth`` bytes/s and holds ``capacity`` bytes, or no limit; an access pays
    ``latency`` ps.

    A memory is a subclass that says who shares a server (``SHARING``) and, if it is not latency +
    bytes / bandwidth, how an access is served.  Accesses in flight share a server equally
    (processor sharing).  Its fields are its keys in a configuration, with the units of their types
    (``Annotated[float, units.BANDWIDTH]``).
    """

    SHARING: ClassVar[Sharing] = Sharing.NPU
    GATHERS: ClassVar[bool] = False  # whether its switches gather loads and reduce stores
    BROADCASTS: ClassVar[bool] = False  # whether what several NPUs load alike is sent once
    HOLDS: ClassVar[bool] = True  # whether a plan may keep in it what an NPU has no room for
    EXPANDS: ClassVar[bool] = False  # whether it is a part of the memory that kernels work on

    bandwidth: float
    latency: int = 0
    capacity: float | None = None

    def __post_init__(self) -> None:
        for key in ("bandwidth", "capacity"):
            self._check_amount(key)
        if not 0 <= self.latency <= MAX_PICOSECONDS:
            raise DimsweepError(f"{self.latency} ps is no latency", where="latency")

    def _check_amount(self, key: str) -> None:
        value = getattr(self, key)
        if value is not None and not 0 < value < math.inf:
            raise DimsweepError(f"{value:g}; it must be more than zero", where=key)

    def moves(self, n_bytes: float) -> float:
        """Picoseconds in which a server moves ``n_bytes`` for an NPU that it serves alone."""
        return n_bytes / self.bandwidth * PICOSECONDS

    def service(self, request: Request) -> Service:
        """How the access of one of the NPUs that ask is served."""
        return Service(self.latency, **{_SERVER[self.SHARING]: self.moves(request.n_bytes)})

    def access(self, request: Request) -> int:
        """Picoseconds of an access of all NPUs that ask, at once."""
        in_node = request.npus / request.nodes
        return rounded(self.service(request).lasts(in_node, request.npus))

    def node(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """How many NPUs of each dimension make a node of a cluster of these ``sizes``."""
        return node_sizes(1, sizes)

    def held_for_each(self, npus: int) -> float | None:
        """Bytes that each of the ``npus`` NPUs of a server may keep there; None: any number."""
        return None if self.capacity is None else self.capacity / npus

    def blended(self, bandwidth: float, memory: float, footprint: float) -> float:
        """Bytes/s that kernels see of an NPU whose own memory has ``bandwidth`` and holds
        ``memory`` bytes of ``footprint``."""
        return bandwidth


# The part of a service that a server takes.
_SERVER = {Sharing.NPU: "own", Sharing.NODE: "node", Sharing.CLUSTER: "cluster"}


def rounded(picoseconds: float) -> int:
    """An access's time in whole picoseconds; raises :class:`DimsweepError` if that is too long."""
    if picoseconds > MAX_PICOSECONDS:
        raise DimsweepError(
            f"an access would take {picoseconds / PICOSECONDS:.3g} s", where="memory"
        )
    return int(picoseconds + 0.5)


@dataclass(frozen=True)
class MemoryOfNodes(RemoteMemory):
    """A memory that knows nodes of ``npus_per_node`` NPUs: those of the innermost dimension unless
    given."""

    npus_per_node: int | None = None

    def node(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """How many NPUs of each dimension make a node of a cluster of these ``sizes``."""
        return node_sizes(self.npus_per_node, sizes)


def node_sizes(npus_per_node: int | None, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """A node's size in each dimension: ``npus_per_node`` NPUs, innermost first, or all of the
    innermost dimension.

    Raises :class:`DimsweepError` for nodes that are none of the cluster's, and
    :class:`InfeasibleError` for those that do not tile it.
    """
    left = sizes[0] if npus_per_node is None else npus_per_node
    where, n = "memory.npus_per_node", math.prod(sizes)
    if not 1 <= left <= n:
        raise DimsweepError(
            f"{left} NPUs are to share a server, and the cluster has {n}",
            where=where,
            hint=f"1 to {n}",
        )
    node = []
    for size in sizes:
        node.append(math.gcd(left, size))
        left //= node[-1]
        if node[-1] < size:
            break
    if left > 1:
        raise InfeasibleError(
            f"nodes of {npus_per_node} NPUs do not tile dimensions of {list(sizes)} NPUs",
            where=where,
            hint=f"such as {math.prod(node)}, the product of the innermost dimensions",
        )
    return (*node, *[1] * (len(sizes) - len(node)))
