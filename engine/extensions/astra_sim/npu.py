"""ASTRA-sim's system layer on one NPU: collectives, replayed custom collectives, and memory."""

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.extensions.astra_sim.algorithms import (
    ALL_GATHER,
    REDUCE_SCATTER,
    Chunk,
    Costs,
    DoubleBinaryTree,
    Exchange,
    Phase,
    Planner,
    final_size,
)
from dimsweep.engine.extensions.astra_sim.links import Aware, Bus, Clock, Timers, Unaware
from dimsweep.engine.formats.astra_sim import Inputs, RemoteMemory
from dimsweep.engine.formats.chakra.node import Node
from dimsweep.engine.formats.chakra.trace import NodeType
from dimsweep.engine.kinds import CollectiveKind


def replayed(node: Node) -> int:
    """Return the recorded ns of a node; 1 (a cycle) without a duration, as in ASTRA-sim."""
    return node.duration or 1


class Replay:
    """The run of one rank's trace of a custom collective; ``tag`` separates its messages."""

    def __init__(
        self, npu: "Npu", tag: object, nodes: Sequence[Node], *, done: Callable[[], None]
    ) -> None:
        self._npu, self._tag, self._done = npu, tag, done
        self._nodes = {node.id: node for node in nodes}
        self._waits = {node.id: len(node.dependencies) for node in nodes}
        self._left = len(nodes)

    def start(self) -> None:
        for i, count in list(self._waits.items()):
            if not count:
                self._issue(self._nodes[i])

    def _issue(self, node: Node) -> None:
        npu, tag, ended = self._npu, (self._tag, node.tag), partial(self._end, node)
        if node.type is NodeType.COMM_SEND:
            npu.wires.send(npu, node.target, tag, node.size, ended)
        elif node.type is NodeType.COMM_RECV:
            npu.wires.receive(npu, node.source, tag, node.size, ended)
        elif node.type is NodeType.COMP:
            npu.timers.register(replayed(node), ended)
        else:
            raise DimsweepError(
                f"a custom collective cannot contain a node of type {node.type.name}",
                where=f"node {node.name!r}",
                hint="use sends, receives and computations only",
                code="unsupported",
            )

    def _end(self, node: Node) -> None:
        self._left -= 1
        for other in self._nodes.values():
            if node.id in other.dependencies:
                self._waits[other.id] -= 1
                if not self._waits[other.id]:
                    self._issue(other)
        if not self._left:
            self._done()


_GROUP_DELAY = 10  # ns, whatever endpoint-delay says
_CONTROL_BYTES = 8192  # of a rendezvous
Call = Callable[[], None]


def costs_of(inputs: Inputs, *, flat: bool) -> Costs:
    """Return the delays of a phase's packets; ``flat``: the phase is of a communicator group."""
    system = inputs.system
    bandwidth = system.local_memory_bandwidth

    def reduction(n_bytes: int) -> int:
        return 3 * int(n_bytes / bandwidth * 1e9) if bandwidth else 0

    endpoint = int(system.endpoint_delay * inputs.options.injection_scale)
    return Costs(_GROUP_DELAY if flat else endpoint, reduction, flat)


class Wires:
    """Matches sends with receives of equal tag, source, target and size, in the order of both.

    ``kind`` gives the NPU that simulates each rank: a message to a rank goes to that NPU.
    """

    def __init__(self, carrier: Aware | Unaware, kind: Sequence[int], *, rendezvous: bool) -> None:
        self._carrier, self._kind, self._rendezvous = carrier, kind, rendezvous
        self._waiting: dict[tuple[object, ...], deque[Call]] = defaultdict(deque)
        self._come: dict[tuple[object, ...], int] = defaultdict(int)

    def send(self, npu: "Npu", target: int, tag: object, n_bytes: int, sent: Call) -> None:
        """Send a message; ``sent`` is called when it is delivered."""
        inject = partial(self._inject, npu, target, tag, n_bytes, sent)
        if self._rendezvous:
            self._expect(npu, target, ("control", tag), _CONTROL_BYTES, inject)
        else:
            inject()

    def receive(self, npu: "Npu", source: int, tag: object, n_bytes: int, received: Call) -> None:
        """Expect a message from ``source``; ``received`` is called when it has arrived."""
        expect = partial(self._expect, npu, source, tag, n_bytes, received)
        if self._rendezvous:
            self._inject(npu, source, ("control", tag), _CONTROL_BYTES, expect)
        else:
            expect()

    def _inject(self, npu: "Npu", target: int, tag: object, n_bytes: int, sent: Call) -> None:
        key = (tag, self._kind[npu.rank], self._kind[target], n_bytes)

        def arrived() -> None:
            sent()
            waiting = self._waiting.get(key)
            if waiting:
                waiting.popleft()()
            else:
                self._come[key] += 1

        self._carrier.send(npu.rank, target, n_bytes, arrived)

    def _expect(self, npu: "Npu", source: int, tag: object, n_bytes: int, received: Call) -> None:
        key = (tag, self._kind[source], self._kind[npu.rank], n_bytes)
        if self._come[key]:
            self._come[key] -= 1
            npu.timers.register(0, received)
        else:
            self._waiting[key].append(received)


@dataclass(eq=False)
class Stream:
    """A chunk in flight on one NPU, in one of its phases."""

    tag: object
    priority: int
    chunk: Chunk
    flat: bool
    done: Call
    at: int = 0
    running: bool = False

    @property
    def phase(self) -> Phase:
        return self.chunk.phases[self.at]

    @property
    def n_left(self) -> int:
        """Number of phases that the chunk has left, including the current one."""
        return len(self.chunk.phases) - self.at


@dataclass
class _Queue:
    streams: list[Stream]
    running: int = 0


class Npu:
    """One simulated NPU: its timers, its queues of chunks, and its collectives."""

    def __init__(
        self,
        rank: int,
        clock: Clock,
        wires: Wires,
        inputs: Inputs,
        planner: Planner,
        group_names: Mapping[str, Hashable],
    ) -> None:
        self.rank, self.wires, self.planner = rank, wires, planner
        self.timers = Timers(clock)
        self._group_names = group_names
        self._system = system = inputs.system
        self._limit = -(-system.active_chunks // inputs.options.queues_per_dim)
        self._queues: dict[int, _Queue] = defaultdict(lambda: _Queue([]))
        self._costs = {flat: costs_of(inputs, flat=flat) for flat in (False, True)}
        if system.bus is not None:  # which groups do without
            self._costs[False] = replace(self._costs[False], bus=Bus(system.bus, self.timers))
        self._priority = 0
        self._trees: dict[CollectiveKind, int] = defaultdict(int)
        self._group_streams: dict[Hashable, int] = defaultdict(int)

    def run(self, chunks: Iterable[Chunk], priority: int, done: Call, *, group: str = "") -> None:
        """Run the chunks of a collective over a group or all ranks, then call ``done``."""
        chunks = list(chunks)
        if not chunks:
            self.timers.register(0, done)
            return
        policy = self._system.scheduling
        if policy != "EXPLICIT":
            self._priority += 1 if policy == "LIFO" else -1
            priority = self._priority
        left = len(chunks)

        def one_less() -> None:
            nonlocal left
            left -= 1
            if not left:
                done()

        name = self._group_names[group] if group else ""
        for chunk in chunks:
            self._group_streams[name] += 1
            tag = (name, self._group_streams[name])
            stream = Stream(tag, priority, chunk, bool(name), one_less)
            self._insert(stream)
            self._fill(stream.phase.queue)

    def _insert(self, stream: Stream) -> None:
        streams = self._queues[stream.phase.queue].streams
        kind = stream.phase.kind
        smallest_first = self._system.intra_dimension == "SCF"
        if smallest_first and kind in (REDUCE_SCATTER, ALL_GATHER):
            place = len(streams)
            if stream.n_left != 2:  # the last but one goes to the end
                size = largest(stream.phase)
                after = (
                    i
                    for i, other in enumerate(streams)
                    if not other.running and largest(other.phase) >= size
                )
                place = next(after, place)
        else:
            # Behind all that run or have its priority; those stand together at the front.
            place = len(streams)
            while place and not (
                streams[place - 1].running or streams[place - 1].priority >= stream.priority
            ):
                place -= 1
        streams.insert(place, stream)

    def _fill(self, number: int) -> None:
        queue = self._queues[number]
        while queue.running < self._limit and queue.running < len(queue.streams):
            stream = queue.streams[queue.running]
            queue.running += 1
            self._run(stream)

    def _run(self, stream: Stream) -> None:
        stream.running = True
        phase, ranks = stream.phase, stream.chunk.ranks[stream.at]
        port, costs = _Port(self, (stream.tag, stream.at)), self._costs[stream.flat]
        done = partial(self._end_phase, stream)
        if phase.algorithm == "custom":
            Replay(self, stream.tag, ranks, done=done).start()
        elif phase.algorithm == "doubleBinaryTree":
            self._trees[phase.kind] += 1
            last = self._trees[phase.kind] % 2 == 1
            tree = DoubleBinaryTree(port, costs, phase.n_bytes, ranks, root_is_last=last, done=done)
            tree.start()
        else:
            Exchange(port, costs, phase, ranks, done=done).start()

    def _end_phase(self, stream: Stream) -> None:
        """End a chunk's phase, in ASTRA-sim's order of actions.

        Finish the collective, leave the queue, join the next queue, and then let others start.
        """
        old = self._queues[stream.phase.queue]
        number = stream.phase.queue
        last = stream.n_left == 1
        if last:
            stream.done()
        old.streams.remove(stream)
        if not last:
            stream.at += 1
            stream.running = False
            self._insert(stream)
        old.running -= 1
        self._fill(number)
        if not last:
            self._fill(stream.phase.queue)


def largest(phase: Phase) -> int:
    """Return the bytes that a member holds before or after a phase, whichever is larger."""
    return max(phase.n_bytes, final_size(phase.kind, phase.n_bytes, phase.n))


class _Port:
    """The :class:`Port` of one phase of a chunk on its NPU."""

    def __init__(self, npu: Npu, tag: object) -> None:
        self.rank, self._npu, self._tag = npu.rank, npu, tag

    def wait(self, delay: int, call: Call) -> None:
        self._npu.timers.register(delay, call)

    def exchange(self, target: int, source: int, n_bytes: int, received: Call) -> None:
        self.send(target, n_bytes)
        self.receive(source, n_bytes, received)

    def send(self, target: int, n_bytes: int) -> None:
        self._npu.wires.send(self._npu, target, self._tag, n_bytes, _nothing)

    def receive(self, source: int, n_bytes: int, received: Call) -> None:
        self._npu.wires.receive(self._npu, source, self._tag, n_bytes, received)


def _nothing() -> None:
    pass


PER_NPU = "PER_NPU_MEMORY_EXPANSION"


def access_time(config: RemoteMemory, rank: int, n_bytes: int) -> int:
    """Return the ns of a remote memory access of ``n_bytes`` without contention.

    Raises :class:`DimsweepError` without a remote memory.
    """
    if config.kind == "NO_MEMORY_EXPANSION":
        raise DimsweepError(
            f"rank {rank} uses remote memory, but there is none",
            where="memory.json: memory-type",
            hint="set PER_NPU_MEMORY_EXPANSION, PER_NODE_MEMORY_EXPANSION or MEMORY_POOL",
            code="missing",
        )
    return int(config.latency + int(n_bytes / config.bandwidth))


class Memory:
    """Remote memory: accesses to one place wait for one another."""

    def __init__(self, config: RemoteMemory) -> None:
        self._config = config
        self._busy: set[int] = set()
        self._waiting: dict[int, deque[tuple[Npu, int, Callable[[], None]]]] = defaultdict(deque)

    def access(self, npu: Npu, n_bytes: int, done: Callable[[], None]) -> None:
        """Call ``done`` after an access of ``npu`` to ``n_bytes``."""
        duration = access_time(self._config, npu.rank, n_bytes)
        if self._config.kind == PER_NPU:
            npu.timers.register(duration, done)
            return
        pool = self._config.kind == "MEMORY_POOL"
        place = 0 if pool else npu.rank // self._config.npus_per_node
        self._waiting[place].append((npu, duration, done))
        if place not in self._busy:
            self._serve(place)

    def _serve(self, place: int) -> None:
        if not self._waiting[place]:
            self._busy.discard(place)
            return
        self._busy.add(place)
        npu, duration, done = self._waiting[place].popleft()

        def finished() -> None:
            done()
            self._serve(place)

        npu.timers.register(duration, finished)
