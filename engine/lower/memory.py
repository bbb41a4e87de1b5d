"""The memory that a workload finds: whether it fits, and how fast it is."""

import math
from dataclasses import replace

import numpy as np

from dimsweep.engine.cluster.cluster import Cluster
from dimsweep.engine.cluster.memory import MEMORIES, RemoteMemory, Sharing
from dimsweep.engine.cluster.npu import Npu
from dimsweep.engine.errors import InfeasibleError
from dimsweep.engine.units import format_bytes
from dimsweep.engine.workload.coordinates import all_coordinates, place_in
from dimsweep.engine.workload.footprint import Footprint
from dimsweep.engine.workload.graph import Group


def check_memory(need: Footprint, cluster: Cluster, stages: Group | None = None) -> None:
    """Raise :class:`InfeasibleError`, saying what fills the memory and when, unless ``need`` fits
    the NPU's memory, what expands it, and its remote memory.

    Where NPUs of several kinds run the members of ``stages``, each stage must fit its own; without
    them every NPU must hold what the fullest does."""
    if cluster.memory is not None and need.remote:
        _check_remote(need, cluster.memory, cluster.topology.sizes)
    npus = cluster.npus
    if npus.of is None or stages is None or not need.stages:
        for npu in npus.kinds:
            _check_own(need, npu, cluster)
        return
    place = place_in(stages, all_coordinates(cluster.topology.sizes))
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
    """Bytes that an NPU's kernels can work on: its memory, and what expands it; None: any."""
    own = npu.room
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
    """Bytes that each NPU of a cluster of these ``sizes`` may keep in its remote memory; None: any
    number."""
    if memory is None or not memory.HOLDS:
        return 0.0
    if memory.SHARING is Sharing.NPU:
        return memory.held_for_each(1)
    node = sizes if memory.SHARING is Sharing.CLUSTER else memory.node(sizes)
    return memory.held_for_each(math.prod(node))


def kind_of(memory: RemoteMemory) -> str:
    """The name that a memory's kind has in :data:`MEMORIES`."""
    return next((kind for kind, cls in MEMORIES.items() if type(memory) is cls), "of your own")


def with_expansion(cluster: Cluster, need: Footprint | None) -> Cluster:
    """The cluster with NPUs whose memory is as fast as it is where ``need`` lies."""
    memory = cluster.memory
    if memory is None or not memory.EXPANDS or need is None:
        return cluster
    others = tuple(
        other._replace(npu=_expanded(other.npu, memory, need)) for other in cluster.other_npus
    )
    return replace(cluster, npu=_expanded(cluster.npu, memory, need), other_npus=others)


def _expanded(npu: Npu, memory: RemoteMemory, need: Footprint) -> Npu:
    if npu.room is None or npu.memory_bandwidth is None:
        return npu
    seen = memory.blended(npu.memory_bandwidth, npu.room, need.total)
    return replace(npu, memory_bandwidth=seen)
