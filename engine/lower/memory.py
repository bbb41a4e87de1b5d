"""Whether a workload fits the memory of an NPU."""

from engine.cluster.cluster import Cluster
from engine.errors import InfeasibleError
from engine.units import format_bytes
from engine.workload.footprint import Footprint


def check_memory(need: Footprint, cluster: Cluster) -> None:
    """Raise :class:`InfeasibleError`, saying what fills the memory and when, unless ``need`` fits
    the NPU's memory and its remote memory."""
    _check_remote(need, cluster)
    capacity = cluster.npu.memory
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
        "micro-batches, or remote memory (memory=host)",
    )


def _check_remote(need: Footprint, cluster: Cluster) -> None:
    capacity = cluster.memory and cluster.memory.capacity
    if capacity and need.remote > capacity:
        raise InfeasibleError(
            f"an NPU of pipeline stage {need.stage} keeps {format_bytes(need.remote)} in remote "
            f"memory, and has {format_bytes(capacity)} of it",
            where="memory.capacity",
        )
