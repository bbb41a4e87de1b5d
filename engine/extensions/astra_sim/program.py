"""A run of ASTRA-sim's simulation, lowered once."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dimsweep.engine.cluster.cluster import Cluster
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.extensions.astra_sim.cycles import Cycles, Times
from dimsweep.engine.extensions.astra_sim.fold import Folding, fold
from dimsweep.engine.extensions.astra_sim.interpret import interpret
from dimsweep.engine.extensions.astra_sim.lower import Row, lower_structure
from dimsweep.engine.extensions.astra_sim.plans import PS, NotLoweredError
from dimsweep.engine.extensions.astra_sim.rules import ItsRules
from dimsweep.engine.extensions.astra_sim.workload import is_gpu, is_hidden, own_time
from dimsweep.engine.formats.astra_sim.inputs import Inputs, topology_of
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
    return replace(program, replica=ItsRules())


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
