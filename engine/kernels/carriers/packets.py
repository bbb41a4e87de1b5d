"""The packet kernel as a carrier: a message is a flow of packets, through when all are there."""

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from dimsweep.engine.cluster.network import NetworkModel
from dimsweep.engine.cluster.packets import PacketModel
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kernels.carriers.carrier import Carrier, Kind, Traffic
from dimsweep.engine.kernels.carriers.fabric import RESERVE, fabric_of, nodes_of
from dimsweep.engine.kernels.packet import Flow, PacketNetwork, Port, Settings
from dimsweep.engine.kernels.packet.tcp import Tcp
from dimsweep.engine.lower.program import Floats, Longs
from dimsweep.engine.network.graph import Network


class PacketCarrier(Carrier):
    """Messages in packets, for which latencies pass on their way; notes the links in ``watch``."""

    kernel: PacketNetwork

    def __init__(self, network: Network, model: NetworkModel, watch: Collection[int] = ()) -> None:
        self._fabric, self._packets = fabric_of(network, model), model.packets
        ends = [(port.node, port.to) for port in self._fabric.ports]
        settings, watched = _settings(model.packets), [ends[link] for link in watch]
        super().__init__(PacketNetwork(self._fabric, settings, watch=watched, seed=model.seed))

    def traffic(self, operators: Sequence[str]) -> Traffic:
        run = self.kernel.account()
        return Traffic(tuple(operators), run.starts, run.arrivals, run)

    def start(self, kinds: Longs, n_bytes: Floats, now: int) -> None:
        sizes = np.maximum(np.ceil(n_bytes), 1).astype(np.int64)
        self.kernel.repeat(kinds, sizes, now)

    def _learn(self, kinds: Sequence[Kind]) -> None:
        self.kernel.learn([self._flow(kind) for kind in kinds])

    def _flow(self, kind: Kind) -> Flow:
        """The window is what the narrowest link carries while a full packet and its ACK travel, the
        ACK behind a full packet at each port; all ways are taken to be like the first."""
        packets = self._packets
        out, back = ([self._fabric.ports[i] for i in way[0]] for way in kind.ways)
        round_trip = _crossing(out, packets.data_size)
        round_trip += _crossing(back, packets.data_size + packets.ack_size)
        narrowest = min(port.rate for port in out)
        window = max(round_trip * narrowest // (8 * 10**12), packets.data_size)
        first, *sprayed = nodes_of(self._fabric, kind.ways)
        is_open = packets.sender.speaks_tcp or not packets.window
        return Flow(
            1,
            *first,
            window=None if is_open else window,
            round_trip=round_trip,
            sprayed=tuple(sprayed),
            priority=packets.priorities - 1 - min(kind.precedence, packets.priorities - 1),
        )


def _crossing(ports: Sequence[Port], size: int) -> int:
    """Picoseconds that ``size`` bytes take over all ports, one after another."""
    return sum(8 * size * 10**12 // port.rate + port.delay for port in ports)


def _settings(packets: PacketModel) -> Settings:
    """The settings of the kernel, in picoseconds; TCP's clock is as fine as its least time-out."""
    transport = packets.sender
    if isinstance(transport, Tcp):
        if transport.least_rto != type(transport).least_rto:
            raise DimsweepError(
                "a least time-out of a transport's own",
                where="network.packets.transport.least_rto",
                hint="network.packets.rto_min, which says it for all of TCP",
            )
        granularity = min(transport.granularity, packets.rto_min)
        transport = replace(transport, least_rto=packets.rto_min, granularity=granularity)
    return Settings(
        transport=transport,
        payload=int(packets.payload),
        data_header=packets.data_header,
        ack_size=packets.ack_size,
        pauses=packets.has_pauses,
        priorities=packets.priorities,
        reserve=RESERVE,
    )
