"""How a run answers to its units: twice as fast is twice as fast, and bytes are bytes."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import (
    Block,
    Cluster,
    Collective,
    CollectiveKind,
    CollectiveModel,
    Compute,
    DimensionOrder,
    Npu,
    Operator,
    QueueOrder,
    Receive,
    Send,
    SubgroupBandwidth,
    Topology,
    Workload,
    account,
    lower,
    run_batch,
    simulate,
)
from dimsweep.engine.bound import traffic
from dimsweep.engine.topology import BLOCKS
from dimsweep.engine.workload import TrainingLoop
from tests.support.examples import examples
from tests.support.programs import (
    LATENCIES,
    bytes_by_dim,
    clusters,
    one_collective,
    pipelines,
    tangles,
    topologies,
    training,
    uneven,
)


def slower(workload: Workload, cluster: Cluster) -> tuple[Workload, Cluster]:
    """Everything takes twice as long: half the rates, double the times."""

    def twice(operator: Operator) -> Operator:
        if not isinstance(operator.work, Compute):
            return operator
        return replace(operator, work=Compute(duration=2 * operator.work.duration))

    graphs = tuple(tuple(map(twice, graph)) for graph in workload.graphs)
    dims = tuple(
        replace(dim, bandwidth=dim.bandwidth / 2, latency=2 * dim.latency)
        for dim in cluster.topology.dims
    )
    model, rate = cluster.collectives, cluster.npu.reduce_bandwidth
    return replace(workload, graphs=graphs), Cluster(
        Topology(dims),
        Npu(reduce_bandwidth=rate and rate / 2),
        replace(model, endpoint_delay=2 * model.endpoint_delay),
    )


@st.composite
def exact_clusters(draw: st.DrawFn, max_npus: int) -> Cluster:
    """Where every transfer of the sizes below is a whole number of picoseconds."""
    model = CollectiveModel(
        chunks=draw(st.sampled_from([1, 2, 8])),
        order=draw(st.sampled_from(list(DimensionOrder))),
        queue=draw(st.sampled_from(list(QueueOrder))),
        subgroup_bandwidth=draw(st.sampled_from(list(SubgroupBandwidth))),
        endpoint_delay=draw(st.sampled_from([0, 10_000])),
    )
    npu = Npu(reduce_bandwidth=draw(st.sampled_from([None, 1e12 / 64])))
    return Cluster(draw(topologies(max_npus=max_npus, exact=True)), npu, model)


def with_exact_sizes(workload: Workload) -> Workload:
    def rounded(operator: Operator) -> Operator:
        if not isinstance(operator.work, (Collective, Send)):
            return operator
        n_bytes = float(2**20 * (round(operator.work.n_bytes) % 3))
        return replace(operator, work=replace(operator.work, n_bytes=n_bytes))

    return replace(workload, graphs=tuple(tuple(map(rounded, graph)) for graph in workload.graphs))


@examples(40)
@given(st.data())
def test_half_as_fast_takes_exactly_twice_as_long(data: st.DataObject) -> None:
    """Without rounding, time is only a unit: all schedules and ties stay as they are."""
    cluster = data.draw(exact_clusters(max_npus=64))
    kind = data.draw(st.sampled_from([training, tangles, uneven, pipelines]))
    workload = with_exact_sizes(data.draw(kind(cluster.topology.sizes)))
    fast, slow = simulate(workload, cluster), simulate(*slower(workload, cluster))
    assert slow.time_ps == 2 * fast.time_ps
    assert slow.breakdown.exposed[0] == 2 * fast.breakdown.exposed[0]
    assert slow.breakdown.busy.tolist() == (2 * fast.breakdown.busy).tolist()
    assert slow.bytes_by_dim == fast.bytes_by_dim


@given(
    st.sampled_from(list(BLOCKS.values())),
    st.integers(2, 33),
    st.floats(1e8, 1e12),
    st.sampled_from(LATENCIES),
    st.floats(0, 1e9),
    st.integers(1, 16),
)
def test_half_as_fast_takes_twice_as_long_up_to_rounding(
    block: Block, p: int, bandwidth: float, latency: int, n_bytes: float, chunks: int
) -> None:
    """A transfer is rounded by half a picosecond at most: 1/2 in one run, twice 1/2 in the other.

    On one dimension nothing else can differ.  On more, a picosecond may decide who goes first.
    """
    workload = one_collective(CollectiveKind.ALL_REDUCE, n_bytes, (p,))
    topology = Topology.build(f"{block.name}({p})", bandwidth=[bandwidth], latency=[latency])
    cluster = Cluster(topology, Npu(), CollectiveModel(chunks=chunks))
    fast, slow = simulate(workload, cluster), simulate(*slower(workload, cluster))
    n_transfers = chunks * 2 * (p - 1)  # at most: a ring's
    assert abs(slow.time_ps - 2 * fast.time_ps) <= 1.5 * n_transfers


@examples(30)
@given(st.data())
def test_bytes_follow_from_the_workload_alone(data: st.DataObject) -> None:
    """LIBRA's formulas give what an NPU sends; bandwidth, queues and chunks cannot change it."""
    cluster = data.draw(clusters(max_npus=512, orders=(DimensionOrder.BASELINE,)))
    # Tree, switch and Rabenseifner have sums of their own (see test_algorithms).
    auto = replace(cluster.collectives, algorithms=(), subgroup_bandwidth=SubgroupBandwidth.FULL)
    cluster = replace(cluster, collectives=auto)
    workload = data.draw(training(cluster.topology.sizes))
    rings = (False,) * len(cluster.topology.dims)  # nothing is relayed under `full`
    expected = sum(
        np.array(bytes_by_dim(operator.work, workload.groups[operator.work.group], rings))
        for operator in workload.graphs[0]
        if isinstance(operator.work, Collective)
    ) + np.zeros(len(rings))

    program = lower(workload, cluster)
    assert traffic(program) == pytest.approx(expected, rel=1e-12)
    bandwidth = np.outer([1.0, 0.3, 77.0], program.bandwidth)
    measures = run_batch(program, bandwidth)
    moved = account(program, bandwidth, measures).bytes_sent
    assert moved[0] == pytest.approx(expected, rel=1e-12)
    assert moved[1].tolist() == moved[2].tolist() == moved[0].tolist()


@pytest.mark.parametrize("kind", list(CollectiveKind))
def test_all_to_all_on_whole_rings_counts_relayed_bytes(kind: CollectiveKind) -> None:
    topology = Topology.build(
        "Ring(5)_Switch(3)_Ring(4)", bandwidth=[1e9, 2e9, 3e9], latency=[0, 0, 0]
    )
    workload = one_collective(kind, 60_000.0, (5, 3, 4))
    work, group = workload.graphs[0][0].work, workload.groups["all"]
    expected = bytes_by_dim(work, group, (True, False, True))
    result = simulate(workload, Cluster(topology))
    assert list(result.bytes_by_dim.values()) == pytest.approx(expected, rel=1e-12)


def test_messages_count_in_every_dimension_they_cross() -> None:
    topology = Topology.build("Ring(4)_Switch(2)_Ring(2)", bandwidth=[1e9] * 3, latency=[0] * 3)
    send, receive = (
        Operator("send", Send(1000.0, (1, 1, 0))),
        Operator("receive", Receive((-1, -1, 0))),
    )
    result = simulate(Workload(((send, receive),)), Cluster(topology))
    assert list(result.bytes_by_dim.values()) == [1000, 1000, 0]


@examples(20)
@given(st.data())
def test_no_overlap_is_a_plain_sum(data: st.DataObject) -> None:
    """LIBRA's loop: the time is that of all compute and of every collective alone."""
    cluster = data.draw(clusters())
    workload = data.draw(training(cluster.topology.sizes, loops=(TrainingLoop.NO_OVERLAP,)))
    total = 0
    for operator in workload.graphs[0]:
        alone = Workload(((replace(operator, after=()),),), workload.groups)
        total += simulate(alone, cluster).time_ps
    assert simulate(workload, cluster).time_ps == total
