"""ASTRA-sim's inputs as a program that is simulated at any bandwidth, as any other program is."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from dimsweep.engine.cluster.cluster import Cluster
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.extensions.astra_sim.fold import fold
from dimsweep.engine.extensions.astra_sim.greedy import GREEDY
from dimsweep.engine.extensions.astra_sim.lower import Row, empty_structure, lower_structure
from dimsweep.engine.extensions.astra_sim.plans import PS, NotLoweredError
from dimsweep.engine.extensions.astra_sim.program import lower, program_on
from dimsweep.engine.formats.astra_sim.inputs import Inputs
from dimsweep.engine.formats.chakra.node import Node
from dimsweep.engine.lower import program as p


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
