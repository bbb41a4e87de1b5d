"""ASTRA-sim's shared memory bus: packets between an NPU and its memory agent take turns.

Two ends, each of which sends or receives, one at a time, by the LogGP model.  Behind the NPU's end
is a bus of the same kind to its memory, which packets cross on their way.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from dimsweep.engine.extensions.astra_sim.clock import Timers
from dimsweep.engine.formats.astra_sim.inputs import BusModel

_INNER_PER_BYTE = 0.0038  # ns, whatever G says
_TURNS = 8  # an end may send one after the other while the other end waits
Call = Callable[[], None]


@dataclass
class _Packet:
    n_bytes: int
    processed: bool
    back: bool  # whether it returns to where it came from
    done: Call


class _State(Enum):
    FREE, SENDING, RECEIVING = range(3)


class Bus:
    """The bus of one NPU."""

    def __init__(self, model: BusModel, timers: Timers) -> None:
        inner = _joined(model, _INNER_PER_BYTE, timers, None)
        self._npu, self._agent = _joined(model, model.per_byte, timers, inner)

    def send(self, n_bytes: int, done: Call) -> None:
        """From the NPU to its memory agent."""
        self._npu.request(_Packet(n_bytes, False, False, done))

    def receive(self, n_bytes: int, done: Call, *, processed: bool, back: bool) -> None:
        """From the memory agent to the NPU, which may reduce it and send it back."""
        self._agent.request(_Packet(n_bytes, processed, back, done))


def _joined(
    model: BusModel, per_byte: float, timers: Timers, inner: "tuple[_End, _End] | None"
) -> "tuple[_End, _End]":
    npu, agent = _End(model, per_byte, timers, inner), _End(model, per_byte, timers, None)
    npu.other, agent.other = agent, npu
    return npu, agent


class _End:
    """One end of a bus; an NPU's has an ``inner`` bus behind it: its own end, and the memory's."""

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
        """Send a packet; what the NPU sends is first fetched from its memory."""
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
        """Send if there is something to, and it is this end's turn."""
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
        """Return it, or be done with it."""
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
