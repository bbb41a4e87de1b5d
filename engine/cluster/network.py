"""Links, switches and routes: what the kernels that know every rank know beyond the dimensions."""

import math
from dataclasses import dataclass, field
from enum import StrEnum

from engine.checked import convert
from engine.cluster.packets import PacketModel
from engine.errors import DimsweepError
from engine.network.fabric import Fabric
from engine.network.graph import Network
from engine.network.routing import Routing
from engine.network.wafer import Wafer


class Switching(StrEnum):
    """When a device passes a message on: once its first packet is there, or all of it."""

    CUT_THROUGH = "cut_through"
    STORE_AND_FORWARD = "store_and_forward"


@dataclass(frozen=True)
class NetworkModel:
    """Links, switches and routes (not for the phase kernel).

    ``fabrics`` realise the topology's dimensions, one each (none given: their own blocks);
    ``graph`` replaces them by a network of any shape, on which the dimensions only say who
    communicates with whom; so does a ``wafer``, which also says how collectives run on it, lets
    messages of tensor-parallel groups go before those between stages, and these before all others
    (suspending those under way if it ``preempts``) and may have more NPUs than the topology.
    ``routing`` None is by dimension, or the shortest path on a graph, or the wafer's own.
    ``packets`` is for the packet kernel, the rest of this for the message kernel only.  ``packet``
    is the bytes after which a cut-through device passes a message on.  ``buffer`` is
    the bytes of messages that may wait at the far end of a link (None: no limit); while it is
    full the link stands still.  ``window`` is how many messages an NPU may have on their way in
    a dimension.
    """

    fabrics: tuple[Fabric, ...] = ()
    graph: Network | None = None
    wafer: Wafer | None = None
    routing: Routing | None = None
    seed: int = 0
    switching: Switching = Switching.CUT_THROUGH
    packet: float = 0.0
    buffer: float | None = None
    window: int | None = None
    max_messages: int = 10_000_000
    packets: PacketModel = field(default_factory=PacketModel)
    max_packets: int = 20_000_000

    def __post_init__(self) -> None:
        convert(self)
        if not 0 <= self.packet < math.inf:
            raise DimsweepError(f"{self.packet:g} bytes is no packet", where="packet")
        if self.buffer is not None and not 1 <= self.buffer < math.inf:
            raise DimsweepError(f"a buffer of {self.buffer:g} bytes", where="buffer")
        if self.window is not None and self.window < 1:
            raise DimsweepError(f"a window of {self.window} messages", where="window")
        if self.buffer is not None and self.wafer is not None and self.wafer.preempts:
            raise DimsweepError(
                "a suspended message would keep its room, and hold up those that go first",
                where="buffer",
                hint="no buffer, or network.wafer.preempts=false",
            )
        if self.max_messages < 1:
            raise DimsweepError(f"at most {self.max_messages} messages", where="max_messages")
        if self.max_packets < 1:
            raise DimsweepError(f"at most {self.max_packets} packets", where="max_packets")
        if self.graph is not None and self.fabrics:
            raise DimsweepError(
                "give the fabrics of the dimensions or a graph, not both", where="fabric"
            )
        if self.wafer is not None and (self.fabrics or self.graph is not None):
            raise DimsweepError("a wafer has a network of its own", where="wafer")

    @property
    def packet_limit(self) -> float:
        """Bytes that a device waits for before it passes a message on."""
        return self.packet if self.switching is Switching.CUT_THROUGH else math.inf
