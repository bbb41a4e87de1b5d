"""An NVMe drive beside each NPU, which writes more slowly than it reads.

    dimsweep simulate plugins=examples/plugins/nvme.py memory=none memory.kind=nvme \\
        memory.bandwidth='7 GB/s' memory.write_bandwidth='4 GB/s' ...
"""

from dataclasses import dataclass
from typing import Annotated

from dimsweep.engine.cluster.remote_memory import MEMORIES, RemoteMemory, Request, Service
from dimsweep.engine.settings import Bounds
from dimsweep.engine.units import BANDWIDTH, PICOSECONDS


@dataclass(frozen=True)
class Nvme(RemoteMemory):
    """A drive that reads with ``bandwidth`` and writes more slowly."""

    #: Rate at which a drive writes.
    write_bandwidth: Annotated[float, BANDWIDTH, Bounds(above=0)] = 4e9

    def service(self, request: Request) -> Service:
        """At the rate of its direction."""
        rate = self.write_bandwidth if request.store else self.bandwidth
        return Service(self.latency, own=request.n_bytes / rate * PICOSECONDS)


MEMORIES["nvme"] = Nvme
