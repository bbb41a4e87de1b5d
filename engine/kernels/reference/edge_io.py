"""The I/O controllers at a wafer's edge: what ranks load and store, piece by piece over its links.

A transfer starts when all that share it have arrived.  Its pieces take their turns on links as
messages of collectives do, behind those that go first.  A rank has loaded when all its pieces are
there, and all have stored when the controllers have every piece of the sum; the latencies of the
way pass after that.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from engine.kernels.messages.count import check_number
from engine.kernels.messages.io_plan import Train, Transfer
from engine.kernels.messages.precedence import precedence_of
from engine.kernels.reference.crossing import Crossing, Message
from engine.kernels.reference.transport import Transport
from engine.network.wafer import NOBODY


class EdgeTraffic:
    """``done`` is called with each node whose access ends."""

    def __init__(
        self,
        transport: Transport,
        transfers: Sequence[Transfer],
        name: Callable[[int], str],
        done: Callable[[int], None],
    ) -> None:
        self._transport, self._name, self._done = transport, name, done
        self._of = {node: transfer for transfer in transfers for node in transfer.nodes}
        self._arrived: Counter[int] = Counter()  # by the first node

    def carries(self, node: int) -> bool:
        """Whether an access goes over the wafer's links."""
        return node in self._of

    def arrive(self, node: int) -> None:
        """A rank has come to its access."""
        transfer = self._of[node]
        self._arrived[transfer.nodes[0]] += 1
        if self._arrived[transfer.nodes[0]] < len(transfer.nodes):
            return
        transport = self._transport
        transport.n_messages += transfer.trains.n_messages
        check_number(transport.n_messages, transport.model)
        piece = transfer.n_bytes * transfer.trains.share
        order = precedence_of("data"), 0  # behind tensor parallelism and pipelines
        message = Message(piece, self._name(transfer.nodes[0]), order)
        running = _Running(transport, transfer, self._done)
        for train in transfer.trains.trains:
            _RunningTrain(transport, train, message, running.got).go()


class _Running:
    """A transfer under way: what is still missing, by whom."""

    def __init__(
        self, transport: Transport, transfer: Transfer, done: Callable[[int], None]
    ) -> None:
        self._later, self._transfer, self._done = transport.clock.later, transfer, done
        self._missing = [transfer.trains.n_pieces] * (1 if transfer.store else len(transfer.nodes))

    def got(self, place: int) -> None:
        """A piece has come to an end of its tree, perhaps to an NPU that has no use for it."""
        if place >= len(self._missing):
            return
        self._missing[place] -= 1
        if self._missing[place]:
            return
        members = range(len(self._transfer.nodes)) if self._transfer.store else (place,)
        for member in members:
            node = self._transfer.nodes[member]
            self._later(self._transfer.trains.late[member], partial(self._done, node))


class _RunningTrain:
    """A train under way, with one piece on its links at a time."""

    def __init__(
        self, transport: Transport, train: Train, message: Message, got: Callable[[int], None]
    ) -> None:
        self._transport, self._tree, self._message = transport, train.tree, message
        self._got, self._left = got, train.pieces
        self._ends = sum(hop.gets != NOBODY for hop in train.tree.hops)

    def go(self) -> None:
        """Send the next piece."""
        self._left -= 1
        self._missing = self._ends
        self._begun: dict[tuple[int, ...], list[Crossing]] = {}  # what has begun to come, by next
        self._send(self._tree.first, ())

    def _send(self, places: Sequence[int], feeds: Sequence[Crossing]) -> None:
        for place in places:
            hop = self._tree.hops[place]
            wire = self._transport.wires[hop.link]
            if hop.stored or not hop.next:
                come = partial(self._come, place)
                self._transport.cross(wire, self._message, feeds, _ignore, come, last=True)
            else:
                there, passed = partial(self._there, place), partial(self._go_on, place)
                self._transport.cross(wire, self._message, feeds, there, passed)

    def _come(self, place: int, crossing: Crossing) -> None:
        self._there(place)
        self._go_on(place, crossing)

    def _go_on(self, place: int, crossing: Crossing) -> None:
        """What passes over a hop has begun to come, or come if it is stored."""
        following = self._tree.hops[place].next
        if not following:
            return
        begun = self._begun.setdefault(following, [])
        begun.append(crossing)
        if len(begun) == self._tree.hops[following[0]].awaits:
            self._send(following, begun)

    def _there(self, place: int) -> None:
        """All of a piece has come over a hop."""
        gets = self._tree.hops[place].gets
        if gets == NOBODY:
            return
        self._missing -= 1
        self._got(gets)
        if not self._missing and self._left:
            self.go()


def _ignore() -> None:
    pass
