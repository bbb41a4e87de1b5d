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

import math
from collections.abc import Callable, Sequence
from functools import partial

import simpy

from engine.cluster.blocks.block import Node
from engine.cluster.network import NetworkModel
from engine.kernels.messages.count import check_number
from engine.kernels.messages.links import LinkAccount
from engine.kernels.messages.routes import router_of, shared_switch
from engine.kernels.reference.clock import Clock
from engine.kernels.reference.crossing import Crossing, Message, room_of
from engine.kernels.reference.reduction import Reduction
from engine.kernels.reference.turns import Turns
from engine.kernels.reference.wires import Wire, kind_of_wire
from engine.network.graph import Network
from engine.network.wafer import Tree, WaferPlan


class Transport:
    """Carries messages over a network.

    On a wafer the ``plan`` has the NPUs that the ranks are at, and the switches that reduce for
    some lines.  Any other group needs a switch that all its members share.
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
        self.clock, self._network = clock, network
        self._router = router_of(network, model)
        self._limit = model.window
        self._windows: dict[tuple[int, int], simpy.Resource] = {}
        kind = kind_of_wire(model)
        self.wires = [kind(clock, link, model, record=record) for link in network.links]
        self._places: Sequence[int] = plan.places if plan else range(network.n_npus)
        self._rank_at = {npu: rank for rank, npu in enumerate(self._places)}
        self._trees: dict[frozenset[int], tuple[Tree, Turns, int]] = {}
        for rounds in plan.rounds if plan else ():
            turns = Turns()
            for number, trees in enumerate(rounds):
                self._trees |= {line: (tree, turns, number) for line, tree in trees.items()}
        self.model, self.n_messages = model, 0

    def run(self) -> None:
        """Run until nothing is planned any more."""
        self.clock.run_out()

    def accounts(self, end: int) -> tuple[LinkAccount, ...]:
        """What each link has done by ``end``."""
        return tuple(wire.account(end) for wire in self.wires)

    def traffic(self) -> None:
        """Nothing: a link knows its messages, and nobody follows one over several links."""

    def blocked(self) -> list[str]:
        """The links that stand still for ever, each with the message that it holds."""
        return [
            f"{wire.link.name}: a message of {wire.blocked!r}"
            for wire in self.wires
            if wire.blocked
        ]

    def send(
        self,
        source: int,
        target: int,
        message: Message,
        *,
        dim: int,
        way: int,
        left: Callable[[], None],
        arrived: Callable[[int], None],
    ) -> None:
        """Send a message.  ``left`` is called when its last byte is on the first link, ``arrived``
        when it has reached ``target``, with the ps of latency that are still to pass; ``way``
        chooses between two equally short routes."""
        ends = self._places[source], self._places[target]
        route = [self.wires[i] for i in self._router.route(*ends, way)]
        late = sum(wire.link.latency for wire in route)
        parts = _parts(route, message.n_bytes)
        self.n_messages += parts
        check_number(self.n_messages, self.model)  # parts are known only here
        part = message._replace(n_bytes=message.n_bytes / parts)
        left, there = _after(parts, left), _after(parts, partial(arrived, late))
        for _ in range(parts):
            if self._limit is None:
                self._travel(route, part, left, there)
            else:
                window = self._window(source, dim, self._limit)
                self._travel_in_window(window, route, part, left, there, late)

    def through_switch(
        self,
        sources: Sequence[int],
        up: Message,
        targets: Sequence[int],
        down: Message,
        *,
        left: Callable[[int], None],
        arrived: Callable[[int, int], None],
    ) -> None:
        """Every source sends ``up`` to its group's switch, or tree of switches, which reduces what
        it gets as it comes (or multicasts what a single source sends), and ``down`` goes to each
        target.  Switches buffer nothing, so no room can run out.  ``left`` is called with the
        source, ``arrived`` with the target and the ps of latency still to pass."""
        senders, receivers = ([self._places[rank] for rank in ends] for ends in (sources, targets))
        members = frozenset((*senders, *receivers))
        if members not in self._trees:
            switch = shared_switch(self._network, self.model, members)
            tree = Tree({switch: tuple(members)})
            self._trees[members] = tree, Turns(), 0
        tree, turns, round_ = self._trees[members]
        through = _after(len(receivers), turns.leave)

        def arrive(npu: int, late: int) -> None:
            through()
            arrived(self._rank_at[npu], late)

        def gone(npu: int) -> None:
            left(self._rank_at[npu])

        reduction = Reduction(self, tree, senders, up, receivers, down, gone, arrive)
        turns.ask(round_, members, reduction.start)

    def wire(self, source: Node, target: Node) -> Wire:
        """The link between two neighbours."""
        return self.wires[self._network.number[source, target]]

    def _travel(
        self,
        route: list[Wire],
        message: Message,
        left: Callable[[], None],
        arrived: Callable[[], None],
    ) -> None:
        """Take a message over its route, one link after another."""
        self._enter(route, 0, message, left, arrived)

    def _enter(
        self,
        route: list[Wire],
        at: int,
        message: Message,
        left: Callable[[], None],
        arrived: Callable[[], None],
        *feeds: Crossing,
    ) -> None:
        wire = route[at]
        if at + 1 == len(route):
            self.cross(wire, message, feeds, left, lambda _: arrived(), last=True)
            return
        leave = self._giving_back(wire, message)
        go_on = partial(self._enter, route, at + 1, message, leave, arrived)
        self.cross(wire, message, feeds, left, go_on, room=wire.room)

    def _travel_in_window(
        self,
        window: simpy.Resource,
        route: list[Wire],
        message: Message,
        left: Callable[[], None],
        arrived: Callable[[], None],
        late: int,
    ) -> None:
        permit = window.request()

        def close() -> None:
            self.clock.later(late, release)
            arrived()

        def release() -> None:
            window.release(permit)

        permit.callbacks.append(lambda _: self._travel(route, message, left, close))

    def cross(
        self,
        wire: Wire,
        message: Message,
        feeds: Sequence[Crossing],
        left: Callable[[], None],
        passed: Callable[[Crossing], None],
        *,
        room: simpy.Container | None = None,
        last: bool = False,
    ) -> None:
        """Take a message over a link (see :class:`Crossing`)."""
        Crossing(self.clock, wire, message, feeds, left, passed, room=room, last=last)

    def _giving_back(self, wire: Wire, message: Message) -> Callable[[], None]:
        """What gives the room at the link's far end back, when the latency has passed, too."""
        room, latency = wire.room, wire.link.latency
        if room is None:
            return _nothing

        def give() -> None:
            room.put(room_of(message))

        return lambda: self.clock.later(latency, give)

    def _window(self, npu: int, dim: int, limit: int) -> simpy.Resource:
        if (npu, dim) not in self._windows:
            self._windows[npu, dim] = simpy.Resource(self.clock, limit)
        return self._windows[npu, dim]


def _parts(route: Sequence[Wire], n_bytes: float) -> int:
    rooms = [wire.room.capacity for wire in route[:-1] if wire.room is not None]
    return max(1, math.ceil(2 * n_bytes / min(rooms))) if rooms else 1


def _nothing() -> None:
    pass


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
