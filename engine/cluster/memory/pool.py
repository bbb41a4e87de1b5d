"""One remote memory for the whole cluster."""

from dataclasses import dataclass
from typing import ClassVar

from dimsweep.engine.cluster.memory.memory import RemoteMemory, Sharing


@dataclass(frozen=True)
class PooledMemory(RemoteMemory):
    """``bandwidth`` and ``capacity`` are the pool's; all NPUs share them."""

    SHARING: ClassVar[Sharing] = Sharing.CLUSTER
