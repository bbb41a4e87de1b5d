"""What a run means: shares that add up, a timeline that opens, an error that names who waits."""

import json
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from typing import Any

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
    DimensionOrder,
    DimsweepError,
    Fidelity,
    GraphBuilder,
    Group,
    NetworkModel,
    Prices,
    Receive,
    Result,
    Send,
    Topology,
    Workload,
    account,
    lower,
    outcome_error,
    run_batch,
    run_one,
    simulate,
)
from dimsweep.engine.kernels.messages import lower_by_rank
from dimsweep.engine.kernels.network import run_messages
from dimsweep.engine.lower.program import NodeKind
from dimsweep.engine.network import Level, build_levels
from dimsweep.engine.workload import Communication, Layer, Pass, TrainingLoop, training_iteration
from tests.support.examples import examples
from tests.support.programs import (
    axes,
    clusters,
    layers,
    one_collective,
    pipelines,
    tangles,
    training,
    uneven,
)
from tests.support.refused import refused
from tests.support.traces import check_format

ALL_REDUCE = CollectiveKind.ALL_REDUCE
PAIR = Cluster(
    Topology.build("Switch(2)", bandwidth=[1e12], latency=[0]),
    collectives=CollectiveModel(chunks=1),
)
BOTH = Group((2,), (1,))
EITHER = np.array([0, 1])
# Picoseconds: at most 25 operators of 16 chunks that go up and down in at most 7 steps.
ROUNDING = 0.5 * 25 * 16 * 2 * 7


# --- shares -------------------------------------------------------------------------------------


@examples(40)
@given(st.data())
def test_shares_add_up(data: st.DataObject) -> None:
    """Someone always runs until the last rank ends: time is compute plus exposed communication."""
    cluster = data.draw(clusters(max_npus=64))
    kind = data.draw(st.sampled_from([training, tangles, uneven, pipelines]))
    workload = data.draw(kind(cluster.topology.sizes))
    result = simulate(workload, cluster)
    b = result.breakdown
    assert b.compute[0] + b.exposed[0] == b.time[0] == result.time_ps
    assert b.exposed_by_dim[0].sum() == pytest.approx(b.exposed[0], rel=1e-9, abs=1e-3)
    assert b.exposed_by_tally[0].sum() == pytest.approx(b.exposed[0], rel=1e-9, abs=1e-3)
    assert (b.busy[0] <= b.time[0]).all()


@examples(40)
@given(st.data())
def test_utilisation_is_a_share(data: st.DataObject) -> None:
    """No port sends more than it can while it is busy.

    Up to rounding: a transfer of less than half a picosecond takes no time at all.
    """
    cluster = data.draw(clusters(max_npus=64))
    kind = data.draw(st.sampled_from([training, tangles, uneven, pipelines]))
    workload = data.draw(kind(cluster.topology.sizes))
    b = simulate(workload, cluster).breakdown
    needed = b.bytes_sent[0] / [dim.bandwidth for dim in cluster.topology.dims] * 1e12
    assert (b.busy[0] >= needed * (1 - 1e-9) - ROUNDING).all()
    assert (b.utilisation >= 0).all()
    assert (b.utilisation[0] * b.time[0] <= b.time[0] + ROUNDING).all()


def test_a_port_that_never_rests_is_fully_used() -> None:
    topology = Topology.build("Ring(4)_Switch(2)", bandwidth=[1e9, 1e12], latency=[0, 0])
    workload = one_collective(ALL_REDUCE, 64e6, (4, 1))
    result = simulate(workload, Cluster(topology))
    assert list(result.utilisation.values()) == pytest.approx([1, 0], abs=1e-9)


def overlapped(compute: int) -> Result:
    """1000 ps of collective beside ``compute`` ps of compute."""
    builder = GraphBuilder()
    builder.add("compute", Compute(duration=compute))
    builder.add("gather", Collective(CollectiveKind.ALL_GATHER, 1000, "g"))
    return simulate(Workload((builder.build(),), {"g": BOTH}), PAIR)


@pytest.mark.parametrize(("compute", "exposed"), [(0, 1000), (300, 700), (1000, 0), (5000, 0)])
def test_only_what_compute_does_not_hide_is_exposed(compute: int, exposed: int) -> None:
    breakdown = overlapped(compute).breakdown
    assert breakdown.compute[0] == compute and breakdown.exposed[0] == exposed
    assert breakdown.exposed_by_dim[0].tolist() == [exposed, 0]


def test_two_collectives_at_once_share_the_exposed_time() -> None:
    # The gather takes 1000 ps on dimension 0, the scatter 500 ps on dimension 1.
    topology = Topology.build("Switch(2)_Switch(2)", bandwidth=[1e12, 1e12], latency=[0, 0])
    builder = GraphBuilder()
    builder.add("gather", Collective(CollectiveKind.ALL_GATHER, 1000, "inner"))
    builder.add("scatter", Collective(CollectiveKind.REDUCE_SCATTER, 1000, "outer"))
    groups = {"inner": Group((2, 1), (1, 1)), "outer": Group((1, 2), (1, 1))}
    model = CollectiveModel(chunks=1)
    result = simulate(Workload((builder.build(),), groups), Cluster(topology, collectives=model))
    # Together for 500 ps, then the gather alone.
    assert result.breakdown.exposed_by_dim[0].tolist() == [750, 250, 0]
    assert list(result.breakdown.exposed_by_tally[0]) == [750, 250]
    assert result.time_ps == 1000


def test_waiting_for_a_slower_rank_is_its_own_share() -> None:
    graphs = []
    for compute in (100, 900):
        builder = GraphBuilder()
        before = builder.add("compute", Compute(duration=compute))
        builder.add("gather", Collective(CollectiveKind.ALL_GATHER, 1000, "g"), [before])
        graphs.append(builder.build())
    run = run_one(lower(Workload(tuple(graphs), {"g": BOTH}, EITHER), PAIR))
    # Rank 0 waits for 800 ps; both exchange for 1000 ps.
    assert run.measures.exposed_by_dim[0].tolist() == [[1000, 800], [1000, 0]]
    assert run.measures.compute[0].tolist() == [100, 900]


@examples(40)
@given(st.data())
def test_overlap_hides_communication(data: st.DataObject) -> None:
    """On one dimension, which never rests while there is work for it, overlap can only help.

    On several, chunks of two collectives can be in each other's way: two of 30,000 random
    iterations took up to 0.7 % longer.
    """
    cluster = data.draw(clusters(max_dims=1, orders=(DimensionOrder.BASELINE,)))
    groups = data.draw(axes(cluster.topology.sizes))
    some_layers = data.draw(layers(groups))
    results = []
    for loop in TrainingLoop:
        workload = Workload((training_iteration(some_layers, loop),), groups)
        results.append(simulate(workload, cluster).breakdown)
    blocking, overlapping = results
    assert blocking.compute[0] == overlapping.compute[0]
    assert blocking.bytes_sent.tolist() == overlapping.bytes_sent.tolist()
    assert overlapping.exposed[0] <= blocking.exposed[0]


def test_gradients_hide_behind_the_backward_pass() -> None:
    """Three layers, each 1000 ps of weight gradients and 1000 ps to sum them up."""
    builder, last = GraphBuilder(), []
    for i in range(3):
        last = [builder.add(f"layer{i}", Compute(duration=1000), last)]
        builder.add(f"sum{i}", Collective(CollectiveKind.ALL_GATHER, 1000, "g"), last)
    result = simulate(Workload((builder.build(),), {"g": BOTH}), PAIR)
    assert result.time_ps == 4000 and result.breakdown.exposed[0] == 1000


def test_weight_gradients_that_come_first_are_exchanged_beside_the_input_gradients() -> None:
    exchange = Communication(CollectiveKind.ALL_GATHER, 1000, "g")
    layer = Layer(
        "layer",
        forward=Pass(Compute(duration=1000)),
        input_grad=Pass(Compute(duration=1000)),
        weight_grad=Pass(Compute(duration=1000), exchange),
    )
    times = [
        simulate(Workload((graph,), {"g": BOTH}), PAIR).time_ps
        for graph in (
            training_iteration(
                [layer], TrainingLoop.OVERLAP_GRADIENTS, weight_gradients_first=first
            )
            for first in (False, True)
        )
    ]
    assert times == [4000, 3000]


# --- cost ---------------------------------------------------------------------------------------


def test_cost_and_performance_per_cost() -> None:
    cluster = replace(PAIR, prices=Prices((5e-9,), fixed=1000.0))
    result = simulate(one_collective(ALL_REDUCE, 1e6, (2,)), cluster)
    assert result.time == pytest.approx(1e-6)
    assert result.cost == 1000 + 5e-9 * 1e12
    assert result.perf_per_cost == pytest.approx(1e6 / 6000)


def test_without_prices_there_is_no_cost() -> None:
    result = simulate(one_collective(ALL_REDUCE, 1e6, (2,)), PAIR)
    assert result.cost is None and result.perf_per_cost is None


def test_results_are_in_seconds_and_named() -> None:
    topology = Topology.build("Ring(4)_Switch(2)", bandwidth=[1e9, 2e9], latency=[0, 0])
    builder = GraphBuilder()
    before = builder.add("compute", Compute(duration=10**9))
    builder.add("sum", Collective(ALL_REDUCE, 8e6, "g"), [before])
    groups = {"g": Group((4, 2), (1, 1))}
    result = simulate(Workload((builder.build(),), groups), Cluster(topology))
    assert result.time == result.time_ps / 1e12
    assert result.compute == 1e-3
    assert result.exposed == pytest.approx(result.time - 1e-3)
    assert list(result.exposed_by_dim) == ["0: Ring(4)", "1: Switch(2)", "waiting"]
    assert list(result.exposed_by_collective) == ["all_reduce g"]
    assert result.bytes_by_dim == {"0: Ring(4)": 12e6, "1: Switch(2)": 2e6}


def test_an_account_of_a_batch_is_that_of_its_rows() -> None:
    topology = Topology.build("Ring(4)_Switch(2)", bandwidth=[1e9, 2e9], latency=[0, 0])
    program = lower(one_collective(ALL_REDUCE, 8e6, (4, 2)), Cluster(topology))
    points = np.array([[1e9, 2e9], [5e9, 1e9], [2e9, 2e9]])
    rows = account(program, points, run_batch(program, points))
    for i, point in enumerate(points):
        alone = Result(run_one(program.rebind(bandwidth=point))).breakdown
        assert alone.utilisation[0].tolist() == rows.utilisation[i].tolist()
        assert alone.exposed_by_dim[0].tolist() == rows.exposed_by_dim[i].tolist()


# --- timeline -----------------------------------------------------------------------------------


def check_trace(result: Result) -> None:
    """Spans of known threads, none overlapping on one of them."""
    trace = result.timeline()
    check_format(trace)
    events = trace["traceEvents"]
    threads = {
        (event["pid"], event["tid"]): event["args"]["name"].removesuffix(", concurrent")
        for event in events
        if event["name"] == "thread_name"
    }
    kinds = result.program.structure.nodes["kind"].tolist()
    nodes = list(zip(result.program.names.node, kinds, strict=True))
    computing = {name for name, kind in nodes if kind == NodeKind.COMPUTE}
    receiving = {name for name, kind in nodes if kind == NodeKind.RECEIVE}
    by_thread: dict[tuple[int, int], list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            by_thread[event["pid"], event["tid"]].append(event)
    for thread, its_events in by_thread.items():
        names = {event["name"] for event in its_events}
        if threads[thread] == "compute":
            assert names <= computing
        elif threads[thread] == "receives":
            assert names <= receiving
        else:
            assert not names & (computing | receiving)
        its_events.sort(key=lambda event: (event["ts"], event["dur"]))
        # Units run one operator at a time, dimensions serve one chunk at a time.
        for one, next_one in pairwise(its_events):
            assert one["ts"] + one["dur"] <= next_one["ts"] + 1e-6
    ends = [event["ts"] + event["dur"] for event in events if event["ph"] == "X"]
    assert max(ends, default=0) == pytest.approx(result.time_ps / 1e6)


@examples(40)
@given(st.data())
def test_timelines(data: st.DataObject) -> None:
    cluster = data.draw(clusters(max_npus=16))
    kind = data.draw(st.sampled_from([training, tangles, uneven, pipelines]))
    workload = data.draw(kind(cluster.topology.sizes))
    check_trace(simulate(workload, cluster, record=True))


def test_a_timeline_tells_bytes_groups_and_chunks_and_what_was_left_out() -> None:
    topology = Topology.build("Ring(4)_Switch(2)", bandwidth=[1e9, 2e9], latency=[10, 10])
    model = CollectiveModel(chunks=64)
    builder = GraphBuilder()
    before = builder.add("compute", Compute(duration=10**9))
    reduced = builder.add("reduce", Collective(ALL_REDUCE, 8e6, "g"), [before])
    builder.add("more", Compute(duration=10**6), [reduced])
    workload = Workload((builder.build(),), {"g": Group((4, 2), (1, 1))})
    result = simulate(workload, Cluster(topology, collectives=model), record=True)
    trace = result.timeline()
    check_format(trace)
    spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert trace["otherData"]["holds"] == f"all spans ({len(spans)})"
    (whole,) = (event["args"] for event in spans if event["cat"] == "collective")
    assert (whole["bytes"], whole["group"], whole["ranks"]) == (8_000_000, "g", "0-7")
    assert whole["dimension"] == "0: Ring(4), 1: Switch(2)"
    phases = [event["args"] for event in spans if event["cat"] == "phase"]
    assert {each["chunk"] for each in phases} == {f"{i + 1} of 64" for i in range(64)}
    sent = sum(each["bytes"] for each in phases if each["dimension"] == "0: Ring(4)")
    assert sent == pytest.approx(2 * 0.75 * 8e6)
    assert sum(event["ph"] == "s" for event in trace["traceEvents"]) > 100
    counters = [event for event in trace["traceEvents"] if event["ph"] == "C"]
    assert 0.5 < max(each["args"]["value"] for each in counters if "Ring" in each["name"]) <= 1.0

    size = len(result.timeline_file()[0])
    content, holds = result.timeline_file(size // 2)
    assert len(content) <= size // 2 and holds in content.decode()
    assert f"of {len(spans)} spans: all that start before" in holds
    check_format(json.loads(content))
    with refused("timeline_limit", "out-of-range", "100"):
        result.timeline(100)


def test_recording_changes_nothing() -> None:
    topology = Topology.build("Ring(4)_Switch(2)", bandwidth=[1e9, 2e9], latency=[10, 10])
    workload = one_collective(ALL_REDUCE, 8e6, (4, 2))
    times = {
        simulate(workload, Cluster(topology), record=record).time_ps for record in (False, True)
    }
    assert len(times) == 1


def test_a_timeline_needs_a_recording() -> None:
    with refused("", "missing", "record=True"):
        simulate(one_collective(ALL_REDUCE, 8.0, (2,)), PAIR).timeline()


def test_a_timeline_of_compute_alone_needs_none() -> None:
    builder = GraphBuilder()
    builder.add("compute", Compute(duration=5))
    check_trace(simulate(Workload((builder.build(),)), PAIR))


# --- deadlocks ----------------------------------------------------------------------------------


def crossing(stream: str) -> Workload:
    """Rank 0 runs first a, then b; rank 1 first b, then a."""
    graphs = []
    for order in ("ab", "ba"):
        builder = GraphBuilder()
        for name in order:
            builder.add(f"sum {name}", Collective(ALL_REDUCE, 8, name, stream=stream))
        graphs.append(builder.build())
    return Workload(tuple(graphs), {"a": BOTH, "b": BOTH}, EITHER)


def test_a_deadlock_names_ranks_and_what_each_waits_for() -> None:
    """On one stream, each rank holds it with a collective that the other cannot join."""
    with pytest.raises(DimsweepError) as error:
        simulate(crossing(stream="shared"), PAIR)
    lines = str(error.value).splitlines()
    assert lines[0].startswith("workload: deadlock: 0 of 4 operators finished")
    assert [line.strip() for line in lines[1:]] == [
        "rank 0: 'sum a' waits for rank 1 to join",
        "rank 0: 'sum b' waits for its turn behind 'sum a'",
        "rank 1: 'sum b' waits for rank 0 to join",
        "rank 1: 'sum a' waits for its turn behind 'sum b'",
    ]


def test_the_shadow_prices_of_one_all_reduce() -> None:
    """Ring(4): 3/4 of the bytes twice, in 6 steps of one hop; nothing else happens."""
    topology = Topology.build("Ring(4)", bandwidth=[1e9], latency=[1000])
    chunks = CollectiveModel(chunks=1)
    cluster = Cluster(topology, collectives=chunks, prices=Prices((2e-6,)))
    result = simulate(one_collective(CollectiveKind.ALL_REDUCE, 4e6, (4,)), cluster)
    assert result.critical_path == {
        "compute": 0.0,
        "memory": 0.0,
        "0: Ring(4) transfer": pytest.approx(6e-3),
        "0: Ring(4) latency": 6e-9,
        "0: Ring(4) endpoint": 0.0,
    }
    assert result.per_bandwidth == {"0: Ring(4)": pytest.approx(-6e6 / 1e18)}
    assert result.per_latency == {"0: Ring(4)": 6}
    assert result.per_usd == {"0: Ring(4)": pytest.approx(-6e6 / 1e18 / 2e-6)}


def test_what_is_free_has_no_price_per_usd() -> None:
    cluster = replace(PAIR, prices=Prices((0.0,), fixed=1.0))
    result = simulate(one_collective(CollectiveKind.ALL_REDUCE, 8.0, (2,)), cluster)
    assert result.per_usd is not None
    assert np.isnan(list(result.per_usd.values())).all()


def test_message_by_message_there_is_no_path() -> None:
    work = one_collective(CollectiveKind.ALL_REDUCE, 8.0, (2,))
    result = simulate(work, PAIR, fidelity="message")
    assert result.critical_path is None
    assert result.per_bandwidth is result.per_latency is result.per_usd is None


def test_two_streams_undo_it() -> None:
    assert simulate(crossing(stream=""), PAIR).time_ps > 0


def test_a_deadlocked_point_spoils_only_itself() -> None:
    program = lower(crossing(stream="shared"), PAIR)
    measures = run_batch(program, [[1e9], [2e9]])
    assert measures.time.tolist() == [-1, -1]
    assert "deadlock" in str(outcome_error(int(measures.outcome[0])))


def test_a_receive_that_waits_for_a_send_that_waits() -> None:
    """Rank 0 sends after a collective that rank 1 joins only after receiving."""
    first, second = GraphBuilder(), GraphBuilder()
    joined = first.add("join", Collective(ALL_REDUCE, 8, "g"))
    first.add("hello", Send(8.0, (1,)), [joined])
    heard = second.add("listen", Receive((1,)))
    second.add("join late", Collective(ALL_REDUCE, 8, "g"), [heard])
    workload = Workload((first.build(), second.build()), {"g": BOTH}, EITHER)
    with pytest.raises(DimsweepError) as error:
        simulate(workload, PAIR)
    assert "rank 0: 'join' waits for rank 1 to join" in str(error.value)
    assert "rank 1: 'listen' waits for the send 'hello'" in str(error.value)


def test_long_stories_are_cut_short() -> None:
    graphs = []
    for order in (range(8), reversed(range(8))):
        builder = GraphBuilder()
        for i in order:
            builder.add(f"sum {i}", Collective(ALL_REDUCE, 8, f"g{i}", stream=f"shared {i // 2}"))
        graphs.append(builder.build())
    workload = Workload(tuple(graphs), {f"g{i}": BOTH for i in range(8)}, EITHER)
    with pytest.raises(DimsweepError, match=r"\.\.\. and 8 more"):
        simulate(workload, PAIR)


NODES = (Level("nvswitch", 450e9, 0, share=8), Level("leaf", 50e9, 1_000_000))


def on_graph(levels: tuple[Level, ...], shape: str) -> Result:
    """Return an all-reduce over all ranks by flows on a graph without dimensions."""
    topology = Topology.build(shape, bandwidth=[1e9, 1e9], latency=[0, 0])
    n, sizes = topology.n_npus, topology.sizes
    model = NetworkModel(graph=build_levels(n, levels))
    builder = GraphBuilder()
    builder.add("sum", Collective(CollectiveKind.ALL_REDUCE, 1e6, "all"))
    workload = Workload((builder.build(),), {"all": Group(sizes, (1, 1))})
    cluster = Cluster(topology, network=model, collectives=CollectiveModel(chunks=1))
    return Result(run_messages(lower_by_rank(workload, cluster), Fidelity.FLOW))


def test_a_dimension_of_a_graph_has_the_links_that_lead_along_it() -> None:
    """An NVSwitch of 450 GB/s and a card of 50 were 500 GB/s in both dimensions."""
    result = on_graph(NODES, "Switch(8)_Switch(2)")
    assert [*result.bandwidth_by_dim.values()] == [450e9, 50e9]
    sent, time = result.breakdown.bytes_sent[0], result.time
    assert result.breakdown.utilisation[0] == pytest.approx(sent / [450e9, 50e9] / time)


def test_one_card_serves_all_dimensions() -> None:
    result = on_graph((Level("leaf", 50e9, 0),), "Switch(8)_Switch(2)")
    assert [*result.bandwidth_by_dim.values()] == [50e9, 50e9]


@pytest.mark.parametrize("fidelity", [Fidelity.PHASE, Fidelity.MESSAGE, Fidelity.FLOW])
def test_bytes_and_utilisation_are_means_over_all_ranks(fidelity: Fidelity) -> None:
    """Rank 0 alone sends to rank 1, so each of four ranks sends a quarter in the mean."""
    topology = Topology.build("Switch(4)", bandwidth=[1e9], latency=[0])
    sender, receiver, idle = GraphBuilder(), GraphBuilder(), GraphBuilder()
    sender.add("send", Send(4e6, (1,)))
    receiver.add("receive", Receive((3,)))
    idle.add("wait", Compute(duration=1))
    graphs = (sender.build(), receiver.build(), idle.build(), idle.build())
    workload = Workload(graphs, graph_of_rank=np.arange(4))
    cluster = Cluster(topology)
    if fidelity is Fidelity.PHASE:
        result = Result(run_one(lower(workload, cluster)))
    else:
        result = Result(run_messages(lower_by_rank(workload, cluster), fidelity))
    (sent,), (used,) = result.bytes_by_dim.values(), result.utilisation.values()
    assert sent == pytest.approx(1e6) and used == pytest.approx(0.25)
    assert result.breakdown.busy[0, 0] / result.time_ps == pytest.approx(0.25)
