"""The memory that a workload finds: whether it fits, and how fast it is."""

import math
from dataclasses import replace

from engine.cluster.cluster import Cluster
from engine.cluster.memory import MEMORIES, RemoteMemory, Sharing
from engine.errors import InfeasibleError
from engine.units import format_bytes
from engine.workload.footprint import Footprint


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
