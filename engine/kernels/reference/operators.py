"""The operators of every rank: when they become ready, run, and end.

The rules are those of :mod:`engine.kernels.phase.kernel`, told once more in plain Python: each rank
has streams (one computes, the others are communication streams) that run one operator at a time, in
the order in which operators become ready, or in that of the graph; whatever ends at an instant ends
together, and only then do operators start, in the order of the graphs.
"""

import bisect
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from dimsweep.engine.kernels.core.none import DONE, QUEUED, RUNNING, WAITING
from dimsweep.engine.kernels.reference.edge_io import EdgeTraffic
from dimsweep.engine.kernels.reference.exchange import Job, World
from dimsweep.engine.kernels.reference.flows import Flows
from dimsweep.engine.kernels.reference.servers import Servers
from dimsweep.engine.lower.program import NO_SERVICE, NodeKind, Program, StreamOrder


class _Node(NamedTuple):
    """What is read of the program's nodes, which hold an operator each; ``cls`` is the rank."""

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
    """All nodes of a program in which every rank is a class of its own; ``submit`` queues what
    their flows do."""

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
        """Ready operators join their streams' queues; idle streams start the first."""
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
            clock.later(node.duration, end)
        else:
            self._n_arrived[node.flow] += 1
            if self._n_arrived[node.flow] == len(self._members[node.flow]):
                self._flows.start(node.flow)

    def _end_part(self, flow: int, rank: int) -> None:
        """``rank`` has done its part of a flow; a message from point to point is then delivered."""
        for number in self._members[flow]:
            if self._nodes[number].cls == rank:
                self._end(number)
        receiver = self._receiver[flow]
        if receiver >= 0 and self.state[receiver] == RUNNING:
            self._end(receiver)

    def _end(self, number: int) -> None:
        """An operator has ended; what waited for it may be ready."""
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
