"""The phase kernel: cases worked out by hand, and an independent simulator as witness."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import (
    Cluster,
    Collective,
    CollectiveKind,
    CollectiveModel,
    Compute,
    Fidelity,
    GraphBuilder,
    Group,
    Npu,
    QueueOrder,
    Receive,
    Send,
    SubgroupBandwidth,
    Topology,
    Workload,
    lower,
    run_one,
    simulate,
)
from dimsweep.engine.lower.program import Lookahead
from tests.support.examples import examples
from tests.support.programs import clusters, one_collective, pipelines, tangles, training, uneven
from tests.support.reference import Simulator, exposed, phases_of

NS, US = 1000, 1_000_000  # in picoseconds
GB = 1e9

ALL_REDUCE = CollectiveKind.ALL_REDUCE


def duration(
    kind: CollectiveKind,
    n_bytes: float,
    shape: str,
    bandwidth: list[float],
    *,
    latency: int = 0,
    sizes: tuple[int, ...] = (),
    strides: tuple[int, ...] = (),
    npu: Npu = Npu(),  # noqa: B008 - it is immutable
    **model: object,
) -> int:
    """Picoseconds of one collective alone on a network."""
    topology = Topology.build(shape, bandwidth=bandwidth, latency=[latency] * len(bandwidth))
    workload = one_collective(kind, n_bytes, sizes or topology.sizes, strides)
    return simulate(workload, Cluster(topology, npu, CollectiveModel(**model))).time_ps


# --- one dimension, by hand ---------------------------------------------------------------------


def test_ring_all_reduce() -> None:
    # 3 + 3 steps of 0.25 MB at 100 GB/s, one hop each: 6 * (2.5 us + 500 ns + 10 ns).
    time = duration(
        ALL_REDUCE, 1e6, "Ring(4)", [100 * GB], latency=500 * NS, endpoint_delay=10 * NS, chunks=1
    )
    assert time == 6 * 3010 * NS


def test_fully_connected_all_reduce() -> None:
    # 1 + 1 steps of 0.75 MB over all three links.
    time = duration(
        ALL_REDUCE,
        1e6,
        "FullyConnected(4)",
        [100 * GB],
        latency=500 * NS,
        endpoint_delay=10 * NS,
        chunks=1,
    )
    assert time == 2 * (7500 + 500 + 10) * NS


def test_switch_all_reduce() -> None:
    # Halving: 0.5 MB, then 0.25 MB, two hops each; doubling the same backwards.
    time = duration(
        ALL_REDUCE, 1e6, "Switch(4)", [100 * GB], latency=500 * NS, endpoint_delay=10 * NS, chunks=1
    )
    assert time == 2 * ((5000 + 2500) + 2 * (2 * 500 + 10)) * NS


def test_switch_that_is_no_power_of_two() -> None:
    # Six members: three steps of 2, 2 and 1 sixths each way.
    time = duration(ALL_REDUCE, 6e5, "Switch(6)", [100 * GB], latency=500 * NS, chunks=1)
    assert time == 2 * ((2 + 2 + 1) * US + 3 * 2 * 500 * NS)


@pytest.mark.parametrize(
    ("kind", "time"),
    [
        (CollectiveKind.REDUCE_SCATTER, 3 * (2500 + 500)),
        # An all-gather starts from the shard: every step moves all of it.
        (CollectiveKind.ALL_GATHER, 3 * (10_000 + 500)),
        # A ring relays: in step 1 each link direction carries the neighbour's quarter and half of
        # the opposite one's, in step 2 that half again.
        (CollectiveKind.ALL_TO_ALL, (7500 + 500) + (2500 + 500)),
    ],
)
def test_other_collectives_on_a_ring(kind: CollectiveKind, time: int) -> None:
    assert duration(kind, 1e6, "Ring(4)", [100 * GB], latency=500 * NS, chunks=1) == time * NS


def test_reduction_takes_time_when_it_has_a_rate() -> None:
    # Each of the three reduce-scatter steps also adds 0.25 MB at 50 GB/s; the all-gather does not.
    fast = duration(ALL_REDUCE, 1e6, "Ring(4)", [100 * GB], chunks=1)
    slow = duration(
        ALL_REDUCE, 1e6, "Ring(4)", [100 * GB], chunks=1, npu=Npu(reduce_bandwidth=50 * GB)
    )
    assert slow - fast == 3 * 5000 * NS


def test_chunks_of_one_dimension_go_one_by_one() -> None:
    # Four chunks, each reduce-scattered and gathered; the latencies of the last pass after that.
    time = duration(ALL_REDUCE, 1e6, "Ring(4)", [100 * GB], latency=500 * NS, chunks=4)
    assert time == (4 * 6 * 625 + 6 * 500) * NS


def test_a_part_of_a_ring_is_a_line() -> None:
    # Two of four: half of the bandwidth.  Four of eight: also a wrap-around of three hops, once.
    two = duration(ALL_REDUCE, 1e6, "Ring(4)", [100 * GB], sizes=(2,), latency=500 * NS, chunks=1)
    assert two == 2 * (10_000 + 500) * NS
    four = duration(ALL_REDUCE, 1e6, "Ring(8)", [100 * GB], sizes=(4,), latency=500 * NS, chunks=1)
    assert four == 2 * (3 * 5000 + (3 + 1 + 1) * 500) * NS


def test_every_other_member_of_a_ring_shares_its_links() -> None:
    time = duration(
        ALL_REDUCE, 1e6, "Ring(8)", [100 * GB], sizes=(4,), strides=(2,), latency=500 * NS, chunks=1
    )
    assert time == 6 * (5000 + 2 * 500) * NS


def test_full_subgroup_bandwidth_ignores_all_that() -> None:
    times = {
        duration(
            ALL_REDUCE,
            1e6,
            shape,
            [100 * GB],
            sizes=(4,),
            chunks=1,
            subgroup_bandwidth=SubgroupBandwidth.FULL,
        )
        for shape in ("Ring(8)", "FullyConnected(8)", "Switch(8)")
    }
    assert times == {15 * US}


def test_a_group_of_one_is_free() -> None:
    assert duration(ALL_REDUCE, 1e6, "Ring(4)", [GB], sizes=(1,), latency=500 * NS) == 0


def test_an_empty_message_costs_latency() -> None:
    time = duration(ALL_REDUCE, 0.0, "Switch(4)", [GB], latency=500 * NS, chunks=3)
    assert time == 4 * 1000 * NS


def test_every_step_is_rounded_to_a_picosecond() -> None:
    # A third of 4 bytes at 1 B/ps is 1.33 ps: twice 1, not 2.67 rounded to 3.
    assert duration(CollectiveKind.REDUCE_SCATTER, 4, "Ring(3)", [1e12], chunks=1) == 2


# --- two dimensions, by hand --------------------------------------------------------------------


def test_chunks_pipeline_over_two_dimensions() -> None:
    # 1 B/ps on both.  A chunk of 8000 B: 4000 ps up dimension 0, 2000 up and 2000 down
    # dimension 1, 4000 down dimension 0.
    #   dim 0:  chunk 0 up 0-4000, chunk 1 up 4000-8000, chunk 0 down -12000, chunk 1 down -16000
    #   dim 1:  chunk 0 4000-6000-8000, chunk 1 8000-10000-12000
    shape = "FullyConnected(2)_Switch(2)"
    assert duration(ALL_REDUCE, 16_000, shape, [1e12, 1e12], chunks=2) == 16_000


def first_and_last_starts(queue: QueueOrder, chunks: int) -> list[list[int]]:
    """When each chunk of 8000 B starts its first and its last phase on the network above."""
    topology = Topology.build("FullyConnected(2)_Switch(2)", bandwidth=[1e12, 1e12], latency=[0, 0])
    model = CollectiveModel(chunks=chunks, queue=queue)
    workload = one_collective(ALL_REDUCE, 8000 * chunks, (2, 2))
    run = simulate(workload, Cluster(topology, collectives=model), record=True).run
    return run.state.phase_start.reshape(chunks, 4)[:, [0, 3]].tolist()


def test_fifo_serves_in_order_of_arrival() -> None:
    starts = first_and_last_starts(QueueOrder.FIFO, 3)
    assert starts == [[0, 12_000], [4000, 16_000], [8000, 20_000]]


def test_lifo_serves_the_newest_first() -> None:
    # All join at 0, the last on top.  At 8000 chunk 2 is back and goes before chunk 0, at 12000
    # chunk 1 is; chunk 0 has the network to itself.
    starts = first_and_last_starts(QueueOrder.LIFO, 3)
    assert starts == [[16_000, 24_000], [4000, 12_000], [0, 8000]]


def test_smallest_first_prefers_chunks_that_have_shrunk() -> None:
    # A chunk comes back with half of its bytes, so it goes before the others' first phase.
    starts = first_and_last_starts(QueueOrder.SMALLEST_FIRST, 4)
    assert starts == [[0, 8000], [4000, 12_000], [16_000, 24_000], [20_000, 28_000]]


def test_priority_goes_first() -> None:
    topology = Topology.build("Ring(2)", bandwidth=[1e12], latency=[0])
    builder = GraphBuilder()
    for name, priority in (("first", 0), ("low", 0), ("high", 1)):
        work = Collective(CollectiveKind.ALL_GATHER, 1000, "g", stream=name, priority=priority)
        builder.add(name, work)
    model = CollectiveModel(chunks=2, queue=QueueOrder.PRIORITY)
    run = run_one(
        lower(
            Workload((builder.build(),), {"g": Group((2,), (1,))}), Cluster(topology, Npu(), model)
        )
    )
    assert run.state.nodes["end"].tolist() == [2000, 3000, 1000]


@pytest.mark.parametrize(
    ("streams", "ends"),
    [
        (1, [3000, 6000, 9000]),
        (2, [3000, 5000, 7000]),
        (3, [3000, 5000, 7000]),
    ],
)
def test_collectives_of_a_group_take_its_streams_in_turn(streams: int, ends: list[int]) -> None:
    # Each takes dimension 1 for 1000 ps, then dimension 0 for 2000 ps.
    builder = GraphBuilder()
    for name in ("first", "second", "third"):
        builder.add(name, Collective(CollectiveKind.ALL_GATHER, 1000, "all"))
    topology = Topology.build("FullyConnected(2)_Switch(2)", bandwidth=[1e12, 1e12], latency=[0, 0])
    cluster = Cluster(topology, collectives=CollectiveModel(chunks=1, streams=streams))
    workload = Workload((builder.build(),), {"all": Group((2, 2), (1, 1))})
    run = run_one(lower(workload, cluster))
    assert run.state.nodes["end"].tolist() == ends
    assert (
        run.state.nodes["start"].tolist() == [[0, 3000, 6000], [0, 0, 3000], [0, 0, 0]][streams - 1]
    )
    assert run.program.names.stream == ("all", "all 2", "all 3")[:streams]


@pytest.mark.parametrize("queue", list(QueueOrder))
@pytest.mark.parametrize("fidelity", [Fidelity.PHASE, Fidelity.MESSAGE])
def test_a_message_waits_for_one_chunk_only(queue: QueueOrder, fidelity: Fidelity) -> None:
    # Each of eight chunks takes its port for 500 ps.  The messages come at 100 ps, when the first
    # chunk has begun; they go one after another at 500 ps, before the other seven chunks.
    builder = GraphBuilder()
    builder.add("gradients", Collective(CollectiveKind.ALL_GATHER, 4000, "g", priority=9))
    compute = builder.add("compute", Compute(duration=100))
    for tag in (0, 1):
        builder.add(f"send {tag}", Send(300, (1,), tag, stream=f"p2p {tag}"), [compute])
        builder.add(f"receive {tag}", Receive((1,), tag))
    topology = Topology.build("Switch(2)", bandwidth=[1e12], latency=[0])
    cluster = Cluster(topology, collectives=CollectiveModel(chunks=8, queue=queue))
    workload = Workload((builder.build(),), {"g": Group((2,), (1,))})
    run = simulate(workload, cluster, fidelity=fidelity, record=True)
    ends: dict[str, int] = {}
    for event in run.timeline()["traceEvents"]:
        if event["ph"] == "X":
            end = round((event["ts"] + event["dur"]) * US)
            ends[event["name"]] = max(end, ends.get(event["name"], 0))
    assert ends["send 0"] == ends["receive 0"] == 800
    assert ends["send 1"] == ends["receive 1"] == 1100
    assert ends["gradients"] == 8 * 500 + 2 * 300


def test_operators_ready_at_once_start_in_program_order() -> None:
    # The compute and the gather end at 1000 together; what waits for them shares a stream.
    builder = GraphBuilder()
    compute = builder.add("compute", Compute(duration=1000))
    gather = builder.add("gather", Collective(CollectiveKind.ALL_GATHER, 1000, "g"))
    for name, before in (("first", gather), ("second", compute)):
        work = Collective(CollectiveKind.ALL_GATHER, 500, "g", stream="shared")
        builder.add(name, work, [before])
    topology = Topology.build("Switch(2)", bandwidth=[1e12], latency=[0])
    cluster = Cluster(topology, collectives=CollectiveModel(chunks=1))
    run = run_one(lower(Workload((builder.build(),), {"g": Group((2,), (1,))}), cluster))
    assert run.state.nodes["end"].tolist() == [1000, 1000, 1500, 2000]


def test_chunks_that_move_at_once_queue_in_program_order() -> None:
    # Both gathers start at 0 and end their first phases, on dimensions 2 and 1, at 1000; the one
    # that comes first in the program also comes first on dimension 0.
    topology = Topology.build(
        "Switch(2)_Switch(2)_Switch(2)", bandwidth=[1e12] * 3, latency=[0] * 3
    )
    builder = GraphBuilder()
    for name, group in (("first", "outer"), ("second", "middle")):
        builder.add(name, Collective(CollectiveKind.ALL_GATHER, 1000, group))
    groups = {"outer": Group((2, 1, 2), (1, 1, 1)), "middle": Group((2, 2, 1), (1, 1, 1))}
    cluster = Cluster(topology, collectives=CollectiveModel(chunks=1))
    run = run_one(lower(Workload((builder.build(),), groups), cluster))
    assert run.state.nodes["end"].tolist() == [3000, 5000]


# --- point to point, by hand --------------------------------------------------------------------


def test_a_message_pays_every_latency_and_the_narrowest_bandwidth() -> None:
    # Dimension 0 is a ring: half of 4 B/ps, two hops of 100 ps.  Dimension 1 is a switch: 1 B/ps,
    # two hops of 1000 ps.  8000 B take 8000 ps on the switch.
    topology = Topology.build("Ring(4)_Switch(2)", bandwidth=[4e12, 1e12], latency=[100, 1000])
    builder = GraphBuilder()
    builder.add("send", Send(8000, (2, 1)))
    builder.add("receive", Receive((-2, -1)))
    cluster = Cluster(topology, collectives=CollectiveModel(endpoint_delay=7))
    assert simulate(Workload((builder.build(),)), cluster).time_ps == 8000 + 200 + 2000 + 7


@pytest.mark.parametrize("gigabyte", [1.0, 7.0, 12.0])  # of which a 49th rounds down, or up
def test_of_two_dimensions_as_narrow_a_message_takes_the_inner_port(gigabyte: float) -> None:
    topology = Topology.build(
        "Switch(2)_FullyConnected(50)",
        bandwidth=[gigabyte * GB, 49 * gigabyte * GB],
        latency=[0, 0],
    )
    builder = GraphBuilder()
    builder.add("send", Send(1000, (1, 1)))
    builder.add("receive", Receive((-1, -1)))
    run = simulate(Workload((builder.build(),), {}), Cluster(topology))
    assert run.breakdown.busy.tolist() == [[run.time_ps, 0]]


def relay(receiver_computes: int) -> tuple[int, int]:
    """Ends of compute and receive on rank 1, which gets 1000 ps of message sent at 500."""
    first, second = GraphBuilder(), GraphBuilder()
    first.add("send", Send(1000, (1,)), [first.add("compute", Compute(duration=500))])
    compute = second.add("compute", Compute(duration=receiver_computes))
    second.add("receive", Receive((1,)), [compute])
    workload = Workload((first.build(), second.build()), {}, np.array([0, 1]))
    topology = Topology.build("Switch(2)", bandwidth=[1e12], latency=[0])
    run = run_one(lower(workload, Cluster(topology)))
    return tuple(run.state.nodes["end"][2:].tolist())


def test_a_receive_waits_for_its_message() -> None:
    assert relay(receiver_computes=200) == (200, 1500)


def test_a_message_may_be_under_way() -> None:
    assert relay(receiver_computes=700) == (700, 1500)


def test_a_message_that_came_before_is_received_at_once() -> None:
    assert relay(receiver_computes=4000) == (4000, 4000)


def test_a_message_may_come_at_the_very_instant() -> None:
    assert relay(receiver_computes=1500) == (1500, 1500)


# --- the independent simulator ------------------------------------------------------------------


def check_against_reference(workload: Workload, cluster: Cluster) -> None:
    """Same times to the picosecond, for every operator and every chunk."""
    program = lower(workload, cluster)
    operators = workload.graphs[0]
    run = run_one(program, record=True)
    model = cluster.collectives
    simulator = Simulator(operators, phases_of(program), model.queue.name.lower(), model.streams)
    trace = simulator.run()

    assert run.measures.time[0] == trace.time
    nodes = run.state.nodes
    assert dict(enumerate(nodes["start"].tolist())) == trace.start
    assert dict(enumerate(nodes["end"].tolist())) == trace.end

    n_dims = len(cluster.topology.dims)
    busy = [sum(p.end - p.start for p in trace.served if p.dim == d) for d in range(n_dims)]
    assert run.measures.busy[0, 0].tolist() == busy
    total, by_dim = exposed(operators, trace, n_dims)
    assert run.measures.exposed[0, 0] == total
    assert run.measures.exposed_by_dim[0, 0] == pytest.approx(by_dim, rel=1e-9, abs=1e-3)


@examples(80)
@given(st.data())
def test_training_iterations_match_the_reference(data: st.DataObject) -> None:
    cluster = data.draw(clusters(), "cluster")
    workload = data.draw(training(cluster.topology.sizes), "workload")
    check_against_reference(workload, cluster)


@examples(80)
@given(st.data())
def test_tangles_of_operators_match_the_reference(data: st.DataObject) -> None:
    cluster = data.draw(clusters(), "cluster")
    workload = data.draw(tangles(cluster.topology.sizes), "workload")
    check_against_reference(workload, cluster)


# --- classes that go on by themselves -----------------------------------------------------------


@examples(60)
@given(st.data())
def test_going_ahead_of_the_other_classes_changes_nothing(data: st.DataObject) -> None:
    """Where every node counts as felt by others, all classes take part in every turn, and
    everything queues; the states must be the same bit by bit."""
    cluster = data.draw(clusters(max_npus=32))
    kind = data.draw(st.sampled_from([pipelines, training, tangles, uneven]))
    program = lower(data.draw(kind(cluster.topology.sizes)), cluster, fold=data.draw(st.booleans()))
    nodes = program.structure.nodes.copy()
    nodes["lookahead"] = Lookahead.NONE
    in_step = dataclasses.replace(program, structure=program.structure._replace(nodes=nodes))
    ahead, plain = run_one(program, record=True), run_one(in_step, record=True)
    for column in ("start", "end"):
        assert ahead.state.nodes[column].tolist() == plain.state.nodes[column].tolist(), column
    assert ahead.state.phase_critical.tolist() == plain.state.phase_critical.tolist()
    assert ahead.state.node_critical.tolist() == plain.state.node_critical.tolist()
    assert ahead.state.phase_start.tolist() == plain.state.phase_start.tolist()
    assert ahead.measures.path is not None and plain.measures.path is not None
    for mine, its in zip(
        (*ahead.measures[:-1], *ahead.measures.path),
        (*plain.measures[:-1], *plain.measures.path),
        strict=True,
    ):
        assert mine.tolist() == its.tolist()


def test_how_far_a_node_is_felt() -> None:
    """Two stages: work inside a stage, a message, and a collective of both."""
    groups = {
        "stage": Group((2, 1), (1, 1)),
        "both": Group((1, 2), (1, 1)),
        "one": Group((1, 1), (1, 1)),
    }
    graphs = []
    for message in (Send(1.0, (0, 1)), Receive((0, -1))):
        builder = GraphBuilder()
        compute = builder.add("compute", Compute(duration=1))
        inside = builder.add("inside", Collective(ALL_REDUCE, 1.0, "stage"), [compute])
        moved = builder.add("message", message, [inside])
        one = builder.add("one", Collective(ALL_REDUCE, 1.0, "one"), [moved])
        before = builder.add("before", Compute(duration=1), [one])
        both = builder.add("both", Collective(ALL_REDUCE, 1.0, "both"), [before])
        builder.add("last", Compute(duration=1), [both])
        graphs.append(builder.build())
    topology = Topology.build("Ring(2)_Ring(2)", bandwidth=[1e9, 1e9], latency=[0, 0])
    workload = Workload(tuple(graphs), groups, np.array([0, 0, 1, 1]))
    lookahead = lower(workload, Cluster(topology)).structure.nodes["lookahead"].tolist()
    rest = [Lookahead.NONE, Lookahead.UNTIL_END, Lookahead.NONE, Lookahead.UNTIL_END]
    assert lookahead == [
        Lookahead.FULL,
        Lookahead.FULL,
        Lookahead.UNTIL_END,
        *rest,
        Lookahead.FULL,
        Lookahead.UNTIL_END,
        Lookahead.NONE,
        *rest,
    ]
