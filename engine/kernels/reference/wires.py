"""Links as SimPy resources: who has its turn next, and what a link has done."""

import math
from functools import partial

import simpy
from simpy.resources.resource import PriorityRequest, Request, SortedQueue

from dimsweep.engine.cluster.network import NetworkModel
from dimsweep.engine.kernels.core.none import NONE
from dimsweep.engine.kernels.messages.run import LinkAccount, Span, whole_picoseconds
from dimsweep.engine.kernels.reference.clock import Clock
from dimsweep.engine.network.graph import Link
from dimsweep.engine.units import PICOSECONDS


class Wire(simpy.Resource):
    """A link at run time, and what it has done so far (times in ps)."""

    def __init__(self, clock: Clock, link: Link, packet: float, room: int, *, record: bool) -> None:
        super().__init__(clock, capacity=1)
        self.clock, self.link = clock, link
        self._per_byte = PICOSECONDS / link.bandwidth
        self._packet, self._record = packet, record
        self.room_size = room  # bytes at the far end; NONE: without limit
        self.room = None if room == NONE else simpy.Container(clock, room, init=room)
        self.blocked = ""  # the name of the message that holds the link and finds no room
        self.n_bytes = 0.0
        self.busy = 0
        self.longest_queue = 0
        self.spans: list[Span] = []

    def transfer(self, n_bytes: float) -> int:
        """Picoseconds until ``n_bytes`` are on the link."""
        return whole_picoseconds(n_bytes * self._per_byte)

    def head(self, n_bytes: float) -> int:
        """Picoseconds until as much is on it as the far end waits for."""
        return self.transfer(min(self._packet, n_bytes))

    def ask(self, crossing: "Crossing") -> Request:
        """Ask for a turn on the link; it is an event, which happens when the link is free."""
        return self.request()

    def take_room(self, n_bytes: float) -> simpy.Event:
        """Room for a message at the far end, as an event."""
        assert self.room is not None
        return self.room.get(_whole_bytes(n_bytes))

    def give_room_back(self, n_bytes: float) -> None:
        """Give room at the far end back, when the link's latency has passed, too."""
        if self.room is not None:
            self.clock.later(self.link.latency, partial(self.room.put, _whole_bytes(n_bytes)))

    def was_held(self, start: int, end: int, name: str) -> None:
        """Account for a time in which a message held the link."""
        self.busy += end - start
        if self._record:
            self.spans.append(Span(start, end, name))

    def account(self, end: int) -> LinkAccount:
        """What the link has done by ``end``."""
        done = self.n_bytes, self.busy, self.longest_queue
        return LinkAccount.by(end, self.link, *done, self.spans)


def _whole_bytes(n_bytes: float) -> int:
    """So that the sum of what is taken and given back is exact; SimPy wants some."""
    return max(1, math.ceil(n_bytes))


class OrderedWire(Wire):
    """A link that what goes first is let onto first (see :class:`Message`)."""

    PutQueue = SortedQueue

    def ask(self, crossing: "Crossing") -> Request:
        return _Turn(self, crossing, crossing.message.order)


class PreemptiveWire(OrderedWire):
    """A link that what holds it leaves to what goes first, and comes back to before its equals.

    As :class:`simpy.PreemptiveResource`, but what holds it is no process that can be interrupted.
    """

    def ask(self, crossing: "Crossing") -> Request:
        holders = [turn.crossing for turn in self.users if isinstance(turn, _Turn)]
        later = [holder for holder in holders if holder.precedence > crossing.precedence]
        if later:
            self.users.clear()
        turn = super().ask(crossing)  # before the other asks again, which would have it else
        for holder in later:
            if holder.suspend():
                holder.wait(_Turn(self, holder, (holder.precedence, -1)))
        return turn


class _Turn(PriorityRequest):
    """A turn on a link, and the crossing that it is for."""

    def __init__(self, wire: Wire, crossing: "Crossing", order: tuple[int, int]) -> None:
        self.crossing = crossing
        # SimPy sorts by the priority, and any that can be compared will do.
        super().__init__(wire, order, preempt=False)  # type: ignore[arg-type]


def kind_of_wire(model: NetworkModel) -> type[Wire]:
    """The links of a network: on a wafer some messages go first."""
    if model.wafer is None:
        return Wire
    return PreemptiveWire if model.wafer.preempts else OrderedWire
