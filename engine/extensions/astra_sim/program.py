"""A run of ASTRA-sim's simulation, lowered once."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from dimsweep.engine.cluster.cluster import Cluster
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.extensions.astra_sim.chunks import GREEDY
from dimsweep.engine.extensions.astra_sim.fold import Folding, fold
from dimsweep.engine.extensions.astra_sim.lower import Row, empty_structure, lower_structure
from dimsweep.engine.extensions.astra_sim.plans import PS, NotLoweredError
from dimsweep.engine.extensions.astra_sim.rules import ItsRules
from dimsweep.engine.extensions.astra_sim.workload import (
    Cycles,
    Times,
    interpret,
    is_gpu,
    is_hidden,
    own_time,
)
from dimsweep.engine.formats.astra_sim import Inputs, topology_of
from dimsweep.engine.formats.chakra.node import COMMUNICATION, Node
from dimsweep.engine.kernels.phase.batch import Run, try_one
from dimsweep.engine.kernels.phase.state import FINISHED
from dimsweep.engine.lower import program as p
from dimsweep.engine.workload.graph import Workload


@dataclass(frozen=True)
class Program:
    """Inputs and traces, folded and, where the phase kernel can run them, lowered.

    ``interpreted`` says why it cannot, or nothing.
    """

    inputs: Inputs
    traces: Sequence[Sequence[Node]]
    folding: Folding
    phases: p.Program | None
    rows: tuple[Row, ...]
    interpreted: str

    def run(self) -> Cycles:
        """Simulate, with the same answer as that of :func:`interpret`, which it falls back to.

        Raises :class:`DimsweepError` when ranks wait for one another for ever, naming them.
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
    """How much of the time some of the spans cover."""
    total, until = 0, 0
    for start, end in sorted(spans):
        total += max(0, end - max(start, until))
        until = max(until, end)
    return total


def program_on(
    cluster: Cluster, structure: p.Structure, folding: Folding, rows: Sequence[Row]
) -> p.Program:
    """The program of the phase kernel."""
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
    program = p.Program.on(cluster, structure, names, Workload(((),), name="traces"))
    return replace(program, entrances=ItsRules())


def lower(inputs: Inputs, traces: Sequence[Sequence[Node]], *, folded: bool = True) -> Program:
    """Prepare ``traces``, one a rank; when not ``folded``, every rank and message is simulated.

    Raises :class:`DimsweepError` for another number of traces than NPUs.
    """
    network = inputs.network
    if len(traces) != network.n_npus:
        raise DimsweepError(
            f"{len(traces)} traces for {network.n_npus} NPUs", where="workload-configuration"
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
    """Simulate ``traces``, one a rank; when ``folded``, one rank of each kind.

    Raises :class:`DimsweepError` when ranks wait for one another for ever, naming them.
    """
    return lower(inputs, traces, folded=folded).run()


@dataclass(frozen=True)
class _Interpreter:
    """Answers one point at a time, by single NPUs and messages where that is needed."""

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
    """The program of ASTRA-sim's ``inputs`` and ``traces``, one a rank, on ``cluster``.

    Bandwidth is an NPU's in a dimension, all its links there together, in bytes/s; a link in
    ``network.yml`` has that divided by the number of links.  A run takes ASTRA-sim's cycles, of
    1,000 ps each.  Points that the phase kernel leaves open, and runs that it cannot do at all, are
    answered one by one by the simulation of single NPUs and messages, with the same cycles.
    Raises :class:`DimsweepError` unless cluster and traces are as large as the network.
    """
    network, sizes = inputs.network, cluster.topology.sizes
    if sizes != network.sizes:
        raise DimsweepError(
            f"a topology of {sizes} for a network.yml of {network.sizes}", where="topology"
        )
    if len(traces) != network.n_npus:
        raise DimsweepError(f"{len(traces)} traces for {network.n_npus} NPUs", where="traces")
    folding = fold(_anywhere(inputs), traces)
    rows: tuple[Row, ...] = ()
    structure = empty_structure(inputs, folding)
    if inputs.system.inter_dimension not in GREEDY:  # whose orders depend on bandwidths
        with suppress(NotLoweredError):
            structure, rows = lower_structure(inputs, traces, folding)
    program = program_on(cluster, structure, folding, rows)
    return replace(program, witness=_Interpreter(inputs, traces, folding.first))


def _anywhere(inputs: Inputs) -> Inputs:
    """With a network on which only such ranks are alike as are so at all bandwidths."""
    network, n = inputs.network, len(inputs.network.sizes)
    different = replace(
        network,
        gigabytes=tuple(float(2 * d + 3) for d in range(n)),
        latency=tuple(1.0 + 1e-3 * 2.0**-d for d in range(n)),
    )
    return replace(inputs, network=different)
