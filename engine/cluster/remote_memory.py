"""Remote memories: how long accesses take, which NPUs share a server, and how much fits.

Remote memory is memory beyond the NPU's own, such as host memory, drives or a pool.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar, NamedTuple

from dimsweep.engine.errors import DimsweepError, InfeasibleError
from dimsweep.engine.registry import Registry
from dimsweep.engine.settings import Bounds, Count, check_settings
from dimsweep.engine.units import BANDWIDTH, BYTES, MAX_PICOSECONDS, PICOSECONDS, TIME


class Sharing(StrEnum):
    """The NPUs that share one server of a memory: a single NPU, the NPUs of a node, or all."""

    NPU = "npu"
    NODE = "node"
    CLUSTER = "cluster"


class Request(NamedTuple):
    """A load or store of ``n_bytes`` by each of several NPUs at the same time.

    ``npus`` NPUs on ``nodes`` nodes take part.  In a gather or a reduction, groups of ``members``,
    on ``member_nodes`` nodes, also receive (or give) the bytes of the other members.  ``copies`` of
    the NPUs load the same bytes, or store bytes that can be summed.  ``store``: the NPUs store,
    else they load.
    """

    n_bytes: float
    npus: int = 1
    nodes: int = 1
    members: int = 1
    member_nodes: int = 1
    copies: int = 1
    store: bool = False


class Service(NamedTuple):
    """The times (ps) of one access in isolation: its ``latency``, and its transfer on each path.

    The slowest of three paths determines the transfer: the NPU's ``own`` path, the server of its
    ``node``, or the server of the ``cluster``.  A server that serves n NPUs at once takes n times
    as long.
    """

    latency: float
    own: float = 0.0
    node: float = 0.0
    cluster: float = 0.0

    def duration(self, in_node: float, in_cluster: float) -> float:
        """Return the ps of the access while servers serve the given numbers of NPUs at once.

        ``in_node`` and ``in_cluster`` count the NPUs at the node's and at the cluster's server,
        this one included.
        """
        return self.latency + max(self.own, in_node * self.node, in_cluster * self.cluster)


@dataclass(frozen=True)
class RemoteMemory:
    """Base class of memories beyond an NPU's own memory.

    A subclass states which NPUs share a server (``SHARING``) and, if an access does not take
    latency + bytes / bandwidth, overrides :meth:`service`.  Accesses in flight share a server
    equally (processor sharing).  The dataclass fields are the memory's keys in a configuration,
    with the units of their types (``Annotated[float, units.BANDWIDTH]``).
    """

    SHARING: ClassVar[Sharing] = Sharing.NPU
    GATHERS: ClassVar[bool] = False  # its switches gather loads and reduce stores
    BROADCASTS: ClassVar[bool] = False  # bytes that several NPUs load are sent once
    HOLDS: ClassVar[bool] = True  # plans may keep offloaded state in it
    EXPANDS: ClassVar[bool] = False  # kernels read and write it directly

    #: Bandwidth of a server of the memory: an NPU's own, a node's, or that of the pool, by kind; of
    #: one drive (zero_infinity) or of one group (hierarchical).
    bandwidth: Annotated[float, BANDWIDTH, Bounds(above=0)]
    #: Time of an access before its bytes move.
    latency: Annotated[int, TIME, Bounds(at_least=0, at_most=MAX_PICOSECONDS)] = 0
    #: Bytes that a server holds; null: no limit.
    capacity: Annotated[float, BYTES, Bounds(above=0)] | None = None

    def __post_init__(self) -> None:
        check_settings(self)

    def transfer_time(self, n_bytes: float) -> float:
        """Return the ps in which a server moves ``n_bytes`` for a single NPU."""
        return n_bytes / self.bandwidth * PICOSECONDS

    def service(self, request: Request) -> Service:
        """Return the times of the access of one NPU of ``request``."""
        return Service(self.latency, **{_SERVER[self.SHARING]: self.transfer_time(request.n_bytes)})

    def access_time(self, request: Request) -> int:
        """Return the ps until all NPUs of ``request``, which start at once, are served."""
        in_node = request.npus / request.nodes
        return round_picoseconds(self.service(request).duration(in_node, request.npus))

    def node_shape(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """Return the size of a node in each dimension of a cluster with dimensions ``sizes``."""
        return node_sizes(1, sizes)

    def capacity_per_npu(self, npus: int) -> float | None:
        """Return the bytes for each of ``npus`` NPUs of a server; None: no limit."""
        return None if self.capacity is None else self.capacity / npus

    def blended_bandwidth(self, bandwidth: float, memory: float, footprint: float) -> float:
        """Return the memory bandwidth (bytes/s) that kernels see.

        The NPU's own memory has ``bandwidth`` bytes/s and holds ``memory`` of the ``footprint``
        bytes that the workload uses.
        """
        return bandwidth


# The part of a service that a server takes.
_SERVER = {Sharing.NPU: "own", Sharing.NODE: "node", Sharing.CLUSTER: "cluster"}


def round_picoseconds(picoseconds: float) -> int:
    """Return a time in whole ps; raise :class:`DimsweepError` if it is too long."""
    if picoseconds > MAX_PICOSECONDS:
        problem = f"an access takes {picoseconds / PICOSECONDS:.3g} s; it must be 53 days or less"
        raise DimsweepError(problem, where="memory", code="out-of-range")
    return int(picoseconds + 0.5)


@dataclass(frozen=True)
class NodeAwareMemory(RemoteMemory):
    """Base class of memories whose service depends on the grouping of NPUs into nodes."""

    #: NPUs of a node; by default the NPUs of the innermost dimension.
    npus_per_node: int | None = None

    def node_shape(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        return node_sizes(self.npus_per_node, sizes)


def node_sizes(npus_per_node: int | None, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Return a node's size in each dimension.

    A node has ``npus_per_node`` NPUs, innermost first, or all of the innermost dimension.  Raises
    :class:`DimsweepError` for an impossible size, and :class:`InfeasibleError` for nodes that do
    not tile the cluster.
    """
    left = sizes[0] if npus_per_node is None else npus_per_node
    where, n = "memory.npus_per_node", math.prod(sizes)
    if not 1 <= left <= n:
        problem = f"{left} NPUs share a server; it must be 1 to {n}, the NPUs of the cluster"
        raise DimsweepError(problem, where=where, code="out-of-range")
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


# --- kinds of memory ------------------------------------------------------------------------------


@dataclass(frozen=True)
class LocalMemory(RemoteMemory):
    """The NPU's own memory used as remote memory: an access lasts latency + bytes / bandwidth.

    Its capacity is ``npu.memory``, so plans cannot keep offloaded state in it.
    """

    HOLDS: ClassVar[bool] = False


@dataclass(frozen=True)
class NpuMemory(RemoteMemory):
    """Remote memory of a single NPU: an access lasts latency + bytes / bandwidth."""


@dataclass(frozen=True)
class NodeMemory(NodeAwareMemory):
    """Remote memory that the NPUs of a node share, such as host memory."""

    SHARING: ClassVar[Sharing] = Sharing.NODE


@dataclass(frozen=True)
class PooledMemory(RemoteMemory):
    """Remote memory that all NPUs share."""

    SHARING: ClassVar[Sharing] = Sharing.CLUSTER


@dataclass(frozen=True)
class MemoryExpansion(RemoteMemory):
    """A memory of ``capacity`` and ``bandwidth`` that extends each NPU's own memory.

    COMET's hybrid memory (arXiv:2211.16648): traffic is divided like the footprint, so a share f of
    it in expanded memory makes the bandwidth 1 / ((1 - f) / own + f / expanded).
    """

    HOLDS: ClassVar[bool] = False  # kernels read and write it directly
    EXPANDS: ClassVar[bool] = True

    def blended_bandwidth(self, bandwidth: float, memory: float, footprint: float) -> float:
        away = max(0.0, footprint - memory) / footprint if footprint else 0.0
        return 1.0 / ((1.0 - away) / bandwidth + away / self.bandwidth)


@dataclass(frozen=True)
class ZeroInfinity(NodeAwareMemory):
    """The drives of a node, shared by its NPUs (Rajbhandari et al., "ZeRO-Infinity", SC 2021).

    State is divided among the node's ``drives``, each of ``bandwidth`` and ``capacity``, so all of
    them serve every access (bandwidth-centric partitioning, section 6.1).  An NPU gets at most
    ``link_bandwidth`` (of its PCIe), if given.
    """

    SHARING: ClassVar[Sharing] = Sharing.NODE

    #: Drives of a node.
    drives: Count = 1
    #: Bandwidth of an NPU's own link to the drives (PCIe); null: no limit.
    link_bandwidth: Annotated[float, BANDWIDTH, Bounds(above=0)] | None = None

    def transfer_time(self, n_bytes: float) -> float:
        return super().transfer_time(n_bytes / self.drives)

    def service(self, request: Request) -> Service:
        service = super().service(request)
        if self.link_bandwidth is None:
            return service
        return service._replace(own=request.n_bytes / self.link_bandwidth * PICOSECONDS)

    def capacity_per_npu(self, npus: int) -> float | None:
        return None if self.capacity is None else self.capacity * self.drives / npus


@dataclass(frozen=True)
class EdgeIo(RemoteMemory):
    """I/O controllers at the edge of a wafer, of ``bandwidth`` together in each direction.

    All loads and stores share it.  Bytes that all members of a group load are sent once, and their
    stores are summed on the way.  The message kernel sends the bytes over the links of the
    interconnect instead, controller by controller, where they compete with collectives
    (:mod:`engine.kernels.reference.operators`).
    """

    SHARING: ClassVar[Sharing] = Sharing.CLUSTER
    BROADCASTS: ClassVar[bool] = True

    def service(self, request: Request) -> Service:
        """Return the times of an access; NPUs that load the same bytes share one transfer."""
        return Service(self.latency, cluster=self.transfer_time(request.n_bytes) / request.copies)


# --- hierarchical ---------------------------------------------------------------------------------
# Hierarchical disaggregated memory: groups of it behind switches, in front of the nodes' fabrics.
#
# The remote memory of ASTRA-sim 2.0 (Won et al., ISPASS 2023): memory groups -> out-node switches
# -> in-node pooled fabric -> NPU.  What all NPUs load flows through these stages in chunks, so the
# slowest stage sets the rate and the others only fill the pipeline.


class Pipeline(NamedTuple):
    """A transfer in chunks through three stages: seconds of a chunk per stage, number of chunks."""

    group: float
    switch: float
    fabric: float
    chunks: int

    @property
    def seconds(self) -> float:
        """Time of all chunks: t1 + t2 + t3 + (N - 1) max(t1, t2, t3)."""
        return self.filling + self.chunks * max(self.group, self.switch, self.fabric)

    @property
    def filling(self) -> float:
        """Time in which the slowest stage has no chunk: t1 + t2 + t3 - max."""
        return math.fsum(sorted((self.group, self.switch, self.fabric))[:2])

    @property
    def bottleneck(self) -> str:
        """Name of the slowest stage."""
        return max(("group", "switch", "fabric"), key=lambda stage: float(getattr(self, stage)))


@dataclass(frozen=True)
class HierarchicalMemory(NodeAwareMemory):
    """``groups`` of remote memory, of ``bandwidth`` and ``capacity`` each, behind ``switches``.

    Each switch has a link of ``switch_bandwidth`` to every node, and an NPU a port of
    ``fabric_bandwidth`` into the fabric of its node.  A chunk is ``chunk`` bytes of each group.

    A chunk takes, for n NPUs of m nodes that load at once,

        t1 = chunk / bandwidth
        t2 = groups chunk / (switches m switch_bandwidth)
        t3 = groups chunk / (n fabric_bandwidth)

    In a gather each byte leaves its group once, the switches copy it to the nodes that want it, and
    the fabrics to their NPUs: t2 is as many times longer as the gathering group has nodes, and t3
    as it has members.  A store that reduces is the same the other way.
    """

    SHARING: ClassVar[Sharing] = Sharing.CLUSTER
    GATHERS: ClassVar[bool] = True

    #: Groups of remote memory.
    groups: Count = 0
    #: Switches between the groups and the nodes.
    switches: Count = 0
    #: Bandwidth of a switch's link to one node.
    switch_bandwidth: Annotated[float, BANDWIDTH, Bounds(above=0)] = 0.0
    #: Bandwidth of an NPU's port into the fabric of its node.
    fabric_bandwidth: Annotated[float, BANDWIDTH, Bounds(above=0)] = 0.0
    #: Bytes of each group in a chunk.
    chunk: Annotated[float, BYTES, Bounds(above=0)] = 2.0**20

    def __post_init__(self) -> None:
        for key, path in (
            ("switch_bandwidth", "from its switches to the nodes"),
            ("fabric_bandwidth", "from a node's fabric to its NPUs"),
        ):
            if not getattr(self, key):
                problem, hint = f"remote memory has no path {path}", "such as 256 GB/s"
                raise DimsweepError(problem, where=key, hint=hint, code="missing")
        super().__post_init__()
        if self.groups < self.switches:
            raise DimsweepError(
                f"{self.switches}; it must be 1 to {self.groups}, the number of memory groups",
                where="switches",
                hint="each switch needs a memory group",
                code="out-of-range",
            )

    def pipeline(self, request: Request) -> Pipeline:
        """Return the stage times of the equal chunks that a request is divided into."""
        total = request.n_bytes * request.npus
        chunks = max(1, math.ceil(total / (self.groups * self.chunk)))
        whole = total / chunks  # of all groups
        return Pipeline(
            group=whole / self.groups / self.bandwidth,
            switch=whole
            * request.member_nodes
            / (self.switches * request.nodes * self.switch_bandwidth),
            fabric=whole * request.members / (request.npus * self.fabric_bandwidth),
            chunks=chunks,
        )

    def service(self, request: Request) -> Service:
        """Return the times of an access: memory groups, links from switches to a node, NPU's port.

        The pipeline fills as if all NPUs that use the memory asked at once; filling it takes the
        time of one chunk.
        """
        pipeline = self.pipeline(request)
        whole = pipeline.chunks * PICOSECONDS
        return Service(
            self.latency + pipeline.filling * PICOSECONDS,
            own=pipeline.fabric * whole,
            node=pipeline.switch * whole * request.nodes / request.npus,
            cluster=pipeline.group * whole / request.npus,
        )

    def capacity_per_npu(self, npus: int) -> float | None:
        return None if self.capacity is None else self.capacity * self.groups / npus


# A new memory is a subclass, and one line here: memory.kind -> its class.
MEMORIES: Registry[type[RemoteMemory]] = Registry(
    "memory",
    {
        "local": LocalMemory,
        "npu": NpuMemory,
        "node": NodeMemory,
        "pool": PooledMemory,
        "zero_infinity": ZeroInfinity,
        "hierarchical": HierarchicalMemory,
        "expansion": MemoryExpansion,
        "edge_io": EdgeIo,
    },
)
