"""The self-check of an order of dimensions."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from dimsweep.engine import Program, lower, simulate
from dimsweep.engine.cluster.cluster import Cluster, CollectiveModel
from dimsweep.engine.fidelity import Fidelity
from dimsweep.engine.kernels.phase.batch import times_of
from dimsweep.engine.kinds import CollectiveKind, DimensionOrder
from dimsweep.engine.testing.findings import told
from dimsweep.engine.topology.topology import Topology
from dimsweep.engine.workload.graph import Collective, Group, Workload

_SHAPE = "Switch(4)_FullyConnected(2)_Ring(4)"
_SIZES = (4, 2, 4)
_BANDWIDTHS = ((1e11, 1e11, 1e11), (4e11, 1e11, 2.5e10), (1e10, 5e10, 2e11))  # bytes/s
_KINDS = (CollectiveKind.ALL_REDUCE, CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_GATHER)
_CHUNKS = 8
_N_BYTES = 1.6e7
_ROUNDING = 1e-4  # of the time


def check_order(name: str) -> None:
    """Hold a registered order of dimensions against what all of them must be.

    Over three dimensions, at three splits of bandwidth, for each kind of collective that has an
    order: each chunk visits each dimension once, and an all-reduce comes back the way that it
    went; the whole takes as long by phases as by messages.

    Raises :class:`DimsweepError` that says what does not hold.
    """
    named: Any = name  # a member, as its number is
    told(_findings(DimensionOrder(named)), f"order {name}")


def _findings(order: DimensionOrder) -> Iterator[str]:
    for bandwidth in _BANDWIDTHS:
        for kind in _KINDS:
            where = f"{kind} at {'/'.join(f'{each / 1e9:g}' for each in bandwidth)} GB/s"
            workload, cluster = _case(kind, bandwidth, order)
            wrong = list(_strange(lower(workload, cluster), kind))
            yield from (f"{where}: {each}" for each in wrong[:1])
            if wrong:
                continue  # messages would wait for ever
            by_phase, by_message = (
                simulate(workload, cluster, fidelity=each).time_ps
                for each in (Fidelity.PHASE, Fidelity.MESSAGE)
            )
            if abs(by_message - by_phase) > _ROUNDING * by_phase:
                yield f"{where}: {by_phase} ps by phases, {by_message} ps by messages"


def _case(
    kind: CollectiveKind, bandwidth: tuple[float, ...], order: DimensionOrder
) -> tuple[Workload, Cluster]:
    topology = Topology.build(_SHAPE, bandwidth=[*bandwidth], latency=[0] * len(_SIZES))
    n_bytes = _N_BYTES / np.prod(_SIZES) if kind is CollectiveKind.ALL_GATHER else _N_BYTES
    whole = Group(_SIZES, (1,) * len(_SIZES))
    workload = Workload.of_one(Collective(kind, float(n_bytes), "all"), whole)
    return workload, Cluster(topology, collectives=CollectiveModel(chunks=_CHUNKS, order=order))


def _strange(program: Program, kind: CollectiveKind) -> Iterator[str]:
    times = times_of(program)
    (span,) = times.spans
    for chunk in range(span["variants"]):
        start = span["start"] + chunk * span["length"]
        ways = times.phases["dim"][start : start + span["length"]]
        way = [int(dim) for dim in ways if dim >= 0]
        fused = 1 if kind is CollectiveKind.ALL_REDUCE and len(way) < len(ways) else 0
        there = way[: len(_SIZES)]
        if sorted(there) != list(range(len(_SIZES))):
            yield f"chunk {chunk} visits the dimensions {there}"
        elif kind is CollectiveKind.ALL_REDUCE and way[len(_SIZES) :] != there[::-1][fused:]:
            yield f"chunk {chunk} comes back over {way[len(_SIZES) :]}"
