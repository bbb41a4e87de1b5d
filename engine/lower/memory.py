"""Memory of a workload: whether it fits, its bandwidth, and its accesses to memory servers."""

import math
from dataclasses import replace
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np

from dimsweep.engine.cluster.cluster import Cluster
from dimsweep.engine.cluster.npu import Npu
from dimsweep.engine.cluster.remote_memory import (
    MEMORIES,
    RemoteMemory,
    Request,
    Sharing,
    round_picoseconds,
)
from dimsweep.engine.errors import DimsweepError, InfeasibleError
from dimsweep.engine.lower.fold import NODES, Folding
from dimsweep.engine.topology.coordinates import Group, all_coordinates, member_numbers
from dimsweep.engine.units import format_bytes
from dimsweep.engine.workload.graph import Access, Footprint, Graph, Workload, stamps_of


def check_memory(need: Footprint, cluster: Cluster, stages: Group | None = None) -> None:
    """Raise :class:`InfeasibleError` unless ``need`` fits the NPU's memory and remote memory.

    The error names the parts of the footprint and the time of its peak. If NPUs of several kinds
    run the ``stages``, each stage must fit its NPUs; otherwise every NPU must hold the fullest
    stage.
    """
    if cluster.memory is not None and need.remote:
        _check_remote(need, cluster.memory, cluster.topology.sizes)
    npus = cluster.npus
    if npus.of is None or stages is None or not need.stages:
        for npu in npus.kinds:
            _check_own(need, npu, cluster)
        return
    place = member_numbers(stages, all_coordinates(cluster.topology.sizes))
    for own in need.stages:
        for kind in np.unique(npus.of[place == own.stage]).tolist():
            _check_own(own, npus.kinds[kind], cluster)


def _check_own(need: Footprint, npu: Npu, cluster: Cluster) -> None:
    capacity = own_capacity(npu, cluster.memory)
    if capacity is None or need.total <= capacity:
        return
    parts = ", ".join(
        f"{name} {format_bytes(getattr(need, name))}"
        for name in ("weights", "gradients", "optimizer", "activations", "transient", "buffers")
        if name != "buffers" or need.buffers
    )
    free = f", and npu.headroom leaves {npu.headroom:.3g} of the memory free"
    raise InfeasibleError(
        f"an NPU of pipeline stage {need.stage} must hold {format_bytes(need.total)} of "
        f"{format_bytes(capacity)}: {parts}; the peak is in the {need.peak}"
        f"{free if npu.headroom else ''}",
        where="npu.memory" if npu.memory == cluster.npu.memory else "other_npus",
        hint="more tensor or pipeline parallelism, a higher ZeRO stage, recomputation, smaller "
        "micro-batches, remote memory (memory=host), or expanded memory (memory=cxl)",
    )


def own_capacity(npu: Npu, memory: RemoteMemory | None) -> float | None:
    """Return the bytes that an NPU's kernels can use: its memory and expansion; None: unlimited."""
    own = npu.usable_memory
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
    capacity = remote_capacity(memory, sizes)
    if capacity is not None and need.remote > capacity:
        raise InfeasibleError(
            f"{keeps} in remote memory, and has {format_bytes(capacity)} of it",
            where="memory.capacity",
        )


def remote_capacity(memory: RemoteMemory | None, sizes: tuple[int, ...]) -> float | None:
    """Return the bytes of remote memory for each NPU of a cluster of ``sizes``; None: unlimited."""
    if memory is None or not memory.HOLDS:
        return 0.0
    if memory.SHARING is Sharing.NPU:
        return memory.capacity_per_npu(1)
    node = sizes if memory.SHARING is Sharing.CLUSTER else memory.node_shape(sizes)
    return memory.capacity_per_npu(math.prod(node))


def kind_of(memory: RemoteMemory) -> str:
    """Return the name of a memory's kind in :data:`MEMORIES`."""
    return next((kind for kind, cls in MEMORIES.items() if type(memory) is cls), "of your own")


def apply_expansion(cluster: Cluster, need: Footprint | None) -> Cluster:
    """Return the cluster with the memory bandwidth that an NPU sees when it stores ``need``.

    Bytes beyond the NPU's memory are in its expansion, which is slower.
    """
    memory = cluster.memory
    if memory is None or not memory.EXPANDS or need is None:
        return cluster
    others = tuple(
        other._replace(npu=_expand_npu(other.npu, memory, need)) for other in cluster.other_npus
    )
    return replace(cluster, npu=_expand_npu(cluster.npu, memory, need), other_npus=others)


def _expand_npu(npu: Npu, memory: RemoteMemory, need: Footprint) -> Npu:
    if npu.usable_memory is None or npu.memory_bandwidth is None:
        return npu
    seen = memory.blended_bandwidth(npu.memory_bandwidth, npu.usable_memory, need.total)
    return replace(npu, memory_bandwidth=seen)


# --- servers --------------------------------------------------------------------------------------
# The servers of a memory: the users of each server, and the demand of an access.
#
# A server that several classes use serves all accesses in flight, each NPU at an equal
# share (see engine.kernels.core.accounts).  A server of one class always serves all its NPUs at
# once, because equivalent ranks keep in step: its times are known before anything runs.


class ServerUse(NamedTuple):
    """The demand of one access on a memory server that several classes of ranks share."""

    server: int
    npus: int  # of the class, that the server serves
    alone: float  # ps for one of them alone


class Served(NamedTuple):
    """An access whose time depends on the other users of its memory servers; times in ps."""

    latency: int
    own: float  # minimum time of its bytes, without other users
    uses: tuple[ServerUse, ...]
    most: float  # maximum time, if all users of the servers access them at once


def build_node_group(workload: Workload, cluster: Cluster) -> Group | None:
    """Return the group of ranks that share a node, if accesses of a node's NPUs affect each other.

    None for single-NPU nodes, and without accesses to remote memory.
    """
    if cluster.memory is None or not any(map(_has_accesses, workload.graphs)):
        return None
    node = cluster.memory.node_shape(cluster.topology.sizes)
    return Group(node, (1,) * len(node)) if math.prod(node) > 1 else None


class Servers:
    """The servers of a cluster's remote memory, and the time that accesses to them take."""

    def __init__(self, workload: Workload, cluster: Cluster, folding: Folding) -> None:
        self._workload, self._memory, self._folding = workload, cluster.memory, folding
        self._node = cluster.memory.node_shape(cluster.topology.sizes) if cluster.memory else ()
        self._numbers: dict[tuple[str, int], int] = {}  # of shared servers, by their first users
        self._on_node = cache(self._classes_on_node)

    def access(self, work: Access, cls: int) -> tuple[int, Served | None]:
        """Return the minimum ps of access ``work`` by class ``cls``, and its use of shared servers.

        The second value is None if no other class uses the servers. Raises :class:`DimsweepError`
        if the access would take too long, and for unsupported gathers and reductions.
        """
        assert self._memory is not None
        if work.group and (self._memory.BROADCASTS or not work.shared):
            self._check_equivalent(work, self._memory, cls)
        request = self._request(work)
        service, count = self._memory.service(request), self._folding.count
        on_node = [other for other in self._on_node(cls) if other in self._users]
        of_node = count[cls] / self._n_nodes(cls)
        all_of_node = sum(count[other] for other in on_node) / self._n_nodes(cls)
        most = round_picoseconds(service.duration(all_of_node, request.npus))
        own, uses = service.own, list[ServerUse]()
        if len(on_node) == 1:
            own = max(own, of_node * service.node)
        elif service.node:
            uses.append(ServerUse(self._number("node", on_node[0]), round(of_node), service.node))
        if len(self._users) == 1:
            own = max(own, count[cls] * service.cluster)
        elif service.cluster:
            uses.append(ServerUse(self._number("cluster", 0), count[cls], service.cluster))
        if not uses:
            return most, None
        latency = round_picoseconds(service.latency)
        alone = max(own, *(use.npus * use.alone for use in uses))
        return latency + round_picoseconds(alone), Served(latency, own, tuple(uses), float(most))

    def _number(self, kind: str, first: int) -> int:
        return self._numbers.setdefault((kind, first), len(self._numbers))

    @cached_property
    def _users(self) -> set[int]:
        """Classes of ranks that access the remote memory."""
        uses = [_has_accesses(graph) for graph in self._workload.graphs]
        return {cls for cls, graph in enumerate(self._folding.graph) if uses[graph]}

    def _classes_on_node(self, cls: int) -> tuple[int, ...]:
        return self._folding.members[cls].get(NODES, (cls,))

    def _n_nodes(self, cls: int) -> int:
        """Return the number of cluster nodes that are equivalent to the node of class ``cls``."""
        on_them = sum(self._folding.count[other] for other in self._on_node(cls))
        return on_them // math.prod(self._node)

    @cached_property
    def _total_users(self) -> tuple[int, int]:
        """Number of NPUs that access the remote memory, and number of nodes that contain them."""
        kinds = {self._on_node(cls): self._n_nodes(cls) for cls in self._users}
        return sum(self._folding.count[cls] for cls in self._users), sum(kinds.values())

    def _request(self, work: Access) -> Request:
        """Return the request to the memory when all NPUs that access it run ``work`` at once."""
        users = self._total_users
        if not work.group:
            return Request(work.n_bytes, *users, store=work.store)
        group = self._workload.groups[work.group]
        if work.shared:
            return Request(
                work.n_bytes, *self._total_users, copies=group.n_members, store=work.store
            )
        over = math.prod(map(_count_nodes, group.sizes, group.strides, self._node))
        return Request(work.n_bytes, *self._total_users, group.n_members, over, store=work.store)

    def _check_equivalent(self, work: Access, memory: RemoteMemory, cls: int) -> None:
        """Raise :class:`DimsweepError` unless the members of a joint access run in step.

        They must run the same graph on equally fast NPUs, and the memory must support the access.
        """
        if not (memory.BROADCASTS if work.shared else memory.GATHERS):
            raise DimsweepError(
                f"a memory of kind {kind_of(memory)!r} neither gathers the loads of a group "
                "nor reduces its stores",
                where="memory.kind",
                code="unsupported",
                hint="set memory=hierarchical, or workload.plan.memory_collectives: false",
            )
        members = self._folding.members[cls].get(work.group, (cls,))
        if len(set(map(self._folding.equivalence_key, members))) > 1:
            raise DimsweepError(
                f"the members of group {work.group!r} cannot load or store together: they run "
                "different graphs, or their NPUs differ in speed",
                where="workload",
                code="unsupported",
                hint="give all members the same graph, and NPUs of the same speed",
            )


def _count_nodes(p: int, stride: int, node: int) -> int:
    """Return the number of nodes that ``p`` members, ``stride`` apart, span in a dimension.

    A node has ``node`` NPUs in the dimension.
    """
    return p if stride >= node else math.ceil(p * stride / node)


def _has_accesses(graph: Graph) -> bool:
    return any(
        isinstance(operator.work, Access)
        for operators in {
            id(stamp.operators): stamp.operators for stamp in stamps_of(graph)
        }.values()
        for operator in operators
    )
