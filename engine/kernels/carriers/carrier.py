"""Carriers: networks that take whole messages and report their arrivals.

A message starts now on a route and arrives at some time: this is the whole interface between the
kernels that run collectives and the flow and packet kernels.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import chain, cycle, islice
from typing import NamedTuple

import numpy as np

from dimsweep.engine.cluster.network_model import NetworkModel
from dimsweep.engine.cluster.packet_model import PacketModel
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kernels.core.tables import ragged_positions
from dimsweep.engine.kernels.flow import FlowNetwork
from dimsweep.engine.kernels.packet import (
    Completed,
    Fabric,
    Flow,
    History,
    Marking,
    PacketNetwork,
    PacketRun,
    Port,
    Settings,
    Stop,
)
from dimsweep.engine.kernels.packet.inputs import Way
from dimsweep.engine.kernels.packet.tcp import Tcp
from dimsweep.engine.lower.program import Floats, Longs
from dimsweep.engine.network.graph import Link, Network
from dimsweep.engine.network.routing import Router


class Ways(NamedTuple):
    """The alternative routes of a message, and the routes of its ACKs back, as link numbers."""

    out: tuple[tuple[int, ...], ...]
    back: tuple[tuple[int, ...], ...]


class Kind(NamedTuple):
    """A class of messages with equal properties other than size: routes and priority.

    Messages of a lower ``precedence`` go first where a carrier has priorities.
    """

    ways: Ways
    precedence: int = 0


def ways_between(router: Router, source: int, target: int, way: int) -> Ways:
    """Return the route between two NPUs and back, or all shortest routes if messages are sprayed.

    All routes back begin at one network card of the target.  ``way`` is that of
    :meth:`Router.route`.
    """
    if way < 0 or not router.sprays:
        return Ways((router.route(source, target, way),), (router.route(target, source, way),))
    out, ways_back = router.routes(source, target), router.routes(target, source)
    back = (links for links in ways_back if links[0] == ways_back[0][0])
    return Ways(out, tuple(islice(cycle(back), len(out))))


class Traffic(NamedTuple):
    """A record of the messages that a carrier moved: operator name, start and arrival (ps) of each.

    If packets carried them, ``packets`` has one flow per message and one port per link.
    """

    operators: tuple[str, ...]
    starts: Longs
    arrivals: Longs
    packets: PacketRun | None = None

    @property
    def completion_times(self) -> Longs:
        """Time from start to arrival of each message (ps)."""
        return self.arrivals - self.starts

    @property
    def histories(self) -> dict[int, History]:
        """Queue and traffic over time of the watched links, by link number; empty for flows."""
        if self.packets is None:
            return {}
        link = _links(self.packets)
        return {link[port]: history for port, history in self.packets.histories.items()}

    @property
    def roots(self) -> dict[int, Counter[int]]:
        """Number of pauses of each paused link, by the link whose queue first caused them."""
        found: dict[int, Counter[int]] = {}
        if self.packets is not None:
            link = _links(self.packets)
            for pausing in self.packets.pausings:
                found.setdefault(link[pausing.port], Counter())[link[pausing.root]] += 1
        return found


def _links(packets: PacketRun) -> dict[tuple[int, int], int]:
    return {(port.node, port.to): i for i, port in enumerate(packets.ports)}


class Carrier(ABC):
    """Base class: a running network in which ``kernel`` moves messages; times are ps.

    The rates and queues depend on all messages that start at an instant.  Messages of an instant
    are therefore collected, and added to the kernel together when time advances.
    """

    def __init__(self, kernel: FlowNetwork | PacketNetwork) -> None:
        self.kernel = kernel
        self._known: dict[Kind, int] = {}
        self._kinds: list[Kind] = []  # of messages that have not started yet,
        self._sizes: list[float] = []  # and their bytes
        self._now = self._n_sent = 0

    @abstractmethod
    def traffic(self, operators: Sequence[str]) -> Traffic:
        """Return start and arrival of all messages; ``operators`` names the operator of each."""

    @abstractmethod
    def start(self, kinds: Longs, n_bytes: Floats, now: int) -> None:
        """Start messages at ``now``: their kinds (see :meth:`number_kinds`) and sizes in bytes."""

    @abstractmethod
    def _learn(self, kinds: Sequence[Kind]) -> None:
        """Prepare new kinds of messages, which get the next consecutive numbers."""

    def number_kinds(self, kinds: Sequence[Kind]) -> list[int]:
        """Return the number of each kind of message; a new kind gets the next number."""
        new = list(dict.fromkeys(kind for kind in kinds if kind not in self._known))
        if new:
            self._learn(new)
            self._known |= {kind: len(self._known) + i for i, kind in enumerate(new)}
        return [self._known[kind] for kind in kinds]

    def send(self, kind: Kind, n_bytes: float, now: int) -> int:
        """Send a message at ``now``, which is not in the past; return its number (from 0)."""
        self._kinds.append(kind)
        self._sizes.append(n_bytes)
        self._now, self._n_sent = now, self._n_sent + 1
        return self._n_sent - 1

    def advance(self, until: int) -> Completed:
        """Advance until some messages arrive or are about to leave their sender, or to ``until``.

        Return the time and the messages; none if nothing happens by then.  Raises
        :class:`DimsweepError` if messages in flight can never arrive.
        """
        if self._sizes:
            kinds = np.array(self.number_kinds(self._kinds), np.int64)
            self.start(kinds, np.array(self._sizes), self._now)
            self._kinds, self._sizes = [], []
        return self.kernel.advance(until, Stop.DEPARTURE)


RESERVE = 4096  # bytes of each port that do not count, as ns-3's RDMA model has them
PARTS = 1000  # of a byte, in which flows have sizes: messages may have broken numbers of bytes


def plain_fabric(network: Network) -> Fabric:
    """Return the network as a fabric for flows: a port per link, sizes in PARTS of a byte.

    Links have no latency; :class:`FlowCarrier` adds it.
    """
    nodes = _number_nodes(network)
    return Fabric(
        [
            Port(nodes[link.source], nodes[link.target], round(8 * PARTS * link.bandwidth), 0)
            for link in network.links
        ],
        {},
    )


def fabric_of(network: Network, model: NetworkModel) -> Fabric:
    """Return the network as a fabric for packets: hosts (NPUs), and switches with buffers.

    Raises :class:`DimsweepError` for a link that leads one way only, for a switch whose headroom
    takes its whole buffer, and for buffer sizes that do not match the dimensions.
    """
    nodes, packets = _number_nodes(network), model.packets
    for link in network.links:
        if (link.target, link.source) not in network.number:
            raise DimsweepError(
                f"the link {link.source} -> {link.target} leads one way only",
                where="fidelity",
                code="unsupported",
                hint="ACKs must return: fidelity=message or flow, or a link in each direction",
            )
    ports = [_port(link, nodes, packets) for link in network.links]
    sizes = buffers_of(network, packets)
    buffers = {nodes[node]: sizes[node] for node in network.graph if isinstance(node, str)}
    fabric = Fabric(ports, buffers)
    for node, number in nodes.items():
        if number in buffers and packets.has_pauses:
            _check_buffer(str(node), number, fabric, packets.priorities)
    return fabric


def _number_nodes(network: Network) -> dict[int | str, int]:
    """Return a number for each node: an NPU's rank; switches are numbered after the NPUs."""
    switches = [node for node in network.graph if isinstance(node, str)]
    npus = {npu: npu for npu in range(network.n_npus)}
    return npus | {switch: network.n_npus + i for i, switch in enumerate(switches)}


def nodes_of(fabric: Fabric, ways: Ways) -> tuple[Way, ...]:
    """Return the nodes along each route, out and back; ``ways`` has the links."""
    return tuple(
        (_nodes(fabric, out), _nodes(fabric, back))
        for out, back in zip(ways.out, ways.back, strict=True)
    )


def _nodes(fabric: Fabric, way: Sequence[int]) -> tuple[int, ...]:
    ports = [fabric.ports[number] for number in way]
    return (ports[0].node, *(port.to for port in ports))


def _port(link: Link, nodes: dict[int | str, int], packets: PacketModel) -> Port:
    ends, rate = (nodes[link.source], nodes[link.target]), max(round(8 * link.bandwidth), 1)
    if isinstance(link.source, int):
        return Port(*ends, rate, link.latency)
    marking = Marking(*packets.thresholds(rate))
    return Port(*ends, rate, link.latency, marking, packets.port_headroom(rate, link.latency))


def _check_buffer(name: str, number: int, fabric: Fabric, n_priorities: int) -> None:
    own = [port for port in fabric.ports if port.node == number]
    headroom = n_priorities * sum(port.headroom for port in own)
    buffer = fabric.buffers[number]
    if headroom + n_priorities * RESERVE * len(own) >= buffer:
        each = f" in {n_priorities} priorities" if n_priorities > 1 else ""
        raise DimsweepError(
            f"{name} has {len(own)} ports with {headroom:,} bytes of headroom{each}, and its "
            f"buffer is {buffer:,} bytes",
            where="network.packets.buffer",
            code="out-of-range",
            hint="a larger buffer, shorter or slower links, fewer network.packets.priorities, or a "
            "smaller network.packets.headroom (below what a link holds while a pause travels, "
            "packets are dropped)",
        )


_KEY = "network.packets.buffer"


def buffers_of(network: Network, packets: PacketModel) -> dict[str, int]:
    """Return the buffer of each switch (bytes), by its name.

    A switch belongs to the dimension of its links (all links of a graph without dimensions count as
    one).  Its level in the dimension is the number of links from the nearest NPU: 1 for leaves, 2
    for spines.  Raises :class:`DimsweepError` unless ``packets.buffer`` has one entry for all
    switches or one per dimension, and each entry has one value for all levels or one per level.
    """
    buffer = packets.buffer
    if not isinstance(buffer, tuple):
        return dict.fromkeys(_switches(network.graph), int(buffer))
    levels = _levels(network)
    n_dims = len(network.sizes) or max(levels, default=0) + 1
    if len(buffer) != n_dims:
        raise DimsweepError(
            f"{len(buffer)} values for {n_dims} dimensions", where=_KEY, code="mismatch"
        )
    found: dict[str, int] = {}
    for dim, own in levels.items():
        of_levels, n = buffer[dim], max(own.values())
        if not isinstance(of_levels, tuple):
            of_levels = (of_levels,) * n
        if len(of_levels) != n:
            raise DimsweepError(
                f"{len(of_levels)} values for {n} levels of switches",
                where=f"{_KEY}[{dim}]",
                code="mismatch",
                hint="give one value for all levels, or one per level, from the NPUs up",
            )
        found |= {switch: int(of_levels[level - 1]) for switch, level in own.items()}
    return found


def _switches(nodes: Iterable[int | str]) -> list[str]:
    return [node for node in nodes if isinstance(node, str)]


def _levels(network: Network) -> dict[int, dict[str, int]]:
    """Return, by dimension and switch name, the switch's level: links from the nearest NPU."""
    import networkx as nx  # here: few runs ask

    ends: dict[int, list[tuple[int | str, int | str]]] = {}
    dim_of: dict[str, int] = {}
    for link in network.links:
        dim = max(link.dim, 0)
        ends.setdefault(dim, []).append((link.source, link.target))
        for switch in _switches((link.source, link.target)):
            if dim_of.setdefault(switch, dim) != dim:
                raise DimsweepError(
                    f"{switch} has links of dimensions {dim_of[switch]} and {dim}",
                    where=_KEY,
                    code="unsupported",
                    hint="give one value for all switches",
                )
    found: dict[int, dict[str, int]] = {dim: {} for dim in dim_of.values()}
    for dim, own in found.items():
        graph = network.graph.edge_subgraph(ends[dim])
        npus = [node for node in graph if isinstance(node, int)]
        for level, nodes in enumerate(nx.bfs_layers(graph, npus)):
            own |= dict.fromkeys(_switches(nodes), level)
    return found


class FlowCarrier(Carrier):
    """A carrier that moves each message as a flow at its max-min fair rate.

    A message arrives when its last byte is sent and then its latency, averaged over its routes, has
    passed.
    """

    kernel: FlowNetwork

    def __init__(
        self, network: Network, _: NetworkModel, __: Collection[int] = ()
    ) -> None:  # without buffers or queues there is nothing to set or to watch
        self._latency = [link.latency for link in network.links]
        self._fabric = plain_fabric(network)
        # The ways of each kind of message, and its latency.
        self._ways: list[tuple[tuple[Way, ...], int]] = []
        self._late: list[int] = []  # how long after each message is through it is there
        super().__init__(FlowNetwork(self._fabric))

    def start(self, kinds: Longs, n_bytes: Floats, now: int) -> None:
        """Start messages of numbered kinds as flows at ``now``."""
        ways, late = zip(*(self._ways[kind] for kind in kinds.tolist()), strict=True)
        sizes = (max(round(PARTS * size), 1) for size in n_bytes.tolist())
        flows = [
            Flow(size, way, back, sprayed=tuple(more))
            for size, ((way, back), *more) in zip(sizes, ways, strict=True)
        ]
        self.kernel.add(flows, now)
        self._late += late

    def traffic(self, operators: Sequence[str]) -> Traffic:
        """Return the start and arrival of each message."""
        run = self.kernel.account()
        return Traffic(tuple(operators), run.starts, run.ends + np.array(self._late, np.int64))

    def _learn(self, kinds: Sequence[Kind]) -> None:
        for kind in kinds:
            ways = kind.ways.out
            latency = sum(self._latency[link] for link in chain(*ways)) / len(ways)
            self._ways.append((nodes_of(self._fabric, kind.ways), round(latency)))


class PacketCarrier(Carrier):
    """A carrier that moves messages as packets; it records the links in ``watch`` over time.

    Packets experience the latency of each link.  A message that is spread over several network
    cards of its sender is one flow per card, with a share of the bytes in proportion to the number
    of routes that begin there.
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
        """Return start and arrival of all messages, and the results of the packet kernel."""
        run = self.kernel.account()
        starts, arrivals = self._parts.spans(run.starts, run.arrivals)
        return Traffic(tuple(operators), starts, arrivals, run)

    def start(self, kinds: Longs, n_bytes: Floats, now: int) -> None:
        """Start messages of numbered kinds as flows of packets at ``now``."""
        sizes = np.maximum(np.ceil(n_bytes), 1).astype(np.int64)
        own = kinds.tolist()
        n = np.array([len(self._upto[kind]) for kind in own], np.int64)
        row, place = ragged_positions(n)
        upto = np.concatenate([self._upto[kind] for kind in own])
        ends = np.rint(upto * sizes[row]).astype(np.int64)
        begins = np.where(place, np.roll(ends, 1), 0)
        self._parts.add(n)
        flows = np.array(self._first, np.int64)[kinds][row] + place
        self.kernel.repeat(flows, np.maximum(ends - begins, 1), now)

    def advance(self, until: int) -> Completed:
        """Advance until messages arrive or are about to leave their sender, or to ``until``."""
        while True:
            done = super().advance(until)
            whole = self._parts.merge_parts(done)
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
        """Return the packet flow of a message over the routes ``numbers``, all from one card.

        The window is the amount that the narrowest link carries while a full packet and its ACK
        travel, the ACK behind a full packet at each port; all routes are assumed to equal the
        first.
        """
        packets = self._packets
        ways = Ways(*(tuple(way[i] for i in numbers) for way in kind.ways))
        out, back = ([self._fabric.ports[i] for i in way[0]] for way in ways)
        round_trip = _traversal_time(out, packets.data_size)
        round_trip += _traversal_time(back, packets.data_size + packets.ack_size)
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
    """Maps flows to messages: a message arrives, or leaves, when all its flows have."""

    def __init__(self) -> None:
        self._message: list[int] = []  # of each flow
        self._first: list[int] = []  # flow of each message
        self._left: dict[int, list[int]] = {}  # of messages of several: to arrive, to leave, until

    def add(self, n_flows: Longs) -> None:
        """Add messages that consist of the given numbers of flows."""
        for n in n_flows.tolist():
            if n > 1:
                self._left[len(self._first)] = [n, n, 0]
            self._message += [len(self._first)] * n
            self._first.append(len(self._message) - n)

    def merge_parts(self, done: Completed) -> Completed:
        """Return the messages whose last flow has arrived, or whose last flow is about to leave."""
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
        """Return start and arrival of each message, found from its flows; -1: not arrived."""
        if len(self._first) == len(self._message):
            return starts, arrivals
        last = np.maximum.reduceat(arrivals, self._first)
        missing = np.minimum.reduceat(arrivals, self._first) < 0
        return starts[self._first], np.where(missing, -1, last)


def _traversal_time(ports: Sequence[Port], size: int) -> int:
    """Return the ps that ``size`` bytes take, store-and-forward, over all ``ports`` in turn."""
    return sum(8 * size * 10**12 // port.rate + port.delay for port in ports)


def _settings(packets: PacketModel) -> Settings:
    """Return the packet kernel's settings for a model's ``packets``, with times in picoseconds.

    TCP's clock granularity is at most its minimum time-out.
    """
    transport = packets.sender
    if isinstance(transport, Tcp):
        if transport.least_rto != type(transport).least_rto:
            raise DimsweepError(
                "a transport cannot set its own minimum time-out",
                where="network.packets.transport.least_rto",
                code="conflict",
                hint="set network.packets.rto_min, which holds for all of TCP",
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
