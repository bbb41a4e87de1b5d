"""A lowered run of ASTRA-sim's simulation: simulated again and again, and at other bandwidths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine.cluster.cluster import Cluster
from engine.errors import DimsweepError
from engine.formats.astra_sim.files import topology_of
from engine.formats.astra_sim.inputs import Inputs
from engine.formats.chakra.node import COMMUNICATION, Node
from engine.kernels.phase.batch import Run, try_one
from engine.kernels.phase.state import FINISHED
from engine.lower import program as p
from engine.replicas.astra_sim.cycles import Cycles, Times
from engine.replicas.astra_sim.fold import Folding, fold, keeps_kinds
from engine.replicas.astra_sim.greedy import GREEDY
from engine.replicas.astra_sim.interpret import interpret
from engine.replicas.astra_sim.lower import Row, lower_structure
from engine.replicas.astra_sim.plans import PS, NotLoweredError
from engine.replicas.astra_sim.workload import is_gpu, is_hidden, own_time
from engine.workload.graph import Workload


@dataclass(frozen=True)
class Program:
    """Inputs and traces, folded and, where the phase kernel can run them, lowered.

    ``interpreted`` says why it cannot, or nothing.  :meth:`run` always gives the same answer as
    the plain Python of :func:`interpret`, which it falls back to.
    """

    inputs: Inputs
    traces: Sequence[Sequence[Node]]
    folding: Folding
    folded: bool
    structure: p.Structure | None
    rows: tuple[Row, ...]
    interpreted: str

    def run(self) -> Cycles:
        """Simulate.

        Raises :class:`DimsweepError` when ranks wait for one another for ever, naming them.
        """
        if self.structure is not None:
            run = try_one(self._phases(self.structure))
            if run.measures.outcome[0] == FINISHED:
                return self._cycles(run)
        options, bus = self.inputs.options, self.inputs.system.bus
        by_phase = self.folded and not (options.aware or options.rendezvous or bus)
        return interpret(self.inputs, self.traces, self.folding, by_phase=by_phase)

    def rebind(self, gigabytes: Sequence[float], latency: Sequence[float]) -> Program:
        """The same at other bandwidths, as in ``network.yml``: GB/s of 2^30 bytes of a link, and
        ns of a hop, for each dimension.

        Raises :class:`DimsweepError` for another number of them, or such as are not positive.
        """
        old = self.inputs.network
        right = {
            "bandwidth": len(gigabytes) == len(old.sizes) and all(b > 0 for b in gigabytes),
            "latency": len(latency) == len(old.sizes) and all(x >= 0 for x in latency),
        }
        for name, ok in right.items():
            if not ok:
                raise DimsweepError(
                    f"{len(old.sizes)} numbers are wanted, bandwidths above 0, latencies from 0",
                    where=name,
                )
        network = replace(
            old, gigabytes=tuple(map(float, gigabytes)), latency=tuple(map(float, latency))
        )
        inputs = replace(self.inputs, network=network)
        themis = inputs.system.inter_dimension in GREEDY  # whose orders depend on bandwidths
        whole = all(x * PS == round(x * PS) for x in network.latency)
        if self.structure is None or themis or not whole or not keeps_kinds(old, network):
            return lower(inputs, self.traces, folded=self.folded)
        return replace(self, inputs=inputs)

    def _phases(self, structure: p.Structure) -> p.Program:
        names = names_of(self.inputs, self.folding, self.rows)
        return program_of(structure, names, Cluster(topology_of(self.inputs.network)))

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
        return Cycles(self.folding.kind, tuple(Times(*of) for of in times), True, True)


def _covered(spans: list[tuple[int, int]]) -> int:
    """How much of the time some of the spans cover."""
    total, until = 0, 0
    for start, end in sorted(spans):
        total += max(0, end - max(start, until))
        until = max(until, end)
    return total


def names_of(inputs: Inputs, folding: Folding, rows: Sequence[Row]) -> p.Names:
    """What the numbers of a lowered run are called."""
    pairs = zip(inputs.network.blocks, inputs.network.sizes, strict=True)
    return p.Names(
        node=tuple(row.node.name for row in rows),
        stream=("communication", "cpu"),
        dims=tuple(f"{d}: {block.name}({size})" for d, (block, size) in enumerate(pairs)),
        tally=("communication",),
        class_count=tuple(np.bincount(folding.kind).tolist()),
        class_first=folding.first,
        flow_group=tuple(
            "" if row.kind is p.NodeKind.SEND else row.node.group or "all"
            for row in rows
            if row.kind in (p.NodeKind.COLLECTIVE, p.NodeKind.SEND)
        ),
    )


def program_of(structure: p.Structure, names: p.Names, cluster: Cluster) -> p.Program:
    """The program of the phase kernel, at the bandwidths of ``cluster``."""
    dims = cluster.topology.dims
    return p.Program(
        structure=structure,
        names=names,
        bandwidth=p.check_bandwidth([dim.bandwidth for dim in dims], len(dims)),
        latency=p.check_latency([dim.latency for dim in dims], len(dims)),
        prices=cluster.prices,
        workload=Workload(((),), name="traces"),
        cluster=cluster,
    )


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
    if not folded:
        return Program(inputs, traces, folding, folded, None, (), "every message was asked for")
    try:
        structure, rows = lower_structure(inputs, traces, folding)
    except NotLoweredError as error:
        return Program(inputs, traces, folding, folded, None, (), str(error))
    return Program(inputs, traces, folding, folded, structure, rows, "")
