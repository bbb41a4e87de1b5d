"""The operators of every rank: when they become ready, run, and end.

The rules are those of :mod:`engine.kernels.phase.kernel`, written again in plain Python: each rank
has streams (one computes, the others are communication streams) that run one operator at a time, in
the order in which operators become ready, or in the order of the graph.  All intervals that end at
an instant end together, and only then do operators start, in the order of the graphs.

**Servers of memories** that several ranks share (:mod:`engine.kernels.core.accounts`) are written
again, too.  A server with B bytes/s serves n accesses in flight at B / n each; here, where an
access has only its time in isolation, it takes n times as long.

**An interconnect's I/O controllers** send and receive the bytes that ranks load and store, piece by
piece over the interconnect's links.  A transfer starts when all ranks that share it have arrived.
Its pieces queue at links as messages of collectives do, behind more urgent messages.  A rank has
loaded when all its pieces have arrived, and all have stored when the controllers have every piece
of the sum; the latencies of the route pass after that.
"""

import bisect
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from dimsweep.engine.kernels.core.tables import DONE, QUEUED, RUNNING, WAITING
from dimsweep.engine.kernels.messages.phases import OF_OTHERS
from dimsweep.engine.kernels.messages.program import round_ps
from dimsweep.engine.kernels.messages.routes import Launch, Train, Transfer, io_plan
from dimsweep.engine.kernels.reference.clock import Clock
from dimsweep.engine.kernels.reference.exchange import Job, World
from dimsweep.engine.kernels.reference.links import LinkTransport, RunningCascade
from dimsweep.engine.kernels.reference.ports import Flows
from dimsweep.engine.kernels.reference.transport import Message, Transport
from dimsweep.engine.lower.program import NO_SERVICE, NodeKind, Program, StreamOrder, Structure


@dataclass(eq=False)
class _Access:
    own: float  # ps that it takes at least
    uses: Sequence[tuple[int, int, float]]  # server, NPUs, ps that one of them takes alone
    latency: int
    done: Callable[[], None]
    since: int
    takes: float = 0.0  # ps, of all of it
    left: float = 1.0
    due: int = -1  # when its bytes have moved, as its servers are now


class Servers:
    """All memory servers of a program, and the accesses in flight that they serve."""

    def __init__(self, clock: Clock, s: Structure) -> None:
        self._clock, self._services, self._uses = clock, s.services, s.server_uses.tolist()
        self._n_served: Counter[int] = Counter()  # NPUs, by server
        self._in_flight: dict[_Access, None] = {}
        self._changed = False

    def begin(self, number: int, done: Callable[[], None]) -> None:
        """Begin an access of service ``number``; call ``done`` when it ends."""
        service = self._services[number]
        uses = self._uses[service["use_start"] : service["use_end"]]
        access = _Access(service["own"], uses, int(service["latency"]), done, self._clock.ps)
        self._in_flight[access] = None
        self._serve(access, 1)

    def settle(self) -> None:
        """Recompute the server share of every access in flight, and replan its end."""
        if not self._changed:
            return
        self._changed, now = False, self._clock.ps
        for access in self._in_flight:
            takes = max(access.own, *(self._n_served[i] * alone for i, _, alone in access.uses))
            if takes == access.takes:
                continue
            if access.takes:
                access.left -= (now - access.since) / access.takes
            access.since, access.takes = now, takes
            delay = round_ps(max(access.left, 0.0) * takes)
            access.due = now + delay
            self._clock.call_later(delay, partial(self._end, access))

    def _end(self, access: _Access) -> None:
        """End the transfer of an access, unless its share has changed since this was planned."""
        if access not in self._in_flight or access.due != self._clock.ps:
            return
        del self._in_flight[access]
        self._serve(access, -1)
        if access.latency:
            self._clock.call_later(access.latency, access.done)
        else:
            access.done()

    def _serve(self, access: _Access, sign: int) -> None:
        for server, npus, _ in access.uses:
            self._n_served[server] += sign * npus
        self._changed = True
        self._clock.touch()


class EdgeTraffic:
    """The loads and stores of ranks over the links of an interconnect.

    ``done`` is called with each node (operator) whose access ends.
    """

    def __init__(self, program: Program, transport: Transport, done: Callable[[int], None]) -> None:
        self._names, self._done, transfers = program.names.node, done, list[Transfer]()
        if isinstance(transport, LinkTransport):  # carriers take collectives only
            self._transport = transport
            transfers = io_plan(program, transport.network, transport.plan)
        self._of = {node: transfer for transfer in transfers for node in transfer.nodes}
        self._arrived: Counter[int] = Counter()  # by the transfer's first node

    def carries(self, node: int) -> bool:
        """Return whether the memory access of a node uses the interconnect's links."""
        return node in self._of

    def arrive(self, node: int) -> None:
        """Register a rank at the load or store that it shares; the last one starts the transfer."""
        transfer = self._of[node]
        first, trains = transfer.nodes[0], transfer.trains
        self._arrived[first] += 1
        if self._arrived[first] < len(transfer.nodes):
            return
        self._transport.count(trains.n_messages)
        piece = Message(transfer.n_bytes * trains.share, self._names[first], (OF_OTHERS, 0))
        missing = [trains.n_pieces] * (1 if transfer.store else len(transfer.nodes))
        got = partial(self._receive_piece, transfer, missing)
        for train in trains.trains:
            self._start_transfer(train, train.pieces, piece, got)

    def _start_transfer(
        self, train: Train, left: int, piece: Message, got: Callable[[int], None]
    ) -> None:
        """Send the next of ``left`` pieces of a train, which has one piece in flight."""
        missing = train.n_ends

        def finish(launch: Launch) -> None:
            nonlocal missing
            missing -= 1
            got(launch.who)
            if not missing and left > 1:
                self._start_transfer(train, left - 1, piece, got)

        RunningCascade(self._transport.wires, train.cascade, lambda _: piece, finish).start()

    def _receive_piece(self, transfer: Transfer, missing: list[int], place: int) -> None:
        """Count a piece at an end of its tree, which may be an NPU that does not need it."""
        if place >= len(missing):
            return
        missing[place] -= 1
        if missing[place]:
            return
        for member in range(len(transfer.nodes)) if transfer.store else (place,):
            done = partial(self._done, transfer.nodes[member])
            self._transport.clock.call_later(transfer.trains.late[member], done)


class _Node(NamedTuple):
    """The fields of the program's nodes that are read here; ``cls`` is the rank."""

    kind: int
    cls: int
    stream: int
    key: int
    flow: int
    next_start: int
    next_end: int
    tally: int
    service: int
    duration: int


class Operators:
    """All operators of a program with one class per rank.

    ``submit`` queues the jobs (phases and messages) of their flows at ports.
    """

    def __init__(self, program: Program, world: World, submit: Callable[[Job], None]) -> None:
        s, n = program.structure, len(program.structure.nodes)
        self._world, self.servers = world, Servers(world.clock, s)
        self._flows = Flows(program, world, submit, self._end_part)
        self._edge = EdgeTraffic(program, world.transport, self._end)
        self._by_key = s.shape.stream_order == StreamOrder.KEY
        self._nodes = [_Node(*row) for row in s.nodes[list(_Node._fields)].tolist()]
        self._following = s.following.tolist()
        starts, ends = s.flows["member_start"].tolist(), s.flows["member_end"].tolist()
        members = s.members["node"].tolist()
        self._members = [members[a:b] for a, b in zip(starts, ends, strict=True)]  # nodes, by flow
        self._receiver = s.flows["receiver"].tolist()
        self._n_arrived: Counter[int] = Counter()  # members, by flow
        self._waits = s.nodes["waits"].tolist()  # for how many others
        self._queues: dict[int, deque[int]] = defaultdict(deque)  # of streams
        self._open: dict[int, None] = {}  # streams that may start something
        self._ready = [number for number, waits in enumerate(self._waits) if not waits]
        self.runs: dict[int, int] = {}  # stream -> node
        self.state, self.start, self.end = [WAITING] * n, [-1] * n, [-1] * n

    def settle(self) -> None:
        """Queue the operators that became ready on their streams, and start idle streams."""
        ready, self._ready = self._ready, []
        starting = []
        for number in sorted(ready, key=lambda number: (self._nodes[number].key, number)):
            self.state[number] = QUEUED
            node = self._nodes[number]
            if node.kind == NodeKind.RECEIVE:
                starting.append(number)
                continue
            queue = self._queues[node.stream]
            if self._by_key:
                bisect.insort(queue, number, key=lambda waiting: self._nodes[waiting].key)
            else:
                queue.append(number)
            self._open[node.stream] = None
        opened, self._open = self._open, {}
        for stream in opened:
            if stream not in self.runs and self._queues[stream]:
                self.runs[stream] = self._queues[stream].popleft()
                starting.append(self.runs[stream])
        for number in starting:
            self._start(number)

    def _start(self, number: int) -> None:
        node, clock = self._nodes[number], self._world.clock
        account = self._world.accounts[node.cls]
        account.book()
        self.state[number], self.start[number] = RUNNING, clock.ps
        if node.kind == NodeKind.COMPUTE:
            account.computing = True
        elif node.kind != NodeKind.HOST:
            account.in_flight[node.tally] += 1
        end = partial(self._end, number)
        if node.kind == NodeKind.RECEIVE:
            if self.state[self._members[node.flow][0]] == DONE:
                end()
        elif node.kind == NodeKind.ACCESS and self._edge.carries(number):
            self._edge.arrive(number)
        elif node.kind == NodeKind.ACCESS and node.service != NO_SERVICE:
            self.servers.begin(node.service, end)
        elif node.kind in (NodeKind.COMPUTE, NodeKind.HOST, NodeKind.ACCESS):
            clock.call_later(node.duration, end)
        else:
            self._n_arrived[node.flow] += 1
            if self._n_arrived[node.flow] == len(self._members[node.flow]):
                self._flows.start(node.flow)

    def _end_part(self, flow: int, rank: int) -> None:
        """End a rank's part in a flow; for a point-to-point message, end the receiver, too."""
        for number in self._members[flow]:
            if self._nodes[number].cls == rank:
                self._end(number)
        receiver = self._receiver[flow]
        if receiver >= 0 and self.state[receiver] == RUNNING:
            self._end(receiver)

    def _end(self, number: int) -> None:
        """End an operator and make its successors ready."""
        node, clock = self._nodes[number], self._world.clock
        account = self._world.accounts[node.cls]
        account.book()
        account.end = self.end[number] = clock.ps
        self.state[number] = DONE
        if node.kind == NodeKind.COMPUTE:
            account.computing = False
        elif node.kind != NodeKind.HOST:
            account.in_flight[node.tally] -= 1
        if node.stream >= 0:
            del self.runs[node.stream]
            self._open[node.stream] = None
        for following in self._following[node.next_start : node.next_end]:
            self._waits[following] -= 1
            if not self._waits[following]:
                self._ready.append(following)
        clock.touch()
