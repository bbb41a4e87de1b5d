"""Messages that come on one link, or go over one, take turns: in phases as in messages."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import (
    Block,
    Cluster,
    CollectiveKind,
    CollectiveModel,
    Compute,
    Dimension,
    FullyConnected,
    GraphBuilder,
    Mesh2D,
    Npu,
    Operator,
    Receive,
    Ring,
    Send,
    SubgroupBandwidth,
    Switch,
    Topology,
    Torus2D,
    Workload,
    lower,
    run_batch,
)
from dimsweep.engine.kernels.network import run_messages
from dimsweep.engine.kernels.reference import run_on_simpy
from dimsweep.engine.kinds import Fidelity
from tests.support.examples import examples
from tests.support.messages import both, times
from tests.support.programs import one_collective

BANDWIDTH, N_BYTES = 1e11, 1e8
ONE = 1_000_000_000  # ps that a message takes at all of the bandwidth


def cluster_of(block: Block, n: int = 8, latency: int = 0) -> Cluster:
    return Cluster(Topology((Dimension(block, n, BANDWIDTH, latency),)))


def incast(senders: range, n: int = 8) -> Workload:
    """Each of the senders has a message for rank 0."""
    receives = GraphBuilder()
    for sender in senders:
        receives.add(f"from {sender}", Receive((sender,), sender))
    graphs = [receives.build()]
    for rank in range(1, n):
        builder = GraphBuilder()
        sends = Send(N_BYTES, (-rank,), rank) if rank in senders else Compute(duration=0)
        builder.add("send", sends)
        graphs.append(builder.build())
    return Workload(tuple(graphs), {}, np.arange(n))


@pytest.mark.parametrize("latency", [0, 500_000])
@pytest.mark.parametrize("k", [1, 2, 7])
def test_an_incast_takes_as_long_as_the_one_link_that_all_come_on(k: int, latency: int) -> None:
    phases, run = both(incast(range(1, k + 1)), cluster_of(Switch(), latency=latency))
    assert phases.time[0] == k * ONE + 2 * latency
    assert phases.path is not None
    assert phases.path.transfer.sum() == k * ONE, "of all, one after another"
    assert phases.path.latency.sum() == 2 * latency
    for name in ("time", "end", "exposed", "busy"):
        assert np.array_equal(getattr(phases, name), getattr(run.measures, name)), name


def test_who_sends_first_comes_first_whoever_is_simulated_first() -> None:
    """Senders run ahead of one another in simulation while nobody feels what they do."""
    graphs, n = [*incast(range(1, 8)).graphs], 8
    for rank in range(1, n):
        builder = GraphBuilder()
        begun = builder.add("begin", Compute(duration=rank))  # the last to send is the first here
        ready = builder.add("compute", Compute(duration=(n - rank) * ONE // 10 - rank), [begun])
        builder.add("send", Send(N_BYTES, (-rank,), rank), [ready])
        graphs[rank] = builder.build()
    phases, run = both(Workload(tuple(graphs), {}, np.arange(n)), cluster_of(Switch()))
    assert phases.end[0].tolist() == [7.1e9, *(0.1e9 + (n - rank) * ONE for rank in range(1, n))]
    assert np.array_equal(phases.end, run.measures.end)


@pytest.mark.parametrize(
    ("block", "senders", "links"),
    [
        (FullyConnected(), range(1, 8), 7),  # a link of 1/7 for each
        (Ring(), range(1, 8), 2 * 4),  # four come on one of two links, three on the other
        (Ring(), range(1, 4), 2 * 3),
        (Mesh2D(4, 2), range(1, 4), 3 * 3),  # of the same row: on one of three links
        (Torus2D(4, 2), range(1, 4), 3 * 2),  # from two sides
    ],
)
def test_an_incast_comes_on_as_many_links_as_there_are(
    block: Block, senders: range, links: int
) -> None:
    assert times(incast(senders), cluster_of(block)) == (links * ONE, links * ONE)


def shift(offset: int, senders: range, n: int = 8) -> Workload:
    """All senders have a message for the NPU ``offset`` further on, and run one graph."""
    targets = {(rank + offset) % n for rank in senders}
    graphs = []
    for rank in range(n):
        builder = GraphBuilder()
        if rank in senders:
            builder.add("send", Send(N_BYTES, (offset,)))
        if rank in targets:
            builder.add("receive", Receive((-offset,)))
        if not len(graph := builder.build()):
            builder.add("idle", Compute(duration=0))
            graph = builder.build()
        graphs.append(graph)
    kinds = list(dict.fromkeys(graphs))
    of_rank = [kinds.index(graph) for graph in graphs]
    return Workload(tuple(kinds), {}, np.array(of_rank))


@pytest.mark.parametrize(
    ("block", "offset", "senders", "links"),
    [
        (Ring(), 1, range(8), 2),
        (Ring(), 3, range(8), 2 * 3),  # three cross each link
        (Ring(), 6, range(8), 2 * 2),  # the other way round
        (Ring(), 4, range(4), 2 * 4),  # a stage's ranks to the next one's
        (Ring(), 4, range(0, 4, 2), 2 * 2),
        (Ring(), 2, range(0, 8, 4), 2),  # two ranks that never meet
        (Mesh2D(4, 2), 2, range(2), 3 * 2),
        (Torus2D(4, 4), 8, range(16), 4),  # even rows upwards, odd ones downwards
        (Switch(), 3, range(8), 1),
        (FullyConnected(), 3, range(8), 7),
    ],
)
def test_alike_messages_share_the_busiest_link(
    block: Block, offset: int, senders: range, links: int
) -> None:
    n = 16 if block == Torus2D(4, 4) else 8
    took = times(shift(offset, senders, n), cluster_of(block, n))
    assert took == (links * ONE, links * ONE)


def test_bandwidth_that_is_not_physical_is_not_shared() -> None:
    model = CollectiveModel(subgroup_bandwidth=SubgroupBandwidth.FULL)
    for workload in (shift(4, range(4)), incast(range(1, 8))):
        cluster = dataclasses.replace(cluster_of(Ring()), collectives=model)
        assert run_batch(lower(workload, cluster), [BANDWIDTH]).time[0] == ONE


@st.composite
def traffic(draw: st.DrawFn, n: int) -> tuple[tuple[Operator, ...], ...]:
    """Ranks that compute and send, at instants that are never the same, and receive at the end."""
    builders = [GraphBuilder() for _ in range(n)]
    receives: list[list[Receive]] = [[] for _ in range(n)]
    ones = draw(st.permutations(range(6 * n)))
    for tag in range(draw(st.integers(1, 3 * n))):
        source = draw(st.integers(0, n - 1))
        offset = draw(st.integers(1, n - 1))
        size = draw(st.sampled_from([1e6, 3e6, 10e6]))
        duration = draw(st.integers(0, 40)) * 1_000_000 + ones[tag]
        ready = builders[source].add(f"compute {tag}", Compute(duration=duration))
        builders[source].add(f"send {tag}", Send(size, (offset,), tag), [ready])
        receives[(source + offset) % n].append(Receive((-offset % n,), tag))
    for builder, each in zip(builders, receives, strict=True):
        builder.add("idle", Compute(duration=0))
        for number, receive in enumerate(each):
            builder.add(f"receive {number}", receive)
    return tuple(builder.build() for builder in builders)


@examples(60)
@given(st.data(), st.integers(2, 6), st.sampled_from([0, 700_000]))
def test_any_messages_over_a_switch_are_equal_in_every_number(
    data: st.DataObject, n: int, latency: int
) -> None:
    workload = Workload(data.draw(traffic(n)), {}, np.arange(n))
    phases, run = both(workload, cluster_of(Switch(), n, latency))
    for name in ("time", "end", "compute", "exposed", "busy"):
        assert np.array_equal(getattr(phases, name), getattr(run.measures, name)), name


@examples(60)
@given(st.data(), st.integers(2, 6), st.sampled_from([Switch(), Ring(), FullyConnected()]))
def test_folding_changes_no_message(data: st.DataObject, n: int, block: Block) -> None:
    """Replicas side by side, of which one is simulated; things happen at the same instant, too."""
    graphs = tuple(
        tuple(dataclasses.replace(each, work=_moved(each)) for each in graph)
        for graph in data.draw(traffic(n))
    )
    workload = Workload(graphs, {}, np.tile(np.arange(n), 3))
    dims = (Dimension(block, n, BANDWIDTH, 500_000), Dimension(Switch(), 3, BANDWIDTH, 0))
    cluster = Cluster(Topology(dims), Npu(), CollectiveModel())
    folded, unfolded = (lower(workload, cluster, fold=fold) for fold in (True, False))
    assert folded.structure.shape.n_classes <= n
    few, all_ranks = (run_batch(program, program.bandwidth) for program in (folded, unfolded))
    assert few.time[0] == all_ranks.time[0]
    assert np.array_equal(few.end[0], all_ranks.end[0][list(folded.names.class_first)])


def _moved(operator: Operator) -> object:
    """Its work in the first of two dimensions, computations in whole microseconds."""
    work = operator.work
    if isinstance(work, Compute):
        return Compute(duration=(work.duration or 0) // 1_000_000 * 1_000_000)
    return dataclasses.replace(work, offset=(*work.offset, 0))


@pytest.mark.parametrize(
    ("n", "p", "stride"), [(6, 2, 3), (6, 3, 1), (8, 2, 2), (8, 4, 1), (8, 4, 2)]
)
def test_parts_of_a_ring_have_the_same_latency_in_both(n: int, p: int, stride: int) -> None:
    for kind in CollectiveKind:
        for latency, chunks in ((1_000_000, 1), (1_000_000, 4), (0, 4)):
            cluster = cluster_of(Ring(), n, latency)
            cluster = dataclasses.replace(cluster, collectives=CollectiveModel(chunks=chunks))
            by_phases, by_messages = times(one_collective(kind, 1e6, (p,), (stride,)), cluster)
            assert by_phases == by_messages, (kind, latency, chunks)


@pytest.mark.parametrize("p", [3, 5, 6, 7, 9, 12])
@pytest.mark.parametrize(("reduce_bandwidth", "chunks"), [(None, 1), (BANDWIDTH / 3, 3)])
def test_members_of_rabenseifner_do_not_run_ahead_in_flows(
    p: int, reduce_bandwidth: float | None, chunks: int
) -> None:
    """Flows shared a link fairly with what was sent too early: all-reduces took 33 % longer for
    p = 3, 57 % for 5 and 77 % for 9.  Now it waits until it is asked for, as in MPICH."""
    model = CollectiveModel(algorithms=("rabenseifner",), chunks=chunks, endpoint_delay=10_000)
    cluster = dataclasses.replace(
        cluster_of(Switch(), p, 500_000),
        npu=Npu(reduce_bandwidth=reduce_bandwidth),
        collectives=model,
    )
    program = lower(one_collective(CollectiveKind.ALL_REDUCE, N_BYTES, (p,)), cluster, fold=False)
    by_phases = run_batch(program, program.bandwidth).time[0]
    by_message, by_flow = (
        run_messages(program, fidelity).measures.time[0]
        for fidelity in (Fidelity.MESSAGE, Fidelity.FLOW)
    )
    assert by_message == by_phases
    assert by_flow == pytest.approx(by_phases, abs=20 * chunks)
    witness = run_on_simpy(program, Fidelity.FLOW)
    assert witness.measures.time[0] == by_flow
