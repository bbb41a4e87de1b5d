"""Memories beyond the registers of an NPU, one file each."""

from dimsweep.engine.cluster.memory.edge_io import EdgeIo
from dimsweep.engine.cluster.memory.expansion import MemoryExpansion
from dimsweep.engine.cluster.memory.hierarchical import HierarchicalMemory
from dimsweep.engine.cluster.memory.local import LocalMemory
from dimsweep.engine.cluster.memory.memory import (
    RemoteMemory,
    Request,
    Service,
    Sharing,
    node_sizes,
    rounded,
)
from dimsweep.engine.cluster.memory.per_node import NodeMemory
from dimsweep.engine.cluster.memory.per_npu import NpuMemory
from dimsweep.engine.cluster.memory.pool import PooledMemory
from dimsweep.engine.cluster.memory.zero_infinity import ZeroInfinity
from dimsweep.engine.registry import Registry

# A new memory is one file with a subclass, and one line here: memory.kind -> its class.
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
