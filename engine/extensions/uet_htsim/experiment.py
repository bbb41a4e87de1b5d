"""Fat trees of two or three levels, wired and numbered as in htsim, and flows over them."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kernels.packet import (
    Fabric,
    Flow,
    Marking,
    PacketRun,
    Port,
    Settings,
    simulate_packets,
)
from dimsweep.engine.kernels.packet.rud import Balance
from dimsweep.engine.kernels.packet.transports import Nscc, Rccc, Rud


class Cable(NamedTuple):
    """One direction of a link, from its sending end; ``slow`` if the link has failed there."""

    node: int
    to: int
    is_host: bool
    slow: bool


@dataclass(frozen=True)
class Tree:
    """A fat tree of two or three levels of switches, with some failed links.

    With 2 ``levels`` each link of a leaf leads to a separate spine.  With 3, a pod has ``up``
    leaves and as many upper switches, and the j-th of each pod leads to cores j, j + up, and so on.
    Nodes are numbered as hosts, leaves, spines or upper switches, and cores.  The first ``failed``
    links from cores down to upper switches run at a part of their rate.
    """

    hosts: int
    per_leaf: int  # hosts below a leaf
    up: int  # links up of a leaf
    levels: int = 3
    failed: int = 0

    @classmethod
    def build(cls, hosts: int, failed: int = 0) -> "Tree":
        """Return a three-level tree for k^3 / 4 ``hosts``, with switches of k ports.

        Raises :class:`DimsweepError` for other numbers of hosts.
        """
        k = round((4 * hosts) ** (1 / 3))
        if k % 2 or k**3 != 4 * hosts or not hosts:
            raise DimsweepError(
                f"{hosts} hosts do not form a fat tree",
                hint="choose k^3 / 4 hosts for an even k",
                code="out-of-range",
            )
        return cls(hosts, k // 2, k // 2, failed=failed)

    @property
    def diameter(self) -> int:
        """Number of links on the longest shortest route between hosts."""
        return 2 * self.levels

    @property
    def oversubscription(self) -> float:
        """Bandwidth of a leaf's hosts over the bandwidth of its links upwards."""
        return self.per_leaf / self.up

    @property
    def switches(self) -> range:
        """Numbers of all switches."""
        cores = self.up**2 if self.levels == 3 else 0
        return range(self.hosts, self._upper + self._n_upper + cores)

    @cached_property
    def _upper(self) -> int:
        return self.hosts + self.hosts // self.per_leaf

    @property
    def _n_upper(self) -> int:
        return self.hosts // self.per_leaf if self.levels == 3 else self.up

    def _leaf(self, host: int) -> int:
        return self.hosts + host // self.per_leaf

    def cables(self) -> Iterator[Cable]:
        """Yield both directions of every link."""
        for host in range(self.hosts):
            yield Cable(host, self._leaf(host), True, False)
            yield Cable(self._leaf(host), host, False, False)
        for leaf in range(self._upper - self.hosts):
            for j in range(self.up):
                upper = self._upper + (leaf // self.up * self.up if self.levels == 3 else 0) + j
                yield Cable(self.hosts + leaf, upper, False, False)
                yield Cable(upper, self.hosts + leaf, False, False)
        for i in range(self._n_upper if self.levels == 3 else 0):
            for j in range(self.up):
                upper, core = self._upper + i, self._core(i % self.up, j)
                yield Cable(upper, core, False, False)
                yield Cable(core, upper, False, i * self.up + j < self.failed)

    def _core(self, place: int, j: int) -> int:
        return self._upper + self._n_upper + j * self.up + place

    def ways(self, source: int, target: int) -> tuple[tuple[int, ...], ...]:
        """Return all shortest routes between two hosts, each as its nodes."""
        one, other = self._leaf(source), self._leaf(target)
        if one == other:
            return ((source, one, target),)
        if self.levels == 2:
            uppers = range(self._upper, self._upper + self.up)
            return tuple((source, one, upper, other, target) for upper in uppers)
        pod, far = (
            self._upper + host // (self.per_leaf * self.up) * self.up for host in (source, target)
        )
        if pod == far:
            return tuple((source, one, pod + j, other, target) for j in range(self.up))
        return tuple(
            (source, one, pod + i, self._core(i, j), far + i, other, target)
            for i in range(self.up)
            for j in range(self.up)
        )


_US = 10**6  # ticks: ps
_RATE, _DELAY = 100 * 10**9, _US  # bits a second; ticks of each link
_MTU, _HEADER, _ACK = 4150, 64, 64  # bytes
_LOW, _HIGH = (
    0.2,
    0.8,
)  # of the bandwidth-delay product: thresholds of the first mark, and of marking everything
_FAILED = 0.25  # share of its rate, room and marks that a failed link keeps
_WINDOW = 1.5  # bandwidth-delay products, initial and maximum; of the credit, too
_LEAST_SHARE = 0.9  # a receiver's credits, of its share of an oversubscribed network
_LEAST_RTO, _RTO_QUEUES = 15 * _US, 6  # the time-out: this, and full queues


class Options(NamedTuple):
    """Settings of an experiment that differ from uet-htsim's defaults.

    Sizes are packets; ``ack_every`` is bytes.
    """

    balance: Balance = Balance.MIXED
    entropies: int = 64
    queue: int | None = None  # of each port; else a bandwidth-delay product
    window: int | None = None  # at first
    ack_every: int = 16384
    credits: bool = False  # receivers give credits (RCCC) instead of NSCC


@dataclass(frozen=True)
class Experiment:
    """Flows over a fat tree, simulated with uet-htsim's settings."""

    tree: Tree
    flows: tuple[tuple[int, int, int, int], ...]  # source, target, bytes, start in us
    options: Options

    @property
    def round_trip(self) -> int:
        """Ticks of the longest round trip: a full packet there and an ACK back, on each link."""
        return 2 * self.tree.diameter * _DELAY + sum(
            self.tree.diameter * 8 * size * 10**12 // _RATE for size in (_MTU, _ACK)
        )

    @property
    def _product(self) -> int:
        """Bandwidth-delay product in bytes."""
        return self.round_trip * _RATE // (8 * 10**12)

    def _packets(self, share: float = 1.0) -> int:
        """Return a ``share`` of the bandwidth-delay product in bytes, rounded to whole packets."""
        return math.ceil(share * math.ceil(self._product / _MTU)) * _MTU

    @property
    def _queue(self) -> int:
        queue = self.options.queue
        return self._packets() if queue is None else queue * _MTU

    def _port(self, cable: Cable) -> Port:
        """Return the sending port of a cable.

        Its buffer holds the queue and the packet in transmission, which the kernel's queues do not
        count. With receivers' credits, ports to hosts do not mark.
        """
        if cable.is_host:
            return Port(cable.node, cable.to, _RATE, _DELAY)
        part = _FAILED if cable.slow else 1
        room, low, high = (
            int(part * n_bytes)
            for n_bytes in (self._queue, self._packets(_LOW), self._packets(_HIGH))
        )
        is_last = cable.to < self.tree.hosts
        marking = None if is_last and self.options.credits else Marking(low, high, 1.0)
        rate = int(part * _RATE)
        room = max(room - _MTU, _MTU)
        return Port(cable.node, cable.to, rate, _DELAY, marking, shift=-16, room=room)

    def _transport(self) -> Rud:
        options = self.options
        rto = _LEAST_RTO + _RTO_QUEUES * self._queue * 8 * 10**12 // _RATE
        shared = options.balance, options.entropies, options.ack_every, rto
        if options.credits:
            ratio = self.tree.oversubscription
            least = _LEAST_SHARE / ratio if ratio > 1 else 1.0
            return Rccc(*shared, most_credit=_WINDOW, least=least)
        first = _WINDOW if options.window is None else options.window * _MTU / self._product
        return Nscc(*shared, first_window=first, most_window=_WINDOW)

    def _flow(self, source: int, target: int, size: int, start: int) -> Flow:
        (first, *others) = ((way, way[::-1]) for way in self.tree.ways(source, target))
        return Flow(
            size,
            *first,
            start * _US,
            window=self._product,
            round_trip=self.round_trip,
            sprayed=tuple(others),
        )

    def run(self, seed: int = 0) -> PacketRun:
        """Return the simulated flows; ``seed`` determines hashes and random draws, ticks are ps."""
        settings = Settings(
            self._transport(),
            payload=_MTU - _HEADER,
            data_header=_HEADER,
            ack_size=_ACK,
            pauses=False,
            trims=True,
            priorities=2,
            ack_priority=1,
        )
        ports = [self._port(cable) for cable in self.tree.cables()]
        buffers = dict.fromkeys(self.tree.switches, 1 << 40)  # only ports limit queues
        flows = [self._flow(*flow) for flow in self.flows]
        return simulate_packets(Fabric(ports, buffers), flows, settings, seed=seed)
