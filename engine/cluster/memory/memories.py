"""The kinds of memory: an NPU's own, remote ones by sharing, and hierarchies of them."""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from dimsweep.engine.cluster.memory.memory import (
    MemoryOfNodes,
    RemoteMemory,
    Request,
    Service,
    Sharing,
)
from dimsweep.engine.errors import DimsweepError, check_least
from dimsweep.engine.units import PICOSECONDS


@dataclass(frozen=True)
class LocalMemory(RemoteMemory):
    """An access lasts latency + bytes / bandwidth.  How much it holds is ``npu.memory``, so no plan
    can keep in it what an NPU has no room for."""

    HOLDS: ClassVar[bool] = False


@dataclass(frozen=True)
class NpuMemory(RemoteMemory):
    """Nobody shares it: an access lasts latency + bytes / bandwidth."""


@dataclass(frozen=True)
class NodeMemory(MemoryOfNodes):
    """``bandwidth`` and ``capacity`` are a node's; its NPUs share them."""

    SHARING: ClassVar[Sharing] = Sharing.NODE


@dataclass(frozen=True)
class PooledMemory(RemoteMemory):
    """``bandwidth`` and ``capacity`` are the pool's; all NPUs share them."""

    SHARING: ClassVar[Sharing] = Sharing.CLUSTER


@dataclass(frozen=True)
class MemoryExpansion(RemoteMemory):
    """``capacity`` and ``bandwidth`` of each NPU, beside its own memory.

    COMET's hybrid memory (arXiv:2211.16648): traffic is divided as the footprint is, so a share f
    of it in expanded memory makes the bandwidth 1 / ((1 - f) / own + f / expanded).
    """

    HOLDS: ClassVar[bool] = False  # kernels work on what it holds where it lies
    EXPANDS: ClassVar[bool] = True

    def blended(self, bandwidth: float, memory: float, footprint: float) -> float:
        """Bytes/s of an NPU whose own memory has ``bandwidth`` and holds ``memory`` bytes of
        ``footprint``."""
        away = max(0.0, footprint - memory) / footprint if footprint else 0.0
        return 1.0 / ((1.0 - away) / bandwidth + away / self.bandwidth)


@dataclass(frozen=True)
class ZeroInfinity(MemoryOfNodes):
    """Rajbhandari et al., "ZeRO-Infinity" (SC 2021): what a node's NPUs keep away is divided among
    its ``drives``, each of ``bandwidth`` and ``capacity``, so that all of them serve every access
    (its bandwidth-centric partitioning, section 6.1); an NPU gets no more than ``link_bandwidth``
    (of its PCIe), if that is given."""

    SHARING: ClassVar[Sharing] = Sharing.NODE

    drives: int = 1
    link_bandwidth: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, 1, "drives")
        self._check_amount("link_bandwidth")

    def moves(self, n_bytes: float) -> float:
        """Picoseconds in which the drives move ``n_bytes``."""
        return super().moves(n_bytes / self.drives)

    def service(self, request: Request) -> Service:
        """By the drives, and by the NPU's own link."""
        service = super().service(request)
        if self.link_bandwidth is None:
            return service
        return service._replace(own=request.n_bytes / self.link_bandwidth * PICOSECONDS)

    def held_for_each(self, npus: int) -> float | None:
        """Bytes that each NPU of a node may keep on its drives."""
        return None if self.capacity is None else self.capacity * self.drives / npus


@dataclass(frozen=True)
class EdgeIo(RemoteMemory):
    """``bandwidth`` is what all I/O controllers send at once (or take), and all that NPUs load or
    store shares it; what the members of a group load alike is sent once, and what they store is
    summed up on its way.

    The message kernel sends it over the links of the wafer instead, controller by controller, where
    it meets collectives (:mod:`engine.kernels.reference.operators`).
    """

    SHARING: ClassVar[Sharing] = Sharing.CLUSTER
    BROADCASTS: ClassVar[bool] = True

    def service(self, request: Request) -> Service:
        """Each of the NPUs that load the same bytes counts as a part of one."""
        return Service(self.latency, cluster=self.moves(request.n_bytes) / request.copies)


# --- hierarchical ---------------------------------------------------------------------------------
# Hierarchical disaggregated memory: groups of it behind switches, in front of the nodes' fabrics.
#
# The remote memory of ASTRA-sim 2.0 (Won et al., ISPASS 2023): memory groups -> out-node switches
# -> in-node pooled fabric -> NPU.  What all NPUs load flows through these stages in chunks, so the
# slowest stage sets the rate and the others only fill the pipeline.


class Pipeline(NamedTuple):
    """The seconds that a chunk takes in each stage, and how many chunks there are."""

    group: float
    switch: float
    fabric: float
    chunks: int

    @property
    def seconds(self) -> float:
        """t1 + t2 + t3 + (N - 1) max(t1, t2, t3)."""
        return self.filling + self.chunks * max(self.group, self.switch, self.fabric)

    @property
    def filling(self) -> float:
        """Until the slowest stage has its first chunk, and after its last: t1 + t2 + t3 - max."""
        return math.fsum(sorted((self.group, self.switch, self.fabric))[:2])

    @property
    def bottleneck(self) -> str:
        """The slowest stage."""
        return max(("group", "switch", "fabric"), key=lambda stage: float(getattr(self, stage)))


@dataclass(frozen=True)
class HierarchicalMemory(MemoryOfNodes):
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

    groups: int = 0
    switches: int = 0
    switch_bandwidth: float = 0.0
    fabric_bandwidth: float = 0.0
    chunk: float = 2.0**20

    def __post_init__(self) -> None:
        super().__post_init__()
        for key, path in (
            ("switch_bandwidth", "from its switches to the nodes"),
            ("fabric_bandwidth", "from a node's fabric to its NPUs"),
        ):
            if not getattr(self, key):
                raise DimsweepError(
                    f"remote memory has no path {path}", where=key, hint="such as 256 GB/s"
                )
            self._check_amount(key)
        self._check_amount("chunk")
        check_least(self, 1, "groups", "switches")
        if self.groups < self.switches:
            raise DimsweepError(
                f"{self.switches} switches for {self.groups} memory groups: some have no memory",
                where="switches",
                hint=f"1 to {self.groups}",
            )

    def pipeline(self, request: Request) -> Pipeline:
        """How the bytes of all NPUs that ask come through the stages, in equal chunks."""
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
        """By the groups, the links from the switches to a node, and the NPU's port.

        The pipeline fills as if all NPUs that use the memory asked at once; it is a chunk's time.
        """
        pipeline = self.pipeline(request)
        whole = pipeline.chunks * PICOSECONDS
        return Service(
            self.latency + pipeline.filling * PICOSECONDS,
            own=pipeline.fabric * whole,
            node=pipeline.switch * whole * request.nodes / request.npus,
            cluster=pipeline.group * whole / request.npus,
        )

    def held_for_each(self, npus: int) -> float | None:
        """Bytes that each of ``npus`` NPUs may keep in the groups."""
        return None if self.capacity is None else self.capacity * self.groups / npus
