"""The closed form T(b) = K + sum of max a/b, and how far from it the event kernel can be.

Notation for a collective of C equal chunks: ``one`` is the duration of all phases of one chunk,
``busiest`` that of the phases on its busiest dimension.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import (
    Cluster,
    CollectiveKind,
    CollectiveModel,
    DimensionOrder,
    Npu,
    Program,
    QueueOrder,
    SubgroupBandwidth,
    Topology,
    lower,
    run_batch,
    run_one,
)
from dimsweep.engine.bound import closed_form
from dimsweep.engine.workload import TrainingLoop
from tests.support.examples import examples
from tests.support.programs import clusters, one_collective, topologies, training
from tests.support.reference import phases_of

BASELINE = (DimensionOrder.BASELINE,)
PICOSECONDS = 1e12


def time_of(program: Program) -> int:
    return int(run_one(program).measures.time[0])


@st.composite
def symmetric_clusters(draw: st.DrawFn) -> Cluster:
    """Where a chunk's all-gather lasts as long as its reduce-scatter, dimension by dimension.

    Reductions that take time, and switches that reduce, make the two differ.
    """
    cluster = draw(clusters(orders=BASELINE))
    names = ["auto" if a == "in_switch" else a for a in cluster.collectives.algorithms]
    return replace(
        cluster, npu=Npu(), collectives=replace(cluster.collectives, algorithms=tuple(names))
    )


def bounds(program: Program) -> tuple[int, int]:
    """Of a no-overlap iteration: every busiest dimension's work, and that plus the fill times.

    A dimension's work is what keeps its port busy.  A collective's fill time is ``one - busiest``:
    its first chunk on the way to the busiest dimension, its last on the way back, latencies
    included.
    """
    least = most = int(program.structure.nodes["duration"].sum())
    for chunks in phases_of(program).values():
        work = np.zeros(program.structure.shape.n_dims, dtype=np.int64)
        for phase in chunks[0]:
            work[phase.dim] += phase.hold
        busiest, one = int(work.max()), sum(phase.duration for phase in chunks[0])
        least += len(chunks) * busiest
        most += one + (len(chunks) - 1) * busiest
    return least, most


def n_transfers(program: Program) -> int:
    """How often a duration is rounded: once a step."""
    s = program.structure
    total = 0
    for flow in s.flows:
        form = s.forms[flow["form"]]
        for use in s.uses[form["use_start"] : form["use_end"]]:
            for number in (use["scatter"], use["gather"], use["fused"]):
                if number >= 0:
                    row = s.phase_steps[number]
                    steps = s.steps[row["step_start"] : row["step_end"]]
                    total += int(form["chunks"] * steps["count"].sum())
    return total


def test_by_hand() -> None:
    # All-reduce of 8 MB over 4 x 2: 2 * 8 * 3/4 = 12 MB, then 2 * 2 * 1/2 = 2 MB.
    topology = Topology.build("Ring(4)_Switch(2)", bandwidth=[1e9, 1e8], latency=[10**6, 10**6])
    form = closed_form(
        lower(one_collective(CollectiveKind.ALL_REDUCE, 8e6, (4, 2)), Cluster(topology))
    )
    assert form.compute == 0
    assert form.demand.tolist() == [[12e6, 2e6]]
    points = np.array([[1e9, 1e8], [1e9, 1e9], [6e9, 1e9]])
    assert form.time(points) == pytest.approx([20e-3, 12e-3, 2e-3])


def test_part_of_a_ring_demands_twice_its_bytes() -> None:
    topology = Topology.build("Ring(4)", bandwidth=[1e9], latency=[0])
    workload = one_collective(CollectiveKind.ALL_REDUCE, 8e6, (2,))
    for policy, demand in (("physical", 16e6), ("full", 8e6)):
        model = CollectiveModel(subgroup_bandwidth=SubgroupBandwidth(policy))
        form = closed_form(lower(workload, Cluster(topology, collectives=model)))
        assert form.demand.tolist() == [[demand]]


@examples(40)
@given(st.data())
def test_no_run_beats_the_closed_form(data: st.DataObject) -> None:
    """Whatever the order and queue; up to half a picosecond for every step that is rounded."""
    topology = data.draw(topologies())
    still = Topology(tuple(replace(dim, latency=0) for dim in topology.dims))
    model = CollectiveModel(
        chunks=data.draw(st.integers(1, 16)),
        queue=data.draw(st.sampled_from(list(QueueOrder))),
        subgroup_bandwidth=SubgroupBandwidth.FULL,
    )
    workload = data.draw(training(still.sizes, loops=(TrainingLoop.NO_OVERLAP,)))
    program = lower(workload, Cluster(still, collectives=model))
    best = float(closed_form(program).time(program.bandwidth)) * PICOSECONDS
    assert time_of(program) >= best * (1 - 1e-12) - 0.5 * n_transfers(program)


@examples(40)
@given(st.data())
def test_a_run_is_within_its_fill_time_of_the_busiest_dimension(data: st.DataObject) -> None:
    """Baseline order, no overlap.

    For all-reduces, whose chunks visit each dimension twice, the upper bound is an observation:
    none of 40,000 random ones broke it.  Where the two visits differ in length one in a thousand
    did (by three fill times at worst), hence the symmetric clusters.
    """
    cluster = data.draw(symmetric_clusters())
    workload = data.draw(training(cluster.topology.sizes, loops=(TrainingLoop.NO_OVERLAP,)))
    program = lower(workload, cluster)
    least, most = bounds(program)
    assert least <= time_of(program) <= most


@examples(40)
@given(
    st.data(),
    st.sampled_from(
        [CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_GATHER, CollectiveKind.ALL_TO_ALL]
    ),
)
def test_chunks_that_visit_each_dimension_once_pipeline_exactly(
    data: st.DataObject, kind: CollectiveKind
) -> None:
    """A flow shop of equal jobs: the first one's way, then one job per beat of the busiest."""
    cluster = data.draw(clusters(orders=BASELINE))
    workload = one_collective(kind, 1e6, cluster.topology.sizes)
    program = lower(workload, cluster)
    _, most = bounds(program)
    assert time_of(program) == most


@pytest.mark.parametrize("chunks", [1, 4, 16, 64, 256])
def test_more_chunks_come_closer(chunks: int) -> None:
    topology = Topology.build("Ring(4)_Switch(8)", bandwidth=[4e9, 1e9], latency=[0, 0])
    model = CollectiveModel(chunks=chunks)
    workload = one_collective(CollectiveKind.ALL_REDUCE, 2.0**30, (4, 8))
    program = lower(workload, Cluster(topology, collectives=model))
    best = float(closed_form(program).time(program.bandwidth)) * PICOSECONDS
    least, most = bounds(program)
    assert most - least == pytest.approx((6 / 8) / 4e9 * 2 * 2**30 * PICOSECONDS / chunks, rel=1e-3)
    assert best <= time_of(program) <= best * (1 + 1 / chunks)


# --- more bandwidth -----------------------------------------------------------------------------


def faster(program: Program, dim: int | None, factor: float) -> Program:
    """One dimension, or all together, by a factor."""
    bandwidth = program.bandwidth.copy()
    bandwidth[slice(None) if dim is None else dim] *= factor
    return program.rebind(bandwidth=bandwidth)


@examples(40)
@given(st.data(), st.floats(1, 10))
def test_more_bandwidth_never_costs_a_chunk_that_visits_once(
    data: st.DataObject, factor: float
) -> None:
    cluster = data.draw(clusters(orders=BASELINE))
    kind = data.draw(st.sampled_from(["reduce_scatter", "all_gather", "all_to_all"]))
    workload = one_collective(CollectiveKind(kind), 1e6, cluster.topology.sizes)
    program = lower(workload, cluster)
    for dim in (None, *range(len(cluster.topology.dims))):
        assert time_of(faster(program, dim, factor)) <= time_of(program)


ANOMALY = Topology.build(
    "Ring(2)_Ring(2)_FullyConnected(2)", bandwidth=[3e9, 4e9, 1e9], latency=[0, 0, 0]
)


def anomaly() -> Program:
    workload = one_collective(CollectiveKind.ALL_REDUCE, 144e3, (2, 2, 2))
    return lower(workload, Cluster(ANOMALY, collectives=CollectiveModel(chunks=3)))


def test_a_faster_dimension_can_cost_time() -> None:
    """A scheduling anomaly (Graham 1969), as first come, first served has them: dimension 1 at
    5 instead of 4 GB/s lets another chunk arrive first, and the all-reduce takes 1.4 % longer."""
    program = anomaly()
    times = run_batch(program, [[3e9, 4e9, 1e9], [3e9, 5e9, 1e9]]).time
    assert times.tolist() == [58_000_000, 58_800_000]


@examples(40)
@given(st.data(), st.floats(1, 10))
def test_more_bandwidth_costs_no_more_than_the_fill_time(
    data: st.DataObject, factor: float
) -> None:
    """What holds in spite of such anomalies, for one dimension and for all together."""
    cluster = data.draw(symmetric_clusters())
    workload = data.draw(training(cluster.topology.sizes, loops=(TrainingLoop.NO_OVERLAP,)))
    program = lower(workload, cluster)
    least, most = bounds(program)
    for dim in (None, *range(len(cluster.topology.dims))):
        assert time_of(faster(program, dim, factor)) <= time_of(program) + most - least


@examples(40)
@given(st.integers(1, 6), st.data())
def test_scaling_all_bandwidths_together_helps_where_only_transfers_take_time(
    exponent: int, data: st.DataObject
) -> None:
    """Nothing but the unit of time changes (by powers of two, so that nothing is rounded).

    With latencies or compute it is no more certain than for one dimension.
    """
    topology = data.draw(topologies(exact=True))
    still = Topology(tuple(replace(dim, latency=0) for dim in topology.dims))
    workload = data.draw(training(still.sizes, durations=[0]))
    program = lower(workload, Cluster(still, collectives=CollectiveModel(chunks=8)))
    assert time_of(program) <= time_of(faster(program, None, 2.0**-exponent))
