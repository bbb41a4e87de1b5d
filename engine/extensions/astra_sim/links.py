"""Time, timers, memory bus and links of ASTRA-sim, with its two models of network delay."""

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cache

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.formats.astra_sim import BusModel, Network
from dimsweep.engine.network.fabric import build_network
from dimsweep.engine.network.routing import Router, Routing
from dimsweep.engine.topology.topology import Dimension, Topology

Call = Callable[[], None]


class Clock:
    """ASTRA-sim's event queue, with times in ns."""

    def __init__(self) -> None:
        self.now = 0
        self._heap: list[tuple[int, int, Call]] = []
        self._n = 0

    def schedule(self, time: int, call: Call) -> None:
        """Run ``call`` at ``time``, after all earlier calls for that time."""
        self._n += 1
        heapq.heappush(self._heap, (time, self._n, call))

    def run(self) -> None:
        """Run until the queue is empty."""
        while self._heap:
            self.now, _, call = heapq.heappop(self._heap)
            call()


class Timers:
    """The pending calls of one NPU, which run together at each tick."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lists: dict[int, list[Call]] = {}

    @property
    def now(self) -> int:
        return self._clock.now

    def register(self, delay: int, call: Call) -> None:
        """Run ``call`` in ``delay`` ns, with all other calls of this NPU at that tick."""
        tick = self._clock.now + delay
        calls = self._lists.get(tick)
        if calls is None:
            self._lists[tick] = [call]
            self._clock.schedule(tick, lambda: self._walk(tick))
        else:
            calls.append(call)

    def _walk(self, tick: int) -> None:
        calls = self._lists[tick]
        for call in calls:  # grows while it is walked
            call()
        del self._lists[tick]


_INNER_PER_BYTE = 0.0038  # ns, whatever G says
_TURNS = 8  # an end may send one after the other while the other end waits


@dataclass
class _Packet:
    n_bytes: int
    processed: bool
    back: bool  # whether it returns to where it came from
    done: Call


class _State(Enum):
    FREE, SENDING, RECEIVING = range(3)


class Bus:
    """The bus between one NPU and its memory."""

    def __init__(self, model: BusModel, timers: Timers) -> None:
        inner = _joined(model, _INNER_PER_BYTE, timers, None)
        self._npu, self._agent = _joined(model, model.per_byte, timers, inner)

    def send(self, n_bytes: int, done: Call) -> None:
        """Send bytes from the NPU to its memory agent, then call ``done``."""
        self._npu.request(_Packet(n_bytes, False, False, done))

    def receive(self, n_bytes: int, done: Call, *, processed: bool, back: bool) -> None:
        """Send bytes from the memory agent to the NPU, then call ``done``.

        ``processed``: the NPU reduces them. ``back``: they return to the memory agent.
        """
        self._agent.request(_Packet(n_bytes, processed, back, done))


def _joined(
    model: BusModel, per_byte: float, timers: Timers, inner: "tuple[_End, _End] | None"
) -> "tuple[_End, _End]":
    npu, agent = _End(model, per_byte, timers, inner), _End(model, per_byte, timers, None)
    npu.other, agent.other = agent, npu
    return npu, agent


class _End:
    """One end of a bus; behind an NPU's end is an ``inner`` bus to its memory."""

    other: "_End"

    def __init__(
        self, model: BusModel, per_byte: float, timers: Timers, inner: "tuple[_End, _End] | None"
    ) -> None:
        self._model, self._per_byte, self._timers, self._inner = model, per_byte, timers, inner
        self._sends: deque[_Packet] = deque()
        self._received: deque[_Packet] = deque()
        self._reductions: deque[_Packet] = deque()
        self._reducing = False
        self._state = self._before = _State.FREE
        self._last, self._turns = 0, 0

    def request(self, packet: _Packet) -> None:
        """Queue a packet to send; an NPU's packets are first fetched from its memory."""
        self._through_inner(packet, lambda: self._queue(packet), from_memory=True)

    def _through_inner(
        self, packet: _Packet, then: Call, *, from_memory: bool = False, back: bool = False
    ) -> None:
        if self._inner is None:
            then()
        else:
            self._inner[from_memory].request(_Packet(packet.n_bytes, False, back, then))

    def _queue(self, packet: _Packet) -> None:
        self._sends.append(packet)
        self._advance()

    def _advance(self) -> None:
        """Send the next waiting packet if it is this end's turn on the bus."""
        if self._state is not _State.FREE or not self._sends:
            return
        if self._turns > _TURNS and self.other._sends and self.other._turns <= _TURNS:
            self.other._advance()
            return
        now, model = self._timers.now, self._model
        wait = model.overhead
        if self._before is _State.SENDING and wait + (now - self._last) <= model.gap:
            wait = model.gap - (now - self._last)
        packet = self._sends.popleft()
        transfer = (packet.n_bytes - 1) * self._per_byte
        arrival = int(wait + transfer + model.latency + model.overhead)
        self.other._take(packet, arrival)
        self._state = _State.SENDING
        self._timers.register(int(wait + transfer), self._sent)

    def _take(self, packet: _Packet, arrival: int) -> None:
        self._received.append(packet)
        self._before, self._state = self._state, _State.RECEIVING
        self._timers.register(arrival, self._has_received)
        self._turns = 0

    def _sent(self) -> None:
        self._last = self._timers.now
        self._before, self._state = self._state, _State.FREE
        self._turns += 1
        self._advance()

    def _has_received(self) -> None:
        self._last = self._timers.now
        self._before = self._state
        if len(self._received) < 2:
            self._state = _State.FREE
        packet = self._received.popleft()
        if packet.processed:
            packet.processed = False
            self._through_inner(packet, lambda: self._reduce(packet), back=True)
        else:
            self._pass_on(packet)
        self._advance()

    def _pass_on(self, packet: _Packet) -> None:
        """Return the packet to the other end, or finish it."""
        if packet.back:
            packet.back = False
            self._through_inner(packet, lambda: self._queue(packet), back=True)
        else:
            self._through_inner(packet, packet.done)

    def _reduce(self, packet: _Packet) -> None:
        self._reductions.append(packet)
        self._serve_reduction()

    def _serve_reduction(self) -> None:
        if self._reducing or not self._reductions:
            return
        self._reducing = True
        hundreds = self._reductions[0].n_bytes // 100
        self._timers.register(hundreds * self._model.reduction + 50, self._reduced)

    def _reduced(self) -> None:
        self._reducing = False
        self._pass_on(self._reductions.popleft())
        self._serve_reduction()
        self._advance()


Arrived = Callable[[], None]


class Unaware:
    """A network without contention: hops * latency + bytes / bandwidth, rounded down once.

    Only the first dimension in which two NPUs differ counts.
    """

    def __init__(self, clock: Clock, network: Network) -> None:
        self._clock, self._ways = clock, ways(network)

    def send(self, source: int, target: int, n_bytes: int, arrived: Arrived) -> None:
        """Call ``arrived`` when ``n_bytes`` from ``source`` reach ``target``."""
        latency, bandwidth = self._ways(source, target)
        self._clock.schedule(self._clock.now + int(latency + n_bytes / bandwidth), arrived)


def ways(network: Network) -> Callable[[int, int], tuple[float, float]]:
    """Return a cached function of two NPUs: latency (ns) and bandwidth (bytes/ns) between them."""
    route, latency, bandwidth = routes(network), network.latency, network.bandwidth

    @cache
    def way(source: int, target: int) -> tuple[float, float]:
        dim, hops = route(source, target)
        return hops * latency[dim], bandwidth[dim]

    return way


def routes(network: Network) -> Callable[[int, int], tuple[int, int]]:
    """Return a function of two NPUs: the dimension and the hops of a message between them."""
    dims = list(zip(network.blocks, network.sizes, strict=True))

    def route(source: int, target: int) -> tuple[int, int]:
        for d, (block, size) in enumerate(dims):
            a, b = source % size, target % size
            source, target = source // size, target // size
            if a != b:
                return d, block.message_path(size, (b - a) % size).hops
        raise DimsweepError(
            "the trace has a message from an NPU to itself", where="trace", code="invalid"
        )

    return route


@dataclass
class _Line:
    """One link, which sends one message at a time, first in, first out."""

    busy: bool = False
    queue: deque[tuple[int, Callable[[], None]]] = field(default_factory=deque)


class Aware:
    """A network with contention: store-and-forward over the links of a single dimension."""

    def __init__(self, clock: Clock, network: Network) -> None:
        if len(network.sizes) > 1:
            raise DimsweepError(
                "the congestion-aware network supports one dimension only",
                where="network.yml: topology",
                hint="use congestion=unaware, or dimsweep's fidelity=message",
                code="unsupported",
            )
        self._clock = clock
        (block,), (size,) = network.blocks, network.sizes
        (self._bandwidth,), (self._latency,) = network.bandwidth, network.latency
        links = build_network(Topology((Dimension(block, size, bandwidth=1.0, latency=0),)))
        self._router = Router(links, Routing.SHORTEST)  # to the opposite NPU of a Ring: upwards
        self._lines = [_Line() for _ in links.links]

    def send(self, source: int, target: int, n_bytes: int, arrived: Arrived) -> None:
        """Send ``n_bytes`` hop by hop, and call ``arrived`` at the target."""
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
        self._clock.schedule(now + int(self._latency + transfer), there)
        self._clock.schedule(now + int(transfer), lambda: self._serve(line))
