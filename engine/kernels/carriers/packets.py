"""The packet kernel as a carrier: a message is a flow of packets, through when all are there."""

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from dimsweep.engine.cluster.network import NetworkModel
from dimsweep.engine.cluster.packets import PacketModel
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kernels.carriers.carrier import Carrier, Kind, Traffic, Ways
from dimsweep.engine.kernels.carriers.fabric import RESERVE, fabric_of, nodes_of
from dimsweep.engine.kernels.core.rows import ragged
from dimsweep.engine.kernels.packet import Completed, Flow, PacketNetwork, Port, Settings
from dimsweep.engine.kernels.packet.tcp import Tcp
from dimsweep.engine.lower.program import Floats, Longs
from dimsweep.engine.network.graph import Network


class PacketCarrier(Carrier):
    """Messages in packets, for which latencies pass on their way; notes the links in ``watch``.

    A message that is spread over several cards of its sender's is a flow on each, of as many of its
    bytes as ways begin there.
    """

    kernel: PacketNetwork

    def __init__(self, network: Network, model: NetworkModel, watch: Collection[int] = ()) -> None:
        self._fabric, self._packets = fabric_of(network, model), model.packets
        ends = [(port.node, port.to) for port in self._fabric.ports]
        settings, watched = _settings(model.packets), [ends[link] for link in watch]
        self._first: list[int] = []  # the flow that was learnt of each kind's first card, and
        self._upto: list[Floats] = []  # what share of its bytes leaves by it or those before
        self._parts = _Parts()
        super().__init__(PacketNetwork(self._fabric, settings, watch=watched, seed=model.seed))

    def traffic(self, operators: Sequence[str]) -> Traffic:
        run = self.kernel.account()
        starts, arrivals = self._parts.spans(run.starts, run.arrivals)
        return Traffic(tuple(operators), starts, arrivals, run)

    def start(self, kinds: Longs, n_bytes: Floats, now: int) -> None:
        sizes = np.maximum(np.ceil(n_bytes), 1).astype(np.int64)
        own = kinds.tolist()
        n = np.array([len(self._upto[kind]) for kind in own], np.int64)
        row, place = ragged(n)
        upto = np.concatenate([self._upto[kind] for kind in own])
        ends = np.rint(upto * sizes[row]).astype(np.int64)
        begins = np.where(place, np.roll(ends, 1), 0)
        self._parts.add(n)
        flows = np.array(self._first, np.int64)[kinds][row] + place
        self.kernel.repeat(flows, np.maximum(ends - begins, 1), now)

    def advance(self, until: int) -> Completed:
        while True:
            done = super().advance(until)
            whole = self._parts.whole(done)
            idle = not len(done.arrived) and not len(done.departing)
            if idle or len(whole.arrived) or len(whole.departing) or done.time >= until:
                return whole

    def _learn(self, kinds: Sequence[Kind]) -> None:
        for kind in kinds:
            cards: dict[int, list[int]] = {}
            for i, links in enumerate(kind.ways.out):
                cards.setdefault(links[0], []).append(i)
            flows = [self._flow(kind, ways) for ways in cards.values()]
            self._first.append(self.kernel.learn(flows)[0])
            n_ways = np.cumsum([len(ways) for ways in cards.values()])
            self._upto.append(n_ways / len(kind.ways.out))

    def _flow(self, kind: Kind, numbers: Sequence[int]) -> Flow:
        """That of some of the ways, all from one card.  The window is what the narrowest link
        carries while a full packet and its ACK travel, the ACK behind a full packet at each port;
        all ways are taken to be like the first."""
        packets = self._packets
        ways = Ways(*(tuple(way[i] for i in numbers) for way in kind.ways))
        out, back = ([self._fabric.ports[i] for i in way[0]] for way in ways)
        round_trip = _crossing(out, packets.data_size)
        round_trip += _crossing(back, packets.data_size + packets.ack_size)
        narrowest = min(port.rate for port in out)
        window = max(round_trip * narrowest // (8 * 10**12), packets.data_size)
        first, *sprayed = nodes_of(self._fabric, ways)
        is_open = packets.sender.speaks_tcp or not packets.window
        return Flow(
            1,
            *first,
            window=None if is_open else window,
            round_trip=round_trip,
            sprayed=tuple(sprayed),
            priority=packets.priorities - 1 - min(kind.precedence, packets.priorities - 1),
        )


class _Parts:
    """The flows of messages: a message is through, or leaves, when all of its flows have."""

    def __init__(self) -> None:
        self._message: list[int] = []  # of each flow
        self._first: list[int] = []  # flow of each message
        self._left: dict[int, list[int]] = {}  # of messages of several: to arrive, to leave, until

    def add(self, n_flows: Longs) -> None:
        """Messages of so many flows each."""
        for n in n_flows.tolist():
            if n > 1:
                self._left[len(self._first)] = [n, n, 0]
            self._message += [len(self._first)] * n
            self._first.append(len(self._message) - n)

    def whole(self, done: Completed) -> Completed:
        """The messages that are through or leave now, in the place of flows."""
        if len(self._first) == len(self._message):
            return done
        arrived, departing = list[int](), dict[int, int]()
        for flow, at in zip(done.departing.tolist(), done.departures.tolist(), strict=True):
            message = self._message[flow]
            left = self._left.get(message, [1, 1, 0])
            left[1:] = left[1] - 1, max(left[2], at)
            if not left[1]:
                departing[message] = left[2]
        for flow in done.arrived.tolist():
            left = self._left.get(self._message[flow], [1, 1, 0])
            left[0] -= 1
            if not left[0]:
                arrived.append(self._message[flow])
                self._left.pop(self._message[flow], None)
        through = np.array(arrived, np.int64)
        leaving = (np.array([*each], np.int64) for each in (departing, departing.values()))
        return Completed(done.time, through, through, *leaving)

    def spans(self, starts: Longs, arrivals: Longs) -> tuple[Longs, Longs]:
        """When each message started and arrived, or -1 if it has not."""
        if len(self._first) == len(self._message):
            return starts, arrivals
        last = np.maximum.reduceat(arrivals, self._first)
        missing = np.minimum.reduceat(arrivals, self._first) < 0
        return starts[self._first], np.where(missing, -1, last)


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
    own = 1 if packets.trims else 0  # a priority for headers and ACKs, above all others
    return Settings(
        transport=transport,
        payload=int(packets.payload),
        data_header=packets.data_header,
        ack_size=packets.ack_size,
        pauses=packets.has_pauses,
        trims=packets.trims,
        priorities=packets.priorities + own,
        ack_priority=packets.priorities if own else -1,
        reserve=RESERVE,
    )
