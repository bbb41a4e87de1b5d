"""The memory that a workload finds: whether it fits, how fast it is, and who shares a server."""

import math
from dataclasses import replace
from functools import cached_property

import numpy as np

from engine.cluster.cluster import Cluster
from engine.cluster.memory import MEMORIES, RemoteMemory, Request, Sharing
from engine.errors import DimsweepError, InfeasibleError
from engine.lower.stages import Folding
from engine.units import format_bytes
from engine.workload.coordinates import Ranks, all_coordinates, graph_by_rank, ranks_at
from engine.workload.footprint import Footprint
from engine.workload.graph import Access, Graph, Group, Workload, stamps_of


def check_memory(need: Footprint, cluster: Cluster) -> None:
    """Raise :class:`InfeasibleError`, saying what fills the memory and when, unless ``need`` fits
    the NPU's memory, what expands it, and its remote memory."""
    if cluster.memory is not None and need.remote:
        _check_remote(need, cluster.memory, cluster.topology.sizes)
    capacity = own_capacity(cluster)
    if capacity is None or need.total <= capacity:
        return
    parts = ", ".join(
        f"{name} {format_bytes(getattr(need, name))}"
        for name in ("weights", "gradients", "optimizer", "activations", "transient")
    )
    raise InfeasibleError(
        f"an NPU of pipeline stage {need.stage} must hold {format_bytes(need.total)} of "
        f"{format_bytes(capacity)}: {parts}; the peak is in the {need.peak}",
        where="npu.memory",
        hint="more tensor or pipeline parallelism, a higher ZeRO stage, recomputation, smaller "
        "micro-batches, remote memory (memory=host), or expanded memory (memory=cxl)",
    )


def own_capacity(cluster: Cluster) -> float | None:
    """Bytes that an NPU's kernels can work on: its memory, and what expands it; None: any."""
    own, memory = cluster.npu.memory, cluster.memory
    if own is None or memory is None or not memory.EXPANDS:
        return own
    return None if memory.capacity is None else own + memory.capacity


def _check_remote(need: Footprint, memory: RemoteMemory, sizes: tuple[int, ...]) -> None:
    keeps = f"an NPU of pipeline stage {need.stage} keeps {format_bytes(need.remote)}"
    if not memory.HOLDS:
        raise InfeasibleError(
            f"{keeps} in remote memory, and a memory of kind {kind_of(memory)!r} holds none of it",
            where="memory.kind",
            hint="workload.plan.offload: [], or memory=host, which holds what an NPU cannot",
        )
    sharers = {
        Sharing.NPU: 1,
        Sharing.NODE: math.prod(memory.node(sizes)),
        Sharing.CLUSTER: math.prod(sizes),
    }
    capacity = memory.held_for_each(sharers[memory.SHARING])
    if capacity is not None and need.remote > capacity:
        raise InfeasibleError(
            f"{keeps} in remote memory, and has {format_bytes(capacity)} of it",
            where="memory.capacity",
        )


def kind_of(memory: RemoteMemory) -> str:
    """Its name in :data:`MEMORIES`."""
    return next((kind for kind, cls in MEMORIES.items() if type(memory) is cls), "of your own")


def with_expansion(cluster: Cluster, need: Footprint | None) -> Cluster:
    """The cluster with NPUs whose memory is as fast as it is where ``need`` lies."""
    memory, npu = cluster.memory, cluster.npu
    if memory is None or not memory.EXPANDS or need is None:
        return cluster
    if npu.memory is None or npu.memory_bandwidth is None:
        return cluster
    seen = memory.blended(npu.memory_bandwidth, npu.memory, need.total)
    return replace(cluster, npu=replace(npu, memory_bandwidth=seen))


class Servers:
    """Who asks a server at once.

    NPUs that share a server share it fairly: each has an equal part of what the NPUs that use the
    memory at all leave it, so that no NPU's share depends on the order of events.
    """

    def __init__(self, workload: Workload, cluster: Cluster) -> None:
        self._workload, self._sizes = workload, cluster.topology.sizes
        self._memory = cluster.memory
        self._node = cluster.memory.node(self._sizes) if cluster.memory else (1,) * len(self._sizes)
        self._uses = [_accesses(graph) for graph in workload.graphs] if cluster.memory else []

    @property
    def unequal(self) -> Group | None:
        """The nodes, where NPUs of one node may differ in whether they use the memory: then it
        matters who shares a node."""
        if self._memory is None or self._memory.SHARING is not Sharing.NODE or all(self._uses):
            return None
        return Group(self._node, (1,) * len(self._sizes)) if any(self._uses) else None

    def request(self, work: Access, first: int) -> Request:
        """What a server is asked for when the class that starts with ``first`` runs ``work``."""
        if self._memory is None or self._memory.SHARING is Sharing.NPU:
            return Request(work.n_bytes)
        npus, nodes = self._users
        if self._memory.SHARING is Sharing.NODE:
            here = int(self._users_of_node[self._node_of[first]]) if self.unequal else 0
            return Request(work.n_bytes, here or math.prod(self._node))
        if not work.group:
            return Request(work.n_bytes, npus, nodes)
        group = self._workload.groups[work.group]
        over = math.prod(map(_spanned, group.sizes, group.strides, self._node))
        return Request(work.n_bytes, npus, nodes, group.n_members, over)

    @cached_property
    def _node_of(self) -> Ranks:
        """The node of each rank, shape (N,)."""
        places = all_coordinates(self._sizes) // np.asarray(self._node)
        return ranks_at(places, [n // m for n, m in zip(self._sizes, self._node, strict=True)])

    @cached_property
    def _users_of_node(self) -> Ranks:
        uses = np.array(self._uses)[graph_by_rank(self._workload, self._sizes)]
        return np.bincount(self._node_of, uses).astype(np.int64)

    @cached_property
    def _users(self) -> tuple[int, int]:
        """NPUs that use the memory, and the nodes that they are on."""
        n = math.prod(self._sizes)
        if all(self._uses):
            return n, n // math.prod(self._node)
        return int(self._users_of_node.sum()), int((self._users_of_node > 0).sum())

    def check_alike(self, work: Access, folding: Folding, cls: int) -> None:
        """Raise :class:`DimsweepError` unless the members of a gather or reduction are in step, as
        ranks are that run the same graph, and the memory can do it."""
        if self._memory is not None and not self._memory.GATHERS:
            raise DimsweepError(
                f"a memory of kind {kind_of(self._memory)!r} neither gathers what a group loads "
                "nor reduces what it stores",
                where="memory.kind",
                hint="memory=hierarchical, or workload.plan.memory_collectives: false",
            )
        members = folding.members[cls].get(work.group, (cls,))
        if len({folding.graph[member] for member in members}) > 1:
            raise DimsweepError(
                f"members of group {work.group!r} run different graphs, so they do not load or "
                "store together",
                where="workload",
            )


def _spanned(p: int, stride: int, node: int) -> int:
    """Over how many nodes p members of a group lie in a dimension where a node has ``node``."""
    return p if stride >= node else math.ceil(p * stride / node)


def _accesses(graph: Graph) -> bool:
    return any(
        isinstance(operator.work, Access)
        for operators in {id(s.operators): s.operators for s in stamps_of(graph)}.values()
        for operator in operators
    )
