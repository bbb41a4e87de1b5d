"""Messages on their way: links as SimPy resources, one message at a time, first in first out.

A message of S bytes enters a link of b bytes/s when it heads the link's queue, and holds the link
until its last byte has left.  The device at the far end forwards it as soon as its first packet of
P bytes has arrived (P >= S: store-and-forward; P = 0: ideal cut-through), so over k equal, free
links it takes

    k * latency + S/b + (k - 1) * min(P, S)/b

Latencies are counted separately from the bytes: bytes travel, and each message arrives with its
lateness, the sum of its links' latencies.  No link is therefore idle because a latency passes
(:mod:`engine.kernels.reference.ports` says why).  Windows and buffers include latencies: a message
counts in them until its latency has passed.

A link that is faster than the previous one cannot send bytes that have not arrived: the message
holds it until the last packet has arrived and left (:class:`Crossing`).  With finite buffers a
message enters a link only once the far end has room for all of it, and frees that room when its
last byte is on the next link.  A message of more than half a buffer travels in equal parts that
fit, so that one part may arrive while another leaves.  NPUs receive messages addressed to them
immediately.

Messages that trigger each other are cascades (:mod:`engine.kernels.messages.routes`); lines that
cannot use an interconnect's switches at the same time take turns.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from enum import Enum, auto
from functools import partial
from typing import NamedTuple

import simpy
from simpy.resources.resource import PriorityRequest, Request, SortedQueue

from dimsweep.engine.cluster.network_model import NetworkModel
from dimsweep.engine.kernels.core.tables import NONE
from dimsweep.engine.kernels.messages.program import LinkAccount, Span, round_ps
from dimsweep.engine.kernels.messages.routes import (
    Cascade,
    Launch,
    Passages,
    buffer_rooms,
    minimum_room,
    n_parts,
)
from dimsweep.engine.kernels.reference.clock import Clock
from dimsweep.engine.kernels.reference.transport import Message, Sending, Switched, Transport
from dimsweep.engine.network.graph import Link, Network
from dimsweep.engine.network.interconnect import InterconnectPlan
from dimsweep.engine.units import PICOSECONDS


class Wire(simpy.Resource):
    """A link of the network during a run, and its traffic so far (times in ps)."""

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
        """Return the picoseconds that the link takes to send ``n_bytes``."""
        return round_ps(n_bytes * self._per_byte)

    def head(self, n_bytes: float) -> int:
        """Return the picoseconds until the far end may forward a message of ``n_bytes``."""
        return self.transfer(min(self._packet, n_bytes))

    def ask(self, crossing: "Crossing") -> Request:
        """Request the link for a message; return the event that succeeds when it holds the link."""
        return self.request()

    def take_room(self, n_bytes: float) -> simpy.Event:
        """Request buffer room for ``n_bytes`` at the far end; return the event of getting it."""
        assert self.room is not None
        return self.room.get(_whole_bytes(n_bytes))

    def return_room(self, n_bytes: float) -> None:
        """Return buffer room at the far end, after the link's latency."""
        if self.room is not None:
            self.clock.call_later(self.link.latency, partial(self.room.put, _whole_bytes(n_bytes)))

    def book_hold(self, start: int, end: int, name: str) -> None:
        """Record an interval in which the message called ``name`` held the link."""
        self.busy += end - start
        if self._record:
            self.spans.append(Span(start, end, name))

    def account(self, end: int) -> LinkAccount:
        """Return the link's traffic account at time ``end`` (ps)."""
        done = self.n_bytes, self.busy, self.longest_queue
        return LinkAccount.from_totals(end, self.link, *done, self.spans)


def _whole_bytes(n_bytes: float) -> int:
    """Round up to whole bytes, at least 1, so that reserved and returned room add up exactly."""
    return max(1, math.ceil(n_bytes))


class OrderedWire(Wire):
    """A link whose queue is sorted by the messages' order (see :class:`Message`)."""

    PutQueue = SortedQueue

    def ask(self, crossing: "Crossing") -> Request:
        """Request the link for a message, queued by the message's order."""
        return _Turn(self, crossing, crossing.message.order)


class PreemptiveWire(OrderedWire):
    """A link whose holder is suspended for a message of a lower precedence.

    It is like :class:`simpy.PreemptiveResource`, but the holder is not a process that can be
    interrupted.  The suspended message continues before others of equal precedence.
    """

    def ask(self, crossing: "Crossing") -> Request:
        """Request the link for a message, and suspend a holder of later precedence."""
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
    """A request for a link, with the crossing (message on the link) that made it."""

    def __init__(self, wire: Wire, crossing: "Crossing", order: tuple[int, int]) -> None:
        self.crossing = crossing
        # SimPy sorts by the priority, and any that can be compared will do.
        super().__init__(wire, order, preempt=False)  # type: ignore[arg-type]


def wire_class(model: NetworkModel) -> type[Wire]:
    """Return the class of the links of a network, by its priorities and preemption."""
    if model.interconnect is None:
        return Wire
    return PreemptiveWire if model.interconnect.preempts else OrderedWire


class FarEnd(Enum):
    """The device at the far end of a link."""

    TARGET = auto()  # takes messages in when they are all there
    BUFFER = auto()  # passes them on, when there is room for them if that has a limit
    SWITCH = auto()  # passes them on as they come: what reduces or multicasts buffers nothing


class Crossing:
    """A message on one link; it requests the link when it is created.

    Its last byte arrives at the link after the last bytes of all ``feeds``, the crossings of the
    links before (none: all bytes are there).  ``left`` is called when its last byte is on the link;
    ``passed``, with the crossing, when the ``far_end`` may forward it or has received it.  ``end``
    is the planned time of its last byte on the link: None before it holds the link, and while it or
    a feed is suspended.  The link's latency is not included.
    """

    def __init__(
        self,
        wire: Wire,
        message: Message,
        feeds: Sequence["Crossing"],
        left: Callable[[], None],
        passed: Callable[["Crossing"], None],
        far_end: FarEnd,
    ) -> None:
        self._clock, self._wire, self.message = wire.clock, wire, message
        self._feeds, self._left, self._passed = feeds, left, passed
        self._far_end = far_end
        self._transfer, self._head = wire.transfer(message.n_bytes), wire.head(message.n_bytes)
        self.end: int | None = None
        self._sent = self._at = 0  # ps of its transfer, as counted last; when that was
        self._since: int | None = None  # when it was given the link; None: it does not hold it
        self._plan = 0  # the number of the one that holds; what others had planned is void
        self._was_passed = False  # whether it was passed on
        self._followers: list[Crossing] = []  # what it feeds
        for feed in feeds:
            feed.follow(self)
        self.wait(wire.ask(self))

    @property
    def precedence(self) -> int:
        """Precedence of the message; lower ones go first."""
        return self.message.order[0]

    def follow(self, crossing: "Crossing") -> None:
        """Let this crossing feed ``crossing``, which is replanned whenever this one is."""
        if self.end is None or self.end > self._clock.ps:
            self._followers.append(crossing)

    def suspend(self) -> bool:
        """Take the link from the message; return whether some of its bytes are left to send."""
        now = self._clock.ps
        if self.end == now:
            return False  # its last byte is on the link
        if self._since is not None:
            self._sent = self._progress()
            if now > self._since:
                self._wire.book_hold(self._since, now, self.message.name)
        self._since = self.end = None
        self._plan += 1
        self._replan_followers()
        return True

    def wait(self, turn: Request) -> None:
        """Continue the crossing when its request ``turn`` for the link succeeds."""
        self._turn: Request | None = turn
        self._wire.longest_queue = max(self._wire.longest_queue, len(self._wire.queue))
        turn.callbacks.append(self._enter)

    def _enter(self, turn: simpy.Event) -> None:
        if turn is not self._turn:
            return  # it had to make way before it could begin
        if self._far_end is FarEnd.BUFFER and self._wire.room is not None:
            self._wire.blocked = self.message.name
            self._wire.take_room(self.message.n_bytes).callbacks.append(self._start_transfer)
        else:
            self._start_transfer(turn)

    def _start_transfer(self, _: simpy.Event) -> None:
        self._wire.blocked = ""
        self._since = self._at = self._clock.ps
        self._make_plan()
        self._replan_followers()

    def _make_plan(self) -> None:
        """Plan the end of the crossing from the planned ends of the feeds."""
        self._plan += 1
        now, tail = self._clock.ps, self._tail()
        left = self._transfer - self._sent
        self.end = None if tail is None else max(now + left, tail + self._head)
        if self.end is not None:
            self._clock.call_later(self.end - now, partial(self._free, self._plan))
        if not self._was_passed:
            ready = (
                self.end
                if self._far_end is FarEnd.TARGET
                else now + max(0, self._head - self._sent)
            )
            if ready is not None:
                self._clock.call_later(ready - now, partial(self._pass, self._plan))

    def _tail(self) -> int | None:
        """Return the time at which the last byte to forward arrives, or None if unknown."""
        latest = 0
        for feed in self._feeds:
            if feed.end is None:
                return None
            latest = max(latest, feed.end)
        return latest

    def _pass(self, plan: int) -> None:
        if plan == self._plan:
            self._was_passed = True
            self._passed(self)

    def _free(self, plan: int) -> None:
        if plan != self._plan:
            return
        wire, turn = self._wire, self._turn
        assert self._since is not None and turn is not None
        wire.n_bytes += self.message.n_bytes
        wire.book_hold(self._since, self._clock.ps, self.message.name)
        self._since = self._turn = None
        self._followers.clear()
        wire.release(turn)
        self._left()

    def _replan_followers(self) -> None:
        for follower in self._followers:
            follower.replan()

    def replan(self) -> None:
        """Replan the end of the crossing after a feed was replanned or suspended."""
        if self._since is not None:
            self._sent, self._at = self._progress(), self._clock.ps
            self._make_plan()
            self._replan_followers()

    def _progress(self) -> int:
        """Return the completed part of the transfer, as ps at the link's rate."""
        if self._since is None:
            return self._sent
        done = self._sent + self._clock.ps - self._at
        return min((done, *map(self._progress_limit, self._feeds)))

    def _progress_limit(self, feed: "Crossing") -> int:
        """Return the part of the transfer (ps) for which ``feed`` has delivered the bytes."""
        now = self._clock.ps
        if feed.end is not None and feed.end <= now:
            return self._transfer - max(0, self._head - (now - feed.end))
        if not feed._transfer:
            return 0
        done = -(-feed._progress() * self._transfer // feed._transfer)
        return max(0, done - self._head)


class RunningCascade:
    """A cascade in flight.

    ``message`` returns the message of a launch.  ``finished`` is called with each launch of an NPU
    when all of its message has left (or has arrived, if it is stored or at its end).
    """

    def __init__(
        self,
        wires: Sequence[Wire],
        cascade: Cascade,
        message: Callable[[Launch], Message],
        finished: Callable[[Launch], None],
    ) -> None:
        self._wires, self._cascade, self._message, self._finished = (
            wires,
            cascade,
            message,
            finished,
        )
        self._begun: dict[int, list[Crossing]] = defaultdict(list)  # to come to each gate

    def start(self) -> None:
        """Send the initial launches of the cascade."""
        self._launch(self._cascade.first, ())

    def _launch(self, launches: tuple[int, int], feeds: Sequence[Crossing]) -> None:
        for launch in self._cascade.launches[slice(*launches)]:
            cross = partial(Crossing, self._wires[launch.link], self._message(launch), feeds)
            if launch.stored or launch.gate == NONE:
                cross(lambda: None, partial(self._store, launch), FarEnd.TARGET)
            else:
                cross(partial(self._end, launch), partial(self._reach_gate, launch), FarEnd.SWITCH)

    def _store(self, launch: Launch, crossing: Crossing) -> None:
        self._end(launch)
        if launch.gate != NONE:
            self._reach_gate(launch, crossing)

    def _end(self, launch: Launch) -> None:
        if launch.who != NONE:
            self._finished(launch)

    def _reach_gate(self, launch: Launch, crossing: Crossing) -> None:
        """Count a message at its gate; the last expected message starts the gate's launches."""
        gate, begun = self._cascade.gates[launch.gate], self._begun[launch.gate]
        begun.append(crossing)
        if len(begun) == gate.expected:
            self._launch(gate.launches, begun)


class _Asked(NamedTuple):
    round: int
    line: frozenset[int]
    start: Callable[[], None]


class Turns:
    """Turns of lines at an interconnect's switches: lines of one round run at the same time.

    The line that has waited longest chooses the next round.  All requests of lines of this round
    are granted, also requests made meanwhile; but while other rounds wait, no line starts twice.
    Therefore no line waits for ever.
    """

    def __init__(self) -> None:
        self._round, self._under_way = -1, 0
        self._passed: set[frozenset[int]] = set()  # in this turn
        self._waiting: list[_Asked] = []

    def ask(self, round_: int, line: frozenset[int], start: Callable[[], None]) -> None:
        """Call ``start`` when it is the turn of round ``round_``; :meth:`leave` must follow."""
        self._waiting.append(_Asked(round_, line, start))
        self._start_turns()

    def leave(self) -> None:
        """Record that one start has finished; the last one lets the next round begin."""
        self._under_way -= 1
        self._start_turns()

    def _start_turns(self) -> None:
        begins = not self._under_way
        if self._waiting and begins:
            self._round = self._waiting[0].round
            self._passed.clear()
        waiting, self._waiting = self._waiting, []
        others = any(asked.round != self._round for asked in waiting)
        for asked in waiting:
            again = asked.line in self._passed and others and not begins
            if asked.round == self._round and not again:
                self._under_way += 1
                self._passed.add(asked.line)
                asked.start()
            else:
                self._waiting.append(asked)


class LinkTransport(Transport):
    """The transport of message fidelity: messages occupy links one at a time.

    On an interconnect the ``plan`` has the switches that reduce for some lines.  Any other group
    needs a switch to which all its members are linked.
    """

    def __init__(
        self,
        clock: Clock,
        network: Network,
        model: NetworkModel,
        plan: InterconnectPlan | None = None,
        *,
        record: bool,
    ) -> None:
        super().__init__(clock, network, model, plan)
        kind, rooms = wire_class(model), buffer_rooms(network, model)
        self.wires = [
            kind(clock, link, model.packet_limit, room, record=record)
            for link, room in zip(network.links, rooms, strict=True)
        ]
        self._windows: dict[tuple[int, int], simpy.Resource] = defaultdict(
            lambda: simpy.Resource(clock, model.window or 1)
        )
        self._passages = Passages(network, model, plan)
        self._turns: dict[int, Turns] = defaultdict(Turns)
        self._rank_at = {npu: rank for rank, npu in enumerate(self.places)}

    def accounts(self, end: int) -> tuple[LinkAccount, ...]:
        """Return the account of each link at time ``end``."""
        return tuple(wire.account(end) for wire in self.wires)

    def blocked(self) -> list[str]:
        """Return the links that are blocked for ever, each with its message."""
        return [
            f"{wire.link.name}: a message of {wire.blocked!r}"
            for wire in self.wires
            if wire.blocked
        ]

    def _latency(self, links: Sequence[int]) -> int:
        return sum(self.wires[link].link.latency for link in links)

    def send(self, sending: Sending) -> None:
        """Send a message in as many parts as needed for two to fit every buffer on its way."""
        message, ends = sending.message, (self.places[sending.source], self.places[sending.target])
        links = self.router.route(*ends, sending.way)
        route, latency = [self.wires[link] for link in links], self._latency(links)
        parts = n_parts(message.n_bytes, minimum_room(wire.room_size for wire in route[:-1]))
        self.count(parts)  # parts are known only here
        part = message._replace(n_bytes=message.n_bytes / parts)
        go = partial(self._travel, route, part, _after_calls(parts, sending.left))
        arrived = _after_calls(parts, partial(sending.arrived, latency))
        for _ in range(parts):
            if self.model.window is None:
                go(arrived)
            else:
                self._in_window(self._windows[sending.source, sending.dim], latency, go, arrived)

    def _in_window(
        self,
        window: simpy.Resource,
        latency: int,
        go: Callable[[Callable[[], None]], None],
        arrived: Callable[[], None],
    ) -> None:
        """Send a message when the window has a place; free the place after the latency."""
        place = window.request()

        def close() -> None:
            self.clock.call_later(latency, partial(window.release, place))
            arrived()

        place.callbacks.append(lambda _: go(close))

    def _travel(
        self,
        route: Sequence[Wire],
        message: Message,
        left: Callable[[], None],
        arrived: Callable[[], None],
        *feeds: Crossing,
    ) -> None:
        """Send a message link by link over its route; each crossing feeds the next one."""
        wire, *rest = route
        if not rest:
            Crossing(wire, message, feeds, left, lambda _: arrived(), FarEnd.TARGET)
            return
        leave = partial(wire.return_room, message.n_bytes)
        go_on = partial(self._travel, rest, message, leave, arrived)
        Crossing(wire, message, feeds, left, go_on, FarEnd.BUFFER)

    def send_through_switch(self, switched: Switched) -> None:
        """Send the messages of a reduction or multicast through switches, without buffer limits."""
        up, down = switched.up, switched.down
        sources, targets = (
            tuple(self.places[rank] for rank in ends)
            for ends in (switched.sources, switched.targets)
        )
        passage = self._passages.passage((*sources, *targets))
        cascade, turns = self._passages.cascade(sources, targets), self._turns[passage.turn]
        risen = max(map(self._latency, cascade.ways_up))
        leave = _after_calls(len(targets), turns.leave)

        def message(launch: Launch) -> Message:
            return up._replace(n_bytes=launch.n_bytes(up.n_bytes, down.n_bytes))

        def finish(launch: Launch) -> None:
            rank = self._rank_at[launch.who]
            if launch.gate != NONE:
                switched.left(rank)
                return
            leave()
            switched.arrived(rank, risen + self._latency([launch.link]))

        def start() -> None:
            self.n_messages += len(cascade.launches)
            RunningCascade(self.wires, cascade, message, finish).start()

        turns.ask(passage.round, frozenset((*sources, *targets)), start)


def _after_calls(count: int, call: Callable[[], None]) -> Callable[[], None]:
    """Return a function that calls ``call`` the ``count``-th time it is called."""
    if count == 1:
        return call
    missing = count

    def count_call() -> None:
        nonlocal missing
        missing -= 1
        if not missing:
            call()

    return count_call
