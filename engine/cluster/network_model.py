"""Settings of links, switches and routes, for all fidelities except the phase kernel."""

import math
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from dimsweep.engine.cluster.packet_model import PacketModel
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.network.degrade import Change
from dimsweep.engine.network.fabric import Fabric
from dimsweep.engine.network.graph import Network, abbreviate
from dimsweep.engine.network.interconnect import Interconnect
from dimsweep.engine.network.routing import Routing
from dimsweep.engine.settings import Bounds, Count, check_settings
from dimsweep.engine.units import BYTES


class Switching(StrEnum):
    """The moment at which a device forwards a message: after its first packet, or after all."""

    CUT_THROUGH = "cut_through"
    STORE_AND_FORWARD = "store_and_forward"


@dataclass(frozen=True)
class NetworkModel:
    """Links, switches and routes (not for the phase kernel).

    A ``graph`` or an ``interconnect`` replaces the fabrics of the dimensions; they then only say
    who communicates with whom.
    """

    #: Fabric of each of the topology's dimensions; empty: the links of their blocks.
    fabrics: tuple[Fabric, ...] = ()
    #: A network of any shape instead of the dimensions' own links.
    graph: Network | None = None
    #: A network that plans its own collectives, instead of the topology's dimensions. It also
    #: defines which messages are urgent: first messages of tensor-parallel groups, then messages
    #: between stages. It may have more NPUs than the topology.
    interconnect: Interconnect | None = None
    #: How messages are routed; null: by dimension, by the shortest path on a graph, or by the rule
    #: of the interconnect.
    routing: Routing | None = None
    #: Seed of the random choices of routing.
    seed: int = 0
    #: Whether a device forwards a message after its first packet (`cut_through`), or after all of
    #: it (`store_and_forward`).
    switching: Switching = Switching.CUT_THROUGH
    #: Bytes that a cut-through device receives before it forwards a message.
    packet: Annotated[float, BYTES, Bounds(at_least=0)] = 0.0
    #: Bytes of messages that may wait at the far end of a link. A link with a full buffer stops.
    #: null: no limit.
    buffer: Annotated[float, BYTES, Bounds(at_least=1)] | None = None
    #: Messages that an NPU may have in flight in a dimension; null: any number.
    window: Count | None = None
    #: Largest number of messages that a simulation may have.
    max_messages: Count = 10_000_000
    #: Packets, buffers and congestion control, for fidelity=packet.
    packets: PacketModel = field(default_factory=PacketModel)
    #: Largest number of packets that a simulation may have.
    max_packets: Count = 20_000_000
    #: Degradations of the network: slower or failed links and devices, and slower NPUs. All
    #: fidelities respect slower NPUs.
    degrade: tuple[Change, ...] = ()
    #: NPU of the graph that each rank runs on; all other NPUs are idle.
    placement: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_settings(self)
        own = self.interconnect
        if self.buffer is not None and own is not None and own.preempts:
            raise DimsweepError(
                "a suspended message would keep its buffer and delay more urgent messages",
                where="buffer",
                code="conflict",
                hint=f"leave buffer out, or set network.{own.noun}.preempts=false",
            )
        if self.graph is not None and self.fabrics:
            problem = "give the fabrics of the dimensions or a graph, not both"
            raise DimsweepError(problem, where="fabric", code="conflict")
        if own is not None and (self.fabrics or self.graph is not None):
            problem = f"a {own.noun} includes its network; it cannot have fabrics or a graph"
            raise DimsweepError(problem, where=own.noun, code="conflict")
        if own is not None and self.lacks_links:
            raise DimsweepError(
                f"collectives are not modelled on a {own.noun} with slower or broken links",
                where="degrade",
                hint="degrade NPUs only, such as {npu: 7, speed: 90 %}, or choose a network "
                f"without {own.noun}",
                code="unsupported",
            )

        if self.placement:
            self._check_placement()

    def _check_placement(self) -> None:
        if self.graph is None:
            raise DimsweepError(
                "a network of the topology's dimensions has a rank on every NPU",
                where="placement",
                hint="give a network with more NPUs: network.file, or network.levels with "
                "network.npus",
                code="conflict",
            )
        strange = sorted({*self.placement} - {*range(self.graph.n_npus)})
        if strange:
            raise DimsweepError(
                f"unknown NPU {abbreviate(strange)}; the network has {self.graph.n_npus}",
                where="placement",
                code="unknown-name",
                hint=f"NPUs are numbered from 0 to {self.graph.n_npus - 1}",
            )
        twice = [npu for npu, ranks in Counter(self.placement).items() if ranks > 1]
        if twice:
            problem = f"NPU {abbreviate(twice)} is given more than once"
            hint = "an NPU runs one rank"
            raise DimsweepError(problem, where="placement", hint=hint, code="duplicate")

    def check_npus(self, n_npus: int) -> None:
        """Raise :class:`DimsweepError` unless the graph, as placed, has ``n_npus`` NPUs."""
        if self.graph is None:
            return
        n_used = len(self.placement) or self.graph.n_npus
        if n_used != n_npus:
            what = "placement" if self.placement else "network"
            raise DimsweepError(
                f"the {what} has {n_used} NPUs, the topology {n_npus}",
                where="network.placement" if self.placement else "network",
                hint="topology.shape must have as many NPUs as the graph, or as network.placement",
                code="mismatch",
            )

    @property
    def lacks_links(self) -> bool:
        """True if the settings degrade the network: some links or devices are slower or down."""
        return any(change.speed is None for change in self.degrade)

    def check_phases(self) -> None:
        """Raise :class:`DimsweepError` if phases cannot represent this network."""
        if self.placement:
            raise DimsweepError(
                "fidelity=phase does not model a network with NPUs without ranks",
                where="network.placement",
                hint="use fidelity=message, flow or packet",
                code="unsupported",
            )
        if self.lacks_links:
            raise DimsweepError(
                "fidelity=phase does not model links or switches that are slower or down",
                where="network.degrade",
                hint="use fidelity=message, flow or packet",
                code="unsupported",
            )

    @property
    def packet_limit(self) -> float:
        """Bytes that a device receives before it forwards a message."""
        return self.packet if self.switching is Switching.CUT_THROUGH else math.inf
