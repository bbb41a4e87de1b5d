"""Memories beyond the registers of an NPU, one file each."""

from engine.cluster.memory.edge_io import EdgeIo
from engine.cluster.memory.expansion import MemoryExpansion
from engine.cluster.memory.hierarchical import HierarchicalMemory
from engine.cluster.memory.local import LocalMemory
from engine.cluster.memory.memory import (
    RemoteMemory,
    Request,
    Service,
    Sharing,
    node_sizes,
    rounded,
)
from engine.cluster.memory.per_node import NodeMemory
from engine.cluster.memory.per_npu import NpuMemory
from engine.cluster.memory.pool import PooledMemory
from engine.cluster.memory.zero_infinity import ZeroInfinity

__all__ = [
    "MEMORIES",
    "EdgeIo",
    "HierarchicalMemory",
    "LocalMemory",
    "MemoryExpansion",
    "NodeMemory",
    "NpuMemory",
    "PooledMemory",
    "RemoteMemory",
    "Request",
    "Service",
    "Sharing",
    "ZeroInfinity",
    "node_sizes",
    "rounded",
]

# A new memory is one file with a subclass, and one line here: memory.kind -> its class.
MEMORIES: dict[str, type[RemoteMemory]] = {
    "local": LocalMemory,
    "npu": NpuMemory,
    "node": NodeMemory,
    "pool": PooledMemory,
    "zero_infinity": ZeroInfinity,
    "hierarchical": HierarchicalMemory,
    "expansion": MemoryExpansion,
    "edge_io": EdgeIo,
}
