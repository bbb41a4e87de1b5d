"""The operators of every rank: when they become ready, run, and end.

The rules are those of :mod:`engine.kernels.phase.kernel`, told once more in plain Python: each rank
has streams (one computes, the others are communication streams) that run one operator at a time, in
the order in which operators become ready, or in that of the graph; whatever ends at an instant ends
together, and only then do operators start, in the order of the graphs.
"""

import bisect
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from engine.kernels.phase.state import DONE, QUEUED, RUNNING, WAITING
from engine.kernels.reference.clock import Clock
from engine.kernels.reference.edge_io import EdgeTraffic
from engine.kernels.reference.ranks import RankAccount
from engine.kernels.reference.servers import Servers
from engine.lower.program import NO_SERVICE, NodeKind, Program, StreamOrder


class _Node(NamedTuple):
    """What is read of the program's nodes, which hold an operator each; ``cls`` is the rank."""

    kind: int
    cls: int
    stream: int
    key: int
    flow: int
    waits: int
    next_start: int
    next_end: int
    tally: int
    lookahead: int
    service: int
    duration: int
    memory: int


class Operators:
    """All nodes of a program in which every rank is a class of its own.

    ``touch`` asks for :meth:`settle` at the end of the instant; ``start_flow(flow)`` is called when
    all members of a flow have arrived, and answers with :meth:`end_part` for each of its ranks.
    ``edge`` carries accesses over a wafer's links, and answers with :meth:`finish`.
    """

    def __init__(
        self,
        clock: Clock,
        program: Program,
        accounts: Sequence[RankAccount],
        touch: Callable[[], None],
        start_flow: Callable[[int], None],
        edge: EdgeTraffic | None,
    ) -> None:
        s = program.structure
        self._servers = Servers(clock, s, touch)
        self._clock, self._accounts = clock, accounts
        self._touch, self._start_flow, self._edge = touch, start_flow, edge
        self._by_key = s.shape.stream_order == StreamOrder.KEY
        self._nodes = [_Node(*row) for row in s.nodes[list(_Node._fields)].tolist()]
        self._following = s.following.tolist()
        starts, ends = s.flows["member_start"].tolist(), s.flows["member_end"].tolist()
        members = s.members["node"].tolist()
        self._members = [members[a:b] for a, b in zip(starts, ends, strict=True)]
        self._receiver = s.flows["receiver"].tolist()
        self._arrived = [0] * len(s.flows)
        self._waits = [node.waits for node in self._nodes]
        self._queues: dict[int, deque[int]] = defaultdict(deque)  # of streams
        self._open: dict[int, None] = {}  # streams that may start something
        self._ready = [number for number, node in enumerate(self._nodes) if not node.waits]
        self.runs: dict[int, int] = {}  # stream -> node
        self.state = [WAITING] * len(self._nodes)
        self.start = [-1] * len(self._nodes)
        self.end = [-1] * len(self._nodes)

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
        self._servers.settle()

    def end_part(self, flow: int, rank: int) -> None:
        """``rank`` has done its part of a flow; a message from point to point is then delivered."""
        for number in self._members[flow]:
            if self._nodes[number].cls == rank:
                self.finish(number)
        receiver = self._receiver[flow]
        if receiver >= 0 and self.state[receiver] == RUNNING:
            self.finish(receiver)

    def _start(self, number: int) -> None:
        node = self._nodes[number]
        account = self._accounts[node.cls]
        account.until(self._clock.ps)
        self.state[number], self.start[number] = RUNNING, self._clock.ps
        if node.kind == NodeKind.COMPUTE:
            account.computing = True
            self._clock.later(node.duration, partial(self.finish, number))
            return
        if node.kind == NodeKind.HOST:
            self._clock.later(node.duration, partial(self.finish, number))
            return
        account.in_flight[node.tally] += 1
        if node.kind == NodeKind.ACCESS:
            if self._edge and self._edge.carries(number):
                self._edge.arrive(number)
            elif node.service == NO_SERVICE:
                self._clock.later(node.duration, partial(self.finish, number))
            else:
                self._servers.begin(node.service, partial(self.finish, number))
            return
        if node.kind == NodeKind.RECEIVE:
            if self.state[self._members[node.flow][0]] == DONE:
                self.finish(number)
            return
        self._arrived[node.flow] += 1
        if self._arrived[node.flow] == len(self._members[node.flow]):
            self._start_flow(node.flow)

    def finish(self, number: int) -> None:
        """An operator has ended; what waited for it may be ready."""
        node = self._nodes[number]
        account = self._accounts[node.cls]
        account.until(self._clock.ps)
        account.end = self._clock.ps
        self.state[number], self.end[number] = DONE, self._clock.ps
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
        self._touch()
