"""The I/O controllers at a wafer's edge: what ranks load and store, piece by piece over its links.

A transfer starts when all that share it have arrived.  Its pieces take their turns on links as
messages of collectives do, behind those that go first.  A rank has loaded when all its pieces are
there, and all have stored when the controllers have every piece of the sum; the latencies of the
way pass after that.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import partial

from engine.kernels.messages.io_plan import Train, Transfer, io_plan
from engine.kernels.messages.precedence import OF_OTHERS
from engine.kernels.reference.crossing import Crossing
from engine.kernels.reference.links import LinkTransport
from engine.kernels.reference.transport import Message, Transport
from engine.lower.program import Program
from engine.network.wafer import NOBODY


class EdgeTraffic:
    """What a program's ranks load and store over the wafer's links, if there is any; ``done`` is
    called with each node whose access ends."""

    def __init__(self, program: Program, transport: Transport, done: Callable[[int], None]) -> None:
        self._names, self._done, transfers = program.names.node, done, list[Transfer]()
        if isinstance(transport, LinkTransport):  # carriers take collectives only
            self._transport = transport
            transfers = io_plan(program, transport.network, transport.plan)
        self._of = {node: transfer for transfer in transfers for node in transfer.nodes}
        self._arrived: Counter[int] = Counter()  # by the transfer's first node

    def carries(self, node: int) -> bool:
        """Whether an access goes over the wafer's links."""
        return node in self._of

    def arrive(self, node: int) -> None:
        """A rank has come to its access."""
        transfer = self._of[node]
        first, trains = transfer.nodes[0], transfer.trains
        self._arrived[first] += 1
        if self._arrived[first] < len(transfer.nodes):
            return
        self._transport.count(trains.n_messages)
        piece = Message(transfer.n_bytes * trains.share, self._names[first], (OF_OTHERS, 0))
        missing = [trains.n_pieces] * (1 if transfer.store else len(transfer.nodes))
        got = partial(self._got, transfer, missing)
        for train in trains.trains:
            _RunningTrain(self._transport, train, piece, got).send_next()

    def _got(self, transfer: Transfer, missing: list[int], place: int) -> None:
        """A piece has come to an end of its tree, perhaps to an NPU that has no use for it."""
        if place >= len(missing):
            return
        missing[place] -= 1
        if missing[place]:
            return
        for member in range(len(transfer.nodes)) if transfer.store else (place,):
            done = partial(self._done, transfer.nodes[member])
            self._transport.clock.later(transfer.trains.late[member], done)


class _RunningTrain:
    """A train under way, with one piece on its links at a time."""

    def __init__(
        self,
        transport: LinkTransport,
        train: Train,
        piece: Message,
        got: Callable[[int], None],
    ) -> None:
        self._transport, self._tree, self._piece = transport, train.tree, piece
        self._got, self._n_left = got, train.pieces
        self._n_ends = sum(hop.gets != NOBODY for hop in train.tree.hops)

    def send_next(self) -> None:
        """Send the next piece."""
        self._n_left -= 1
        self._missing = self._n_ends
        self._begun: dict[tuple[int, ...], list[Crossing]] = defaultdict(list)  # by what is next
        self._send(self._tree.first, ())

    def _send(self, places: Sequence[int], feeds: Sequence[Crossing]) -> None:
        """Send the piece over the hops at some places of the tree."""
        for place in places:
            hop = self._tree.hops[place]
            cross = partial(Crossing, self._transport.wires[hop.link], self._piece, feeds)
            if hop.stored or not hop.next:
                cross(_ignore, partial(self._store, place), last=True)
            else:
                cross(partial(self._end, place), partial(self._pass_on, place))

    def _store(self, place: int, crossing: Crossing) -> None:
        self._end(place)
        self._pass_on(place, crossing)

    def _pass_on(self, place: int, crossing: Crossing) -> None:
        """What passes over a hop has begun to come, or come if it is stored."""
        following = self._tree.hops[place].next
        if not following:
            return
        begun = self._begun[following]
        begun.append(crossing)
        if len(begun) == self._tree.hops[following[0]].awaits:
            self._send(following, begun)

    def _end(self, place: int) -> None:
        """All of a piece has come over a hop."""
        gets = self._tree.hops[place].gets
        if gets == NOBODY:
            return
        self._missing -= 1
        self._got(gets)
        if not self._missing and self._n_left:
            self.send_next()


def _ignore() -> None:
    pass
