"""The I/O controllers at a wafer's edge: what ranks load and store, piece by piece over its links.

A transfer starts when all that share it have arrived.  Its pieces take their turns on links as
messages of collectives do, behind those that go first.  A rank has loaded when all its pieces are
there, and all have stored when the controllers have every piece of the sum; the latencies of the
way pass after that.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial

from dimsweep.engine.kernels.messages.cascades import Launch
from dimsweep.engine.kernels.messages.io_plan import Train, Transfer, io_plan
from dimsweep.engine.kernels.messages.precedence import OF_OTHERS
from dimsweep.engine.kernels.reference.cascade import RunningCascade
from dimsweep.engine.kernels.reference.links import LinkTransport
from dimsweep.engine.kernels.reference.transport import Message, Transport
from dimsweep.engine.lower.program import Program


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
        """A rank has come to its access; if all have that share it, the transfer starts."""
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
            self._go(train, train.pieces, piece, got)

    def _go(self, train: Train, left: int, piece: Message, got: Callable[[int], None]) -> None:
        """Send the next piece of a train, of which some are ``left``: it has one piece on its links
        at a time."""
        missing = train.n_ends

        def over(launch: Launch) -> None:
            nonlocal missing
            missing -= 1
            got(launch.who)
            if not missing and left > 1:
                self._go(train, left - 1, piece, got)

        RunningCascade(self._transport.wires, train.cascade, lambda _: piece, over).start()

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
