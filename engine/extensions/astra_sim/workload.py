"""ASTRA-sim's workload layer on one NPU: which node is issued when, and how long it takes."""

import bisect
from collections.abc import Sequence
from functools import partial

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.extensions.astra_sim.custom import replayed
from dimsweep.engine.extensions.astra_sim.memory import Memory
from dimsweep.engine.extensions.astra_sim.npu import Npu
from dimsweep.engine.formats.astra_sim.inputs import Inputs, System
from dimsweep.engine.formats.chakra.node import COMMUNICATION, KINDS, Node, check_complete
from dimsweep.engine.formats.chakra.trace import CollectiveType, NodeType
from dimsweep.engine.kinds import CollectiveKind

AT_ONCE = -1


def own_time(node: Node, system: System) -> int | None:
    """How long (ns) a node takes whatever the others do, or AT_ONCE if it ends when it is issued;
    nothing if that depends on the network or the memory.

    Raises :class:`DimsweepError` for a roofline that is not given.
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
        )
    if node.ops == 0:  # where ASTRA-sim divides nothing by nothing
        return int(node.tensor / system.local_memory_bandwidth * 1e9)
    intensity = node.ops / node.tensor
    rate = min(system.local_memory_bandwidth * intensity, system.peak)
    return int(node.ops / rate * 1e9)


def check_peer(node: Node, rank: int, peer: int, n: int) -> None:
    """Raises :class:`DimsweepError` unless ``peer`` is another one of ``n`` ranks and the message
    has all attributes."""
    check_complete(node, f"rank {rank}, node {node.name!r}")
    if peer == rank or not 0 <= peer < n:
        raise DimsweepError(
            f"a message to or from rank {peer}, of {n}",
            where=f"rank {rank}, node {node.name!r}",
            hint="another rank, from 0",
        )


def kind_of(node: Node, rank: int) -> CollectiveKind:
    """The kind of a collective.  Raises :class:`DimsweepError` for one that is not simulated, or
    lacks an attribute."""
    check_complete(node, f"rank {rank}, node {node.name!r}")
    kind = KINDS.get(node.collective)
    if kind is None:
        raise DimsweepError(
            f"a collective of type {node.collective} is not simulated",
            where=f"rank {rank}, node {node.name!r}",
        )
    return kind


def members_of(node: Node, rank: int, inputs: Inputs) -> Sequence[int] | None:
    """The members of a collective's group; nothing if these are all ranks.

    Raises :class:`DimsweepError` if there is no such group, or ``rank`` does not belong to it.
    """
    if node.group in ("", "0"):
        return None
    where = f"rank {rank}, node {node.name!r}"
    if node.group not in inputs.groups:
        raise DimsweepError(
            f"there is no communicator group {node.group!r}",
            where=where,
            hint="give it in the comm-group-configuration",
        )
    ranks = inputs.groups[node.group]
    if rank not in ranks:
        raise DimsweepError(f"rank {rank} is no member of the group {node.group!r}", where=where)
    return None if len(ranks) == inputs.network.n_npus else ranks


class Rank:
    """One rank's trace being worked off."""

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
        """Issue what can be issued."""
        while True:
            taken = self._pass()
            # ASTRA-sim would wait for a completion that never comes.
            if self._running or not taken:
                break
        if not self.left:
            self.finished = self.npu.timers.now

    def waiting(self) -> list[str]:
        """Nodes that never ran, for a message: those that run, else those that are ready."""
        return [self._nodes[i].name for i in self._running or self._ready]

    def _pass(self) -> int:
        taken = 0
        for i in tuple(self._ready):  # a snapshot: what is freed meanwhile waits
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
    """Whether the GPU computes."""
    return node.type is NodeType.COMP and not node.on_cpu


def is_hidden(node: Node, system: System) -> bool:
    """Whether ASTRA-sim counts the node's time as the GPU's: it does so for whatever it replays,
    communication too, unless the CPU does it.  A broadcast is replayed, but not by that rule."""
    return not node.on_cpu and (system.replay_only or node.type is NodeType.COMP)


def slot_of(node: Node) -> str:
    """The hardware that a node occupies; a receive needs none."""
    if node.type is NodeType.COMM_RECV:
        return ""
    if node.on_cpu:
        return "cpu"
    return "gpu" if node.type is NodeType.COMP else "comm"
