"""Memory behind the I/O controllers at a wafer's edge."""

from dataclasses import dataclass
from typing import ClassVar

from dimsweep.engine.cluster.memory.memory import RemoteMemory, Request, Service, Sharing


@dataclass(frozen=True)
class EdgeIo(RemoteMemory):
    """``bandwidth`` is what all I/O controllers send at once (or take), and all that NPUs load or
    store shares it; what the members of a group load alike is sent once, and what they store is
    summed up on its way.

    The message kernel sends it over the links of the wafer instead, controller by controller, where
    it meets collectives (:mod:`engine.kernels.reference.operators`).
    """

    SHARING: ClassVar[Sharing] = Sharing.CLUSTER
    BROADCASTS: ClassVar[bool] = True

    def service(self, request: Request) -> Service:
        """Each of the NPUs that load the same bytes counts as a part of one."""
        return Service(self.latency, cluster=self.moves(request.n_bytes) / request.copies)
