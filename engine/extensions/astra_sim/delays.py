"""What a message costs on ASTRA-sim's analytical networks."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.extensions.astra_sim.clock import Clock
from dimsweep.engine.formats.astra_sim.inputs import Network
from dimsweep.engine.network.fabric import build_network
from dimsweep.engine.network.routing import Router, Routing
from dimsweep.engine.topology.topology import Dimension, Topology

Arrived = Callable[[], None]


class Unaware:
    """No contention: hops * latency + bytes / bandwidth, rounded down once.

    Only the first dimension in which two NPUs differ counts, whatever the others are.
    """

    def __init__(self, clock: Clock, network: Network) -> None:
        self._clock, self._ways = clock, ways(network)

    def send(self, source: int, target: int, n_bytes: int, arrived: Arrived) -> None:
        """Deliver ``n_bytes``."""
        latency, bandwidth = self._ways(source, target)
        self._clock.at(self._clock.now + int(latency + n_bytes / bandwidth), arrived)


def ways(network: Network) -> Callable[[int, int], tuple[float, float]]:
    """Latency (ns) and bandwidth (bytes/ns) between two NPUs, as a function that remembers."""
    route, latency, bandwidth = routes(network), network.latency, network.bandwidth

    @cache
    def way(source: int, target: int) -> tuple[float, float]:
        dim, hops = route(source, target)
        return hops * latency[dim], bandwidth[dim]

    return way


def routes(network: Network) -> Callable[[int, int], tuple[int, int]]:
    """The dimension and the hops in it that a message between two NPUs pays for."""
    dims = list(zip(network.blocks, network.sizes, strict=True))

    def route(source: int, target: int) -> tuple[int, int]:
        for d, (block, size) in enumerate(dims):
            a, b = source % size, target % size
            source, target = source // size, target // size
            if a != b:
                return d, block.way(size, (b - a) % size).hops
        raise DimsweepError("a message from an NPU to itself", where="trace")

    return route


@dataclass
class _Line:
    """A link: one message at a time, first in first out."""

    busy: bool = False
    queue: deque[tuple[int, Callable[[], None]]] = field(default_factory=deque)


class Aware:
    """Store-and-forward over the links of a single dimension."""

    def __init__(self, clock: Clock, network: Network) -> None:
        if len(network.sizes) > 1:
            raise DimsweepError(
                "the congestion-aware network has one dimension",
                where="network.yml: topology",
                hint="congestion=unaware, or dimsweep's own fidelity=message",
            )
        self._clock = clock
        (block,), (size,) = network.blocks, network.sizes
        (self._bandwidth,), (self._latency,) = network.bandwidth, network.latency
        links = build_network(Topology((Dimension(block, size, bandwidth=1.0, latency=0),)))
        self._router = Router(links, Routing.SHORTEST)  # to the opposite NPU of a Ring: upwards
        self._lines = [_Line() for _ in links.links]

    def send(self, source: int, target: int, n_bytes: int, arrived: Arrived) -> None:
        """Deliver ``n_bytes`` hop by hop."""
        self._hop(self._router.route(source, target), 0, n_bytes, arrived)

    def _hop(self, route: Sequence[int], at: int, n_bytes: int, arrived: Arrived) -> None:
        if at == len(route):
            arrived()
            return
        line = self._lines[route[at]]
        line.queue.append((n_bytes, lambda: self._hop(route, at + 1, n_bytes, arrived)))
        if not line.busy:
            self._serve(line)

    def _serve(self, line: _Line) -> None:
        line.busy = bool(line.queue)
        if not line.queue:
            return
        n_bytes, there = line.queue.popleft()
        now, transfer = self._clock.now, n_bytes / self._bandwidth
        self._clock.at(now + int(self._latency + transfer), there)
        self._clock.at(now + int(transfer), lambda: self._serve(line))
