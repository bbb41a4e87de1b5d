"""Memories beyond the registers of an NPU."""

from dimsweep.engine.cluster.memory.memories import (
    EdgeIo,
    HierarchicalMemory,
    LocalMemory,
    MemoryExpansion,
    NodeMemory,
    NpuMemory,
    PooledMemory,
    ZeroInfinity,
)
from dimsweep.engine.cluster.memory.memory import (
    RemoteMemory,
    Request,
    Service,
    Sharing,
    node_sizes,
    rounded,
)
from dimsweep.engine.registry import Registry

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
