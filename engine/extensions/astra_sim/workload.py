"""Interpreter of ASTRA-sim's traces, node by node and message by message."""

import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

from dimsweep.engine.collector import collector_paused
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.extensions.astra_sim.algorithms import FLEX, Greedy, Planner
from dimsweep.engine.extensions.astra_sim.fold import Folding
from dimsweep.engine.extensions.astra_sim.links import Aware, Clock, Unaware
from dimsweep.engine.extensions.astra_sim.npu import Memory, Npu, Wires, replayed
from dimsweep.engine.formats.astra_sim import Inputs, System
from dimsweep.engine.formats.chakra.node import COMMUNICATION, KINDS, Node, check_complete
from dimsweep.engine.formats.chakra.trace import CollectiveType, NodeType
from dimsweep.engine.kinds import CollectiveKind


class Times(NamedTuple):
    """The end, computation and communication times of one rank, in ns."""

    finished: int  # end of the rank
    gpu: int  # computations of its GPU
    communication: int
    hidden: int  # time that ASTRA-sim does not call exposed


@dataclass(frozen=True)
class Cycles:
    """The result of an ASTRA-sim run, in ns (its cycles), of one simulated rank of each kind."""

    kind: tuple[int, ...]  # of each rank
    of_kind: tuple[Times, ...]
    compiled: bool  # phase by phase in the compiled kernel, or message by message in Python

    @property
    def n_kinds(self) -> int:
        """Number of kinds of ranks."""
        return len(self.of_kind)

    @cached_property
    def cycles(self) -> tuple[int, ...]:
        """End of each rank in ns."""
        return tuple(self.of_kind[kind].finished for kind in self.kind)

    @cached_property
    def exposed(self) -> tuple[int, ...]:
        """Time of each rank in ns that ASTRA-sim calls exposed communication.

        It is the end minus the time of the GPU's computations, or, for replayed nodes, minus the
        time of all nodes that are not the CPU's.
        """
        return tuple(self.of_kind[k].finished - self.of_kind[k].hidden for k in self.kind)

    @cached_property
    def gpu(self) -> tuple[int, ...]:
        """Time of each rank's GPU computations in ns."""
        return tuple(self.of_kind[kind].gpu for kind in self.kind)

    @cached_property
    def communication(self) -> tuple[int, ...]:
        """Time of each rank's communication in ns."""
        return tuple(self.of_kind[kind].communication for kind in self.kind)

    @property
    def method(self) -> str:
        """Name of the simulation method that was used, for reports."""
        ranks = "one rank of each kind" if self.n_kinds < len(self.kind) else "every rank"
        return f"{ranks}, {'phase by phase, compiled' if self.compiled else 'message by message'}"


AT_ONCE = -1


def own_time(node: Node, system: System) -> int | None:
    """Return the ns that a node takes, if independent of other nodes, or AT_ONCE for no time.

    None if the time depends on the network or the memory.  Raises :class:`DimsweepError` for a
    missing roofline.
    """
    if system.replay_only:
        return replayed(node)
    if node.type in (NodeType.INVALID, NodeType.METADATA):
        return AT_ONCE
    if node.type is NodeType.COMP:
        return _compute_time(node, system)
    if node.type is NodeType.COMM_COLL and node.collective == CollectiveType.BROADCAST:
        return replayed(node)
    return None


def _compute_time(node: Node, system: System) -> int:
    if node.on_cpu or not system.roofline:
        return replayed(node)
    if node.tensor == 0:
        return AT_ONCE
    if not (system.local_memory_bandwidth and system.peak):
        raise DimsweepError(
            "the roofline needs a peak and a memory bandwidth",
            where="system.json: peak-perf, local-mem-bw",
            hint="give both, or roofline-enabled: 0",
            code="missing",
        )
    if node.ops == 0:  # where ASTRA-sim divides nothing by nothing
        return int(node.tensor / system.local_memory_bandwidth * 1e9)
    intensity = node.ops / node.tensor
    rate = min(system.local_memory_bandwidth * intensity, system.peak)
    return int(node.ops / rate * 1e9)


def check_peer(node: Node, rank: int, peer: int, n: int) -> None:
    """Raise :class:`DimsweepError` unless ``peer`` is another rank among ``n`` ranks.

    Also raised for a message without a needed attribute.
    """
    check_complete(node, f"rank {rank}, node {node.name!r}")
    if peer == rank or not 0 <= peer < n:
        raise DimsweepError(
            f"rank {peer} cannot be the peer of a message among {n} ranks",
            where=f"rank {rank}, node {node.name!r}",
            hint=f"name another rank from 0 to {n - 1}",
            code="out-of-range",
        )


def kind_of(node: Node, rank: int) -> CollectiveKind:
    """Return the kind of collective that a node runs.

    Raises :class:`DimsweepError` for one that is not simulated, or lacks an attribute.
    """
    check_complete(node, f"rank {rank}, node {node.name!r}")
    kind = KINDS.get(node.collective)
    if kind is None:
        raise DimsweepError(
            f"a collective of type {node.collective} is not simulated",
            where=f"rank {rank}, node {node.name!r}",
            code="unsupported",
        )
    return kind


def members_of(node: Node, rank: int, inputs: Inputs) -> Sequence[int] | None:
    """Return the members of a collective's group; None for all ranks.

    Raises :class:`DimsweepError` for an unknown group, or one without ``rank``.
    """
    if node.group in ("", "0"):
        return None
    where = f"rank {rank}, node {node.name!r}"
    if node.group not in inputs.groups:
        raise DimsweepError(
            f"unknown communicator group {node.group!r}",
            where=where,
            hint="give it in the comm-group-configuration",
            code="unknown-name",
        )
    ranks = inputs.groups[node.group]
    if rank not in ranks:
        raise DimsweepError(
            f"rank {rank} is not a member of the group {node.group!r}", where=where, code="mismatch"
        )
    return None if len(ranks) == inputs.network.n_npus else ranks


class Rank:
    """The run of one rank's trace: its ready and running nodes, and the times so far."""

    def __init__(self, npu: Npu, nodes: Sequence[Node], inputs: Inputs, memory: Memory) -> None:
        self.npu, self._inputs, self._memory = npu, inputs, memory
        self._nodes = {node.id: node for node in nodes}
        self._waits = {node.id: len(node.dependencies) for node in nodes}
        self._children: dict[int, list[int]] = {}
        for node in nodes:
            for before in node.dependencies:
                self._children.setdefault(before, []).append(node.id)
        self._ready = sorted(i for i, count in self._waits.items() if not count)
        self._slots: set[str] = set()  # hardware that is taken
        self._running: dict[int, None] = {}
        self.left = len(self._nodes)
        self.finished = 0  # ns
        self.compute = 0  # ns of the GPU
        self.hidden = 0  # ns that ASTRA-sim does not call exposed
        self.communication = 0  # ns in which a send, receive or collective was under way
        self._communicating, self._since = 0, 0

    def fire(self) -> None:
        """Issue all ready nodes whose hardware is free."""
        while True:
            taken = self._pass()
            # ASTRA-sim would wait for a completion that never comes.
            if self._running or not taken:
                break
        if not self.left:
            self.finished = self.npu.timers.now

    def waiting(self) -> list[str]:
        """Return the unfinished nodes in words: the running ones, else the ready ones."""
        return [self._nodes[i].name for i in self._running or self._ready]

    def _pass(self) -> int:
        taken = 0
        for i in tuple(self._ready):  # a snapshot: nodes freed meanwhile wait
            node = self._nodes[i]
            slot = slot_of(node)
            if slot and slot in self._slots:
                continue
            self._ready.remove(i)
            taken += 1
            self._running[i] = None
            if slot:
                self._slots.add(slot)
            if node.type in COMMUNICATION:
                if not self._communicating:
                    self._since = self.npu.timers.now
                self._communicating += 1
            self._issue(node)
        return taken

    def _issue(self, node: Node) -> None:
        duration = own_time(node, self._inputs.system)
        if duration == AT_ONCE:
            self._release(node)
        elif duration is not None:
            if is_gpu(node):
                self.compute += duration
            if is_hidden(node, self._inputs.system):
                self.hidden += duration
            self.npu.timers.register(duration, partial(self._complete, node))
        elif node.type in (NodeType.MEM_LOAD, NodeType.MEM_STORE):
            self._memory.access(self.npu, node.tensor, partial(self._complete, node))
        elif node.type is NodeType.COMM_COLL:
            self._collective(node)
        else:
            sends = node.type is NodeType.COMM_SEND
            peer = node.target if sends else node.source
            check_peer(node, self.npu.rank, peer, self._inputs.network.n_npus)
            wires = self.npu.wires
            move = wires.send if sends else wires.receive
            done = partial(self._complete, node)
            move(self.npu, peer, ("p2p", node.tag), node.size, done)

    def _collective(self, node: Node) -> None:
        npu, done = self.npu, partial(self._complete, node)
        kind = kind_of(node, npu.rank)
        if kind in self._inputs.custom:
            npu.run([npu.planner.custom_chunk(kind, self._inputs.custom[kind][npu.rank])], 0, done)
            return
        ranks = members_of(node, npu.rank, self._inputs)
        if ranks is None:
            npu.run(npu.planner.chunks(kind, node.size, node.involved), node.priority, done)
        else:
            chunks = npu.planner.group_chunks(kind, node.size, ranks)
            npu.run(chunks, node.priority, done, group=node.group)

    def _complete(self, node: Node) -> None:
        self._release(node)
        self.fire()

    def _release(self, node: Node) -> None:
        slot = slot_of(node)
        if slot:
            self._slots.remove(slot)
        if node.type in COMMUNICATION:
            self._communicating -= 1
            if not self._communicating:
                self.communication += self.npu.timers.now - self._since
        del self._running[node.id]
        self.left -= 1
        for child in self._children.get(node.id, ()):
            self._waits[child] -= 1
            if not self._waits[child]:
                bisect.insort(self._ready, child)


def is_gpu(node: Node) -> bool:
    """Return whether the node is a computation of the GPU."""
    return node.type is NodeType.COMP and not node.on_cpu


def is_hidden(node: Node, system: System) -> bool:
    """Return whether ASTRA-sim counts the node's time as the GPU's, so not as exposed.

    It does so for all replayed nodes, even communication, except those of the CPU.  A broadcast is
    replayed, but not by that rule.
    """
    return not node.on_cpu and (system.replay_only or node.type is NodeType.COMP)


def slot_of(node: Node) -> str:
    """Return the hardware that a node occupies: GPU, network or CPU; a receive needs none."""
    if node.type is NodeType.COMM_RECV:
        return ""
    if node.on_cpu:
        return "cpu"
    return "gpu" if node.type is NodeType.COMP else "comm"


def interpret(inputs: Inputs, traces: Sequence[Sequence[Node]], folding: Folding) -> Cycles:
    """Return the cycles of a run, simulated message by message for one rank of each kind.

    Raises :class:`DimsweepError` when ranks wait for one another for ever, naming them.
    """
    clock = Clock()
    network, options = inputs.network, inputs.options
    carrier = Aware(clock, network) if options.aware else Unaware(clock, network)
    wires = Wires(carrier, folding.kind, rendezvous=options.rendezvous)
    memory = Memory(inputs.memory)
    greedy = Greedy(clock, network, flex=inputs.system.inter_dimension == FLEX)
    ranks = []
    for rank in folding.first:
        planner = Planner(rank, inputs.system, network, options.queues_per_dim, greedy)
        npu = Npu(rank, clock, wires, inputs, planner, folding.group_names[rank])
        ranks.append(Rank(npu, traces[rank], inputs, memory))
    with collector_paused():
        for rank_ in ranks:
            rank_.fire()
        clock.run()
    stuck = [rank_ for rank_ in ranks if rank_.left]
    if stuck:
        raise _deadlock(stuck, len(ranks))
    return Cycles(
        kind=folding.kind,
        of_kind=tuple(
            Times(rank_.finished, rank_.compute, rank_.communication, rank_.hidden)
            for rank_ in ranks
        ),
        compiled=False,
    )


def _deadlock(stuck: Sequence[Rank], n: int) -> DimsweepError:
    lines = [
        f"rank {rank.npu.rank}: {rank.left} nodes left, at {', '.join(rank.waiting()[:3])}"
        for rank in stuck[:8]
    ]
    more = f"\n  ... and {len(stuck) - 8} more ranks" if len(stuck) > 8 else ""
    return DimsweepError(
        f"deadlock: {len(stuck)} of {n} ranks cannot finish\n  " + "\n  ".join(lines) + more,
        where="workload-configuration",
        hint="an NPU runs one collective, send or memory access at a time; do all members of a "
        "group issue their collectives in the same order?",
        code="stalled",
    )
