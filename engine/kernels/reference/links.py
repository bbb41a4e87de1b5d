"""Messages on their way: links as SimPy resources, one message at a time, first in first out.

A message of S bytes enters a link of b bytes/s when it heads the link's queue, and holds it until
its last byte has left.  The device at the far end passes it on as soon as its first packet of P
bytes has arrived (P >= S: store-and-forward; P = 0: ideal cut-through), so over k equal, free links
it takes

    k * latency + S/b + (k - 1) * min(P, S)/b

Latencies are counted apart from the bytes: what travels is the bytes, and whoever gets a message is
told how late it is, which is the sum of its links' latencies.  So no link is idle because a latency
passes (:mod:`engine.kernels.reference.ports` says why).  A window and a buffer know the whole way:
a message counts in them until its latency has passed, too.

A link that is faster than the one before cannot send what it has not got: the message holds it
until the last packet has come and gone (:mod:`engine.kernels.reference.crossing`).  With finite
buffers a message enters a link only once the far end has room for all of it, and leaves that room
when its last byte is on the next link; a message of more than half a buffer travels in equal parts
that fit, so that one may come while another goes.  NPUs take what is addressed to them at once.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial

import simpy

from dimsweep.engine.cluster.network import NetworkModel
from dimsweep.engine.extensions.wafer import WaferPlan
from dimsweep.engine.kernels.core.none import NONE
from dimsweep.engine.kernels.messages.cascades import Launch, Passages
from dimsweep.engine.kernels.messages.routes import least_room, n_parts, rooms_of
from dimsweep.engine.kernels.messages.run import LinkAccount
from dimsweep.engine.kernels.reference.cascade import RunningCascade, Turns
from dimsweep.engine.kernels.reference.clock import Clock
from dimsweep.engine.kernels.reference.crossing import Crossing, FarEnd
from dimsweep.engine.kernels.reference.transport import Message, Sending, Switched, Transport
from dimsweep.engine.kernels.reference.wires import Wire, kind_of_wire
from dimsweep.engine.network.graph import Network


class LinkTransport(Transport):
    """Has every message take its links itself.

    On a wafer the ``plan`` has the switches that reduce for some lines.  Any other group needs a
    switch that all its members share.
    """

    def __init__(
        self,
        clock: Clock,
        network: Network,
        model: NetworkModel,
        plan: WaferPlan | None = None,
        *,
        record: bool,
    ) -> None:
        super().__init__(clock, network, model, plan)
        kind, rooms = kind_of_wire(model), rooms_of(network, model)
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
        return tuple(wire.account(end) for wire in self.wires)

    def blocked(self) -> list[str]:
        return [
            f"{wire.link.name}: a message of {wire.blocked!r}"
            for wire in self.wires
            if wire.blocked
        ]

    def _latency(self, links: Sequence[int]) -> int:
        return sum(self.wires[link].link.latency for link in links)

    def send(self, sending: Sending) -> None:
        message, ends = sending.message, (self.places[sending.source], self.places[sending.target])
        links = self.router.route(*ends, sending.way)
        route, latency = [self.wires[link] for link in links], self._latency(links)
        parts = n_parts(message.n_bytes, least_room(wire.room_size for wire in route[:-1]))
        self.count(parts)  # parts are known only here
        part = message._replace(n_bytes=message.n_bytes / parts)
        go = partial(self._travel, route, part, _after(parts, sending.left))
        arrived = _after(parts, partial(sending.arrived, latency))
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
        """Let a message go when the window has a place for it, which it has until its latency has
        passed."""
        place = window.request()

        def close() -> None:
            self.clock.later(latency, partial(window.release, place))
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
        """Take a message over its route, one link after another; the one before ``feeds`` it."""
        wire, *rest = route
        if not rest:
            Crossing(wire, message, feeds, left, lambda _: arrived(), FarEnd.TARGET)
            return
        leave = partial(wire.give_room_back, message.n_bytes)
        go_on = partial(self._travel, rest, message, leave, arrived)
        Crossing(wire, message, feeds, left, go_on, FarEnd.BUFFER)

    def through_switch(self, switched: Switched) -> None:
        """Switches buffer nothing, so no room can run out."""
        up, down = switched.up, switched.down
        sources, targets = (
            tuple(self.places[rank] for rank in ends)
            for ends in (switched.sources, switched.targets)
        )
        passage = self._passages.of((*sources, *targets))
        cascade, turns = self._passages.cascade(sources, targets), self._turns[passage.turn]
        risen = max(map(self._latency, cascade.ways_up))
        leave = _after(len(targets), turns.leave)

        def message(launch: Launch) -> Message:
            return up._replace(n_bytes=launch.n_bytes(up.n_bytes, down.n_bytes))

        def over(launch: Launch) -> None:
            rank = self._rank_at[launch.who]
            if launch.gate != NONE:
                switched.left(rank)
                return
            leave()
            switched.arrived(rank, risen + self._latency([launch.link]))

        def start() -> None:
            self.n_messages += len(cascade.launches)
            RunningCascade(self.wires, cascade, message, over).start()

        turns.ask(passage.round, frozenset((*sources, *targets)), start)


def _after(count: int, call: Callable[[], None]) -> Callable[[], None]:
    """Something that calls ``call`` when it has been called ``count`` times."""
    if count == 1:
        return call
    missing = count

    def once_more() -> None:
        nonlocal missing
        missing -= 1
        if not missing:
            call()

    return once_more
