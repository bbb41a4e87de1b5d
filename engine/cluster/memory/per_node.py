"""Remote memory of each node, shared by its NPUs."""

from dataclasses import dataclass
from typing import ClassVar

from dimsweep.engine.cluster.memory.memory import MemoryOfNodes, Sharing


@dataclass(frozen=True)
class NodeMemory(MemoryOfNodes):
    """``bandwidth`` and ``capacity`` are a node's; its NPUs share them."""

    SHARING: ClassVar[Sharing] = Sharing.NODE
