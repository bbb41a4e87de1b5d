"""A run of ASTRA-sim's simulation: its traces, lowered once as a program of the phase kernel.

An NPU has three streams: the GPU, communication, and the CPU.  Each runs one node at a time: of its
ready nodes, the one with the lowest id.  A collective's chunks go through the queues of a class's
ports; a message holds the communication stream.  Ends at one tick are handled one by one.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from dimsweep.engine.cluster.cluster import Cluster
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.extensions.astra_sim.algorithms import GREEDY
from dimsweep.engine.extensions.astra_sim.fold import Folding, fold
from dimsweep.engine.extensions.astra_sim.npu import PER_NPU, access_time
from dimsweep.engine.extensions.astra_sim.plans import PS, Form, NotLoweredError, Plans, Wanted
from dimsweep.engine.extensions.astra_sim.rules import ItsRules
from dimsweep.engine.extensions.astra_sim.workload import (
    AT_ONCE,
    Cycles,
    Times,
    check_peer,
    interpret,
    is_gpu,
    is_hidden,
    kind_of,
    members_of,
    own_time,
    slot_of,
)
from dimsweep.engine.formats.astra_sim import Inputs, topology_of
from dimsweep.engine.formats.chakra import NodeType
from dimsweep.engine.formats.chakra.node import COMMUNICATION, Node
from dimsweep.engine.kernels.phase.batch import Run, try_one
from dimsweep.engine.kernels.phase.state import FINISHED
from dimsweep.engine.kinds import QueueOrder
from dimsweep.engine.lower import program as p
from dimsweep.engine.lower.issue import Following, Waits
from dimsweep.engine.lower.tables import lookahead, table
from dimsweep.engine.workload.graph import Workload

GPU, COMM, CPU = range(3)
_STREAMS = {"gpu": GPU, "comm": COMM, "cpu": CPU}
_LONGEST = 2**53  # ns


class Row(NamedTuple):
    """A trace's node on a class, as a row of the node table."""

    node: Node
    cls: int
    kind: p.NodeKind
    stream: int  # of the class
    duration: int  # ns
    flow: int
    after: tuple[int, ...]


class Match(NamedTuple):
    """The properties in which a send and its receive must agree."""

    tag: int
    source: int  # classes
    target: int
    n_bytes: int


def lower_structure(
    inputs: Inputs, traces: Sequence[Sequence[Node]], folding: Folding
) -> tuple[p.Structure, tuple[Row, ...]]:
    """Return the structure of ``traces``, with one class for each kind of ranks, and its nodes.

    Raises :class:`NotLoweredError` for features that the kernel lacks, and for faulty traces, which
    the interpreter reports.
    """
    _check(inputs)
    try:
        lowering = _Lowering(inputs, traces, folding)
        return lowering.structure(), tuple(lowering.rows)
    except DimsweepError as error:
        raise NotLoweredError(error.problem) from error


def _check(inputs: Inputs) -> None:
    options = inputs.options
    reasons = {
        "messages queue for links": options.aware,
        "rendezvous": options.rendezvous,
        "phases share a memory bus": inputs.system.bus is not None,
        "custom collectives": bool(inputs.custom),
        "no endpoint delay": int(inputs.system.endpoint_delay * options.injection_scale) < 1,
        "the smallest chunk is first": inputs.system.intra_dimension == "SCF",
        "latencies of fractions of a picosecond": any(
            x * PS != round(x * PS) for x in inputs.network.latency
        ),
    }
    for reason, holds in reasons.items():
        if holds:
            raise NotLoweredError(reason)


def empty_structure(inputs: Inputs, folding: Folding) -> p.Structure:
    """Return a structure with the classes of ``folding`` and without nodes."""
    return p.Structure(
        _shape(inputs, folding, 1),
        *(np.zeros(0, dtype) for dtype in (p.NODE, np.uint32, p.FLOW, p.MEMBER, p.FORM)),
        *(np.zeros(0, dtype) for dtype in (p.USE, p.LISTED, p.PHASE_STEPS, p.STEP)),
    )


def _shape(inputs: Inputs, folding: Folding, most_chunks: int) -> p.Shape:
    system, queues = inputs.system, inputs.options.queues_per_dim
    n_dims = len(inputs.network.sizes)
    return p.Shape(
        n_classes=len(folding.first),
        n_dims=n_dims,
        n_streams=len(_STREAMS),
        n_timed=len(_STREAMS),
        n_tallies=1,
        queue=int(QueueOrder.FIFO),
        order=0,
        endpoint_delay=0,
        reduce_time=1.0,
        n_ports=n_dims * queues,
        places=max(1, min(most_chunks, -(-system.active_chunks // queues))),
        stream_order=int(p.StreamOrder.KEY),
    )


class _Lowering:
    def __init__(self, inputs: Inputs, traces: Sequence[Sequence[Node]], folding: Folding) -> None:
        self._inputs, self._folding = inputs, folding
        self._plans = Plans(inputs, folding.kind)
        self.rows: list[Row] = []
        self._flow_node: list[int] = []
        self._flow_form: list[int] = []
        self._forms: dict[tuple[int, Form], int] = {}
        self._sends: dict[Match, list[int]] = {}
        self._receives: dict[Match, list[int]] = {}
        for cls, rank in enumerate(folding.first):
            self._add_class(cls, rank, traces[rank])
        self._receiver = self._matched()

    def _add_class(self, cls: int, rank: int, trace: Sequence[Node]) -> None:
        nodes = sorted(trace, key=lambda node: node.id)
        number = {node.id: len(self.rows) + i for i, node in enumerate(nodes)}
        if len(number) < len(nodes):
            raise NotLoweredError("nodes with the same id")
        times = [own_time(node, self._inputs.system) for node in nodes]
        forms = self._collectives(rank, nodes, times)
        for node, time in zip(nodes, times, strict=True):
            if not number.keys() >= set(node.dependencies):
                raise NotLoweredError("a node waits for one that is not there")
            after = tuple(number[before] for before in node.dependencies)
            stream = _STREAMS.get(slot_of(node), p.NO_STREAM)
            kind, duration, flow = self._work(cls, rank, node, time, stream, forms)
            if duration > _LONGEST:
                raise NotLoweredError("a node lasts very long")
            self.rows.append(Row(node, cls, kind, stream, duration, flow, after))

    def _collectives(
        self, rank: int, nodes: Sequence[Node], times: Sequence[int | None]
    ) -> dict[Wanted, Form]:
        """Return the form of each collective that ``rank`` runs."""
        collectives = [
            node
            for node, time in zip(nodes, times, strict=True)
            if time is None and node.type is NodeType.COMM_COLL
        ]
        themis = self._inputs.system.inter_dimension in GREEDY
        if themis and collectives and (len(collectives) > 1 or len(self._folding.first) > 1):
            raise NotLoweredError("Themis' loads depend on more than one collective")
        wanted = {self._wanted(rank, node): None for node in collectives}
        return self._plans.collectives(rank, list(wanted), len(collectives))

    def _wanted(self, rank: int, node: Node) -> Wanted:
        if node.on_cpu:
            raise NotLoweredError("a collective of the CPU")
        kind = kind_of(node, rank)
        ranks = members_of(node, rank, self._inputs)
        if ranks is None:
            return Wanted(kind, node.size, node.involved, "", ())
        return Wanted(kind, node.size, (), node.group, tuple(ranks))

    def _work(
        self,
        cls: int,
        rank: int,
        node: Node,
        time: int | None,
        stream: int,
        forms: dict[Wanted, Form],
    ) -> tuple[p.NodeKind, int, int]:
        """Return the kind of a trace's node, its duration (ns), and its flow's number."""
        if time == AT_ONCE:
            raise NotLoweredError("nodes that end as soon as they are issued")
        if time is not None:
            if stream == p.NO_STREAM:
                raise NotLoweredError("receives that last")
            return (p.NodeKind.ACCESS if stream == COMM else p.NodeKind.COMPUTE), time, p.NO_FLOW
        if node.type is NodeType.COMM_COLL:
            form = forms[self._wanted(rank, node)]
            if form.chunks == 0:
                return p.NodeKind.ACCESS, 0, p.NO_FLOW
            return p.NodeKind.COLLECTIVE, 0, self._new_flow(kind_of(node, rank), form)
        if node.type in (NodeType.MEM_LOAD, NodeType.MEM_STORE):
            if self._inputs.memory.kind != PER_NPU:
                raise NotLoweredError("memory that ranks share")
            duration = access_time(self._inputs.memory, rank, node.tensor)
            return p.NodeKind.ACCESS, duration, p.NO_FLOW
        return self._message(cls, rank, node)

    def _message(self, cls: int, rank: int, node: Node) -> tuple[p.NodeKind, int, int]:
        sends = node.type is NodeType.COMM_SEND
        peer = node.target if sends else node.source
        check_peer(node, rank, peer, self._inputs.network.n_npus)
        if sends and node.on_cpu:
            raise NotLoweredError("a send of the CPU")
        other = self._folding.kind[peer]
        ends = (cls, other) if sends else (other, cls)
        match = Match(node.tag, *ends, node.size)
        if not sends:
            self._receives.setdefault(match, []).append(len(self.rows))
            return p.NodeKind.RECEIVE, 0, p.NO_FLOW  # known when all are matched
        self._sends.setdefault(match, []).append(len(self.rows))
        form = self._plans.send(rank, peer, node.size)
        return p.NodeKind.SEND, 0, self._new_flow(p.POINT_TO_POINT, form)

    def _new_flow(self, kind: int, form: Form) -> int:
        self._flow_form.append(self._forms.setdefault((kind, form), len(self._forms)))
        self._flow_node.append(len(self.rows))
        return len(self._flow_node) - 1

    def _matched(self) -> list[int]:
        """Return the receive of each flow: the k-th send matches the k-th equal receive.

        Raises :class:`NotLoweredError` unless ranks are certain to issue them in this order.
        """
        receiver = [p.NO_NODE] * len(self._flow_node)
        for match, sends in self._sends.items():
            receives = self._receives.pop(match, [])
            if len(sends) != len(receives):
                raise NotLoweredError("a message without a receive")
            if not (self._in_order(sends) and self._in_order(receives)):
                raise NotLoweredError("messages of one kind that may overtake one another")
            for send, receive in zip(sends, receives, strict=True):
                receiver[self.rows[send].flow] = receive
                self.rows[receive] = self.rows[receive]._replace(flow=self.rows[send].flow)
        if self._receives:
            raise NotLoweredError("a receive without a message")
        return receiver

    def _in_order(self, nodes: Sequence[int]) -> bool:
        """Return whether each of ``nodes`` waits for the one before it, perhaps indirectly."""
        return all(self._waits_for(b, a) for a, b in pairwise(nodes))

    def _waits_for(self, node: int, before: int) -> bool:
        todo, seen = [node], {node}
        while todo:
            for n in self.rows[todo.pop()].after:
                if n == before:
                    return True
                if n not in seen and n > 0:
                    seen.add(n)
                    todo.append(n)
        return False

    def structure(self) -> p.Structure:
        rows, plans = self.rows, self._plans
        following = Following.from_waits(Waits.from_lists([row.after for row in rows]))
        return p.Structure(
            shape=_shape(
                self._inputs, self._folding, max((f.chunks for _, f in self._forms), default=1)
            ),
            nodes=self._nodes(following),
            following=following.nodes,
            flows=self._flows(),
            members=table(
                p.MEMBER,
                len(self._flow_node),
                cls=(rows[node].cls for node in self._flow_node),
                node=self._flow_node,
            ),
            forms=self._form_table(),
            uses=np.zeros(0, dtype=p.USE),
            listed=np.array(plans.listed, dtype=p.LISTED),
            phase_steps=np.array(plans.phase_steps, dtype=p.PHASE_STEPS),
            steps=np.array(plans.steps, dtype=p.STEP),
        )

    def _nodes(self, following: Following) -> p.Table:
        rows = self.rows
        felt = np.array(
            [
                p.Lookahead.NONE
                if row.kind is p.NodeKind.RECEIVE
                else p.Lookahead.UNTIL_END
                if row.kind is p.NodeKind.SEND
                else p.Lookahead.FULL
                for row in rows
            ],
            dtype=np.int8,
        )
        return table(
            p.NODE,
            len(rows),
            kind=(row.kind for row in rows),
            cls=(row.cls for row in rows),
            stream=(
                p.NO_STREAM if row.stream == p.NO_STREAM else row.cls * len(_STREAMS) + row.stream
                for row in rows
            ),
            key=range(len(rows)),
            flow=(row.flow for row in rows),
            waits=following.waits,
            next_start=following.start[:-1],
            next_end=following.start[1:],
            tally=(p.NO_TALLY if row.kind is p.NodeKind.COMPUTE else 0 for row in rows),
            lookahead=lookahead(felt, following),
            duration=(row.duration * PS for row in rows),
            memory=[0] * len(rows),
            service=[p.NO_SERVICE] * len(rows),
        )

    def _flows(self) -> p.Table:
        forms = [form for _, form in self._forms]
        n = len(self._flow_node)
        chunk_start = p.starts(forms[form].chunks for form in self._flow_form)
        return table(
            p.FLOW,
            n,
            form=self._flow_form,
            key=self._flow_node,
            receiver=self._receiver,
            member_start=range(n),
            member_end=range(1, n + 1),
            chunk_start=chunk_start[:-1],
            chunk_end=chunk_start[1:],
            entry_start=chunk_start[:-1],
        )

    def _form_table(self) -> p.Table:
        forms = [form for _, form in self._forms]
        n = len(forms)
        return table(
            p.FORM,
            n,
            kind=(kind for kind, _ in self._forms),
            chunks=(form.chunks for form in forms),
            priority=[0] * n,
            use_start=[0] * n,
            use_end=[0] * n,
            listed_start=(form.listed_start for form in forms),
            listed_length=(form.listed_length for form in forms),
            listed_variants=(form.listed_variants for form in forms),
            n_bytes=[1.0] * n,
        )


# --- a run ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Program:
    """ASTRA-sim's inputs and traces, folded and, if the phase kernel can run them, lowered."""

    inputs: Inputs
    traces: Sequence[Sequence[Node]]
    folding: Folding
    phases: p.Program | None
    rows: tuple[Row, ...]
    interpreted: str  # why the phase kernel cannot run it; "" if it can

    def run(self) -> Cycles:
        """Return the cycles of the run, by the phase kernel or else by :func:`interpret`.

        Both give the same result. Raises :class:`DimsweepError` naming ranks that wait for one
        another for ever.
        """
        if self.phases is not None:
            run = try_one(self.phases)
            if run.measures.outcome[0] == FINISHED:
                return self._cycles(run)
        return interpret(self.inputs, self.traces, self.folding)

    def _cycles(self, run: Run) -> Cycles:
        nodes = run.state.nodes
        spans: list[list[tuple[int, int]]] = [[] for _ in self.folding.first]
        finished, gpu, hidden = ([0] * len(spans) for _ in range(3))
        for number, row in enumerate(self.rows):
            end = int(nodes[number]["end"]) // PS
            finished[row.cls] = max(finished[row.cls], end)
            if row.node.type in COMMUNICATION:
                spans[row.cls].append((int(nodes[number]["start"]) // PS, end))
            own = own_time(row.node, self.inputs.system) or 0
            gpu[row.cls] += own * is_gpu(row.node)
            hidden[row.cls] += own * is_hidden(row.node, self.inputs.system)
        times = zip(finished, gpu, map(_covered, spans), hidden, strict=True)
        return Cycles(self.folding.kind, tuple(Times(*of) for of in times), compiled=True)


def _covered(spans: list[tuple[int, int]]) -> int:
    """Return the length of the union of ``spans``, given as (start, end)."""
    total, until = 0, 0
    for start, end in sorted(spans):
        total += max(0, end - max(start, until))
        until = max(until, end)
    return total


def program_on(
    cluster: Cluster, structure: p.Structure, folding: Folding, rows: Sequence[Row]
) -> p.Program:
    """Return ``structure`` as a program of the phase kernel on ``cluster``."""
    names = p.Names(
        node=tuple(row.node.name for row in rows),
        stream=("communication", "cpu"),
        dims=tuple(f"{d}: {dim.name}" for d, dim in enumerate(cluster.topology.dims)),
        tally=("communication",),
        class_count=tuple(np.bincount(folding.kind).tolist()),
        class_first=folding.first,
        flow_group=tuple(
            "" if row.kind is p.NodeKind.SEND else row.node.group or "all"
            for row in rows
            if row.kind in (p.NodeKind.COLLECTIVE, p.NodeKind.SEND)
        ),
    )
    program = p.Program.build(cluster, structure, names, Workload(((),), name="traces"))
    return replace(program, entrances=ItsRules())


def lower(inputs: Inputs, traces: Sequence[Sequence[Node]], *, folded: bool = True) -> Program:
    """Return ``traces``, one for each rank, as a program that can run.

    If not ``folded``, every rank and message is simulated. Raises :class:`DimsweepError` for
    another number of traces than NPUs.
    """
    network = inputs.network
    if len(traces) != network.n_npus:
        raise DimsweepError(
            f"{len(traces)} traces for {network.n_npus} NPUs",
            where="workload-configuration",
            code="mismatch",
        )
    folding = fold(inputs, traces, enabled=folded)
    try:
        if not folded:
            raise NotLoweredError("every message was asked for")
        structure, rows = lower_structure(inputs, traces, folding)
    except NotLoweredError as error:
        return Program(inputs, traces, folding, None, (), str(error))
    phases = program_on(Cluster(topology_of(network)), structure, folding, rows)
    return Program(inputs, traces, folding, phases, rows, "")


def simulate(inputs: Inputs, traces: Sequence[Sequence[Node]], *, folded: bool = True) -> Cycles:
    """Return the cycles of ``traces``, one for each rank; if ``folded``, simulate one of each kind.

    Raises :class:`DimsweepError` when ranks wait for one another for ever, naming them.
    """
    return lower(inputs, traces, folded=folded).run()


@dataclass(frozen=True)
class _Interpreter:
    """A :class:`Witness` that simulates a point NPU by NPU, message by message."""

    inputs: Inputs
    traces: Sequence[Sequence[Node]]
    ranks: tuple[int, ...]  # the first of each class

    def __call__(self, bandwidth: p.Floats, latency: p.Longs) -> tuple[p.Longs, p.Longs]:
        network = self.inputs.network
        links = np.array(network.links)
        at_point = replace(
            network,
            gigabytes=tuple((bandwidth / links / 2.0**30).tolist()),
            latency=tuple((latency / PS).tolist()),
        )
        cycles = lower(replace(self.inputs, network=at_point), self.traces).run()
        first = list(self.ranks)
        return (
            np.array(cycles.cycles, dtype=np.int64)[first] * PS,
            np.array(cycles.gpu, dtype=np.int64)[first] * PS,
        )


def lower_for_sweep(
    inputs: Inputs, traces: Sequence[Sequence[Node]], cluster: Cluster
) -> p.Program:
    """Return the program of ASTRA-sim's ``inputs`` and ``traces``, one a rank, on ``cluster``.

    Bandwidth is that of all links of an NPU in a dimension together, in bytes/s; a link in
    ``network.yml`` has that divided by the number of links.  A run takes ASTRA-sim's cycles, of
    1,000 ps each.  Runs and points that the phase kernel cannot simulate are simulated one by one
    by single NPUs and messages, with the same cycles.

    Raises :class:`DimsweepError` unless cluster and traces have the size of the network.
    """
    network, sizes = inputs.network, cluster.topology.sizes
    if sizes != network.sizes:
        raise DimsweepError(
            f"the topology has sizes {sizes}, but network.yml has {network.sizes}",
            where="topology",
            code="mismatch",
        )
    if len(traces) != network.n_npus:
        raise DimsweepError(
            f"{len(traces)} traces for {network.n_npus} NPUs", where="traces", code="mismatch"
        )
    folding = fold(_anywhere(inputs), traces)
    rows: tuple[Row, ...] = ()
    structure = empty_structure(inputs, folding)
    if inputs.system.inter_dimension not in GREEDY:  # whose orders depend on bandwidths
        with suppress(NotLoweredError):
            structure, rows = lower_structure(inputs, traces, folding)
    program = program_on(cluster, structure, folding, rows)
    return replace(program, witness=_Interpreter(inputs, traces, folding.first))


def _anywhere(inputs: Inputs) -> Inputs:
    """Return ``inputs`` with a network on which equal ranks are equal at all bandwidths."""
    network, n = inputs.network, len(inputs.network.sizes)
    different = replace(
        network,
        gigabytes=tuple(float(2 * d + 3) for d in range(n)),
        latency=tuple(1.0 + 1e-3 * 2.0**-d for d in range(n)),
    )
    return replace(inputs, network=different)
