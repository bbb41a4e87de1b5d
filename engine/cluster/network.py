"""Links, switches and routes: what the kernels that know every rank know beyond the dimensions."""

import math
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

from dimsweep.engine.cluster.packets import PacketModel
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.extensions.wafer import Wafer
from dimsweep.engine.network.degrade import Change
from dimsweep.engine.network.fabric import Fabric
from dimsweep.engine.network.graph import Network, some
from dimsweep.engine.network.routing import Routing
from dimsweep.engine.settings import check_settings


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

    ``degrade`` is what became of it since it was bought: messages see what is left of links and
    devices (:func:`engine.network.degraded`), and all kernels how fast each NPU still computes.
    With a ``placement``, rank ``i`` runs on NPU ``placement[i]`` of the graph, and the NPUs that it
    does not name are idle.
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
    degrade: tuple[Change, ...] = ()
    placement: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_settings(self)
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
        if self.wafer is not None and self.lacks_links:
            raise DimsweepError(
                "how collectives run on a wafer of which a part is down is not known",
                where="degrade",
                hint="slower NPUs, such as {npu: 7, speed: 90 %}, or a network that is no wafer",
            )

        if self.placement:
            self._check_placement()

    def _check_placement(self) -> None:
        if self.graph is None:
            raise DimsweepError(
                "a network of the topology's dimensions has a rank on every NPU",
                where="placement",
                hint="a network of more NPUs: network.file, or network.levels with network.npus",
            )
        strange = sorted({*self.placement} - {*range(self.graph.n_npus)})
        if strange:
            raise DimsweepError(
                f"there is no NPU {some(strange)}: the network has {self.graph.n_npus}",
                where="placement",
                hint=f"NPUs are numbered from 0 to {self.graph.n_npus - 1}",
            )
        twice = [npu for npu, ranks in Counter(self.placement).items() if ranks > 1]
        if twice:
            raise DimsweepError(f"NPU {some(twice)} has several ranks", where="placement")

    def check_npus(self, n_npus: int) -> None:
        """Raise :class:`DimsweepError` if the graph, or what ranks have of it, has another number
        of NPUs than a topology of ``n_npus``."""
        if self.graph is None:
            return
        n_used = len(self.placement) or self.graph.n_npus
        if n_used != n_npus:
            what = "placement" if self.placement else "network"
            raise DimsweepError(
                f"the {what} has {n_used} NPUs, the topology {n_npus}",
                where="network.placement" if self.placement else "network",
                hint="topology.shape says who communicates with whom: as many NPUs as the graph, "
                "or as network.placement takes of it",
            )

    @property
    def lacks_links(self) -> bool:
        """Whether links or devices are slower or down."""
        return any(change.speed is None for change in self.degrade)

    def check_phases(self) -> None:
        """Raise :class:`DimsweepError` if phases, which know dimensions and no links, cannot be
        those of this network."""
        if self.placement:
            raise DimsweepError(
                "phases know no network of which ranks have a part",
                where="network.placement",
                hint="fidelity=message, flow or packet",
            )
        if self.lacks_links:
            raise DimsweepError(
                "phases know no links or switches that could be slower or down",
                where="network.degrade",
                hint="fidelity=message, flow or packet",
            )

    @property
    def packet_limit(self) -> float:
        """Bytes that a device waits for before it passes a message on."""
        return self.packet if self.switching is Switching.CUT_THROUGH else math.inf
