"""The message kernel against the phase kernel, and against what links can and cannot do."""

import dataclasses
from collections import defaultdict

import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dimsweep.engine import (
    Block,
    Cluster,
    Collective,
    CollectiveKind,
    CollectiveModel,
    Compute,
    Dimension,
    DimensionOrder,
    DimsweepError,
    FullyConnected,
    GraphBuilder,
    Npu,
    Program,
    Receive,
    Result,
    Ring,
    Send,
    Switch,
    Topology,
    Workload,
    lower,
    place,
)
from dimsweep.engine.cluster.network_model import NetworkModel, Switching
from dimsweep.engine.kernels.messages import MessageRun, lower_by_rank
from dimsweep.engine.kernels.messages.program import count_messages
from dimsweep.engine.kernels.network import run_messages
from dimsweep.engine.network.fabric import Auto, Clos, Dragonfly, Mesh
from dimsweep.engine.network.graph import Network
from dimsweep.engine.network.routing import Routing
from tests.support.examples import examples
from tests.support.messages import time_of, times
from tests.support.programs import (
    collective_models,
    one_collective,
    pipelines,
    topologies,
    training,
)
from tests.support.refused import refused

STORING = NetworkModel(switching=Switching.STORE_AND_FORWARD)
FEW = CollectiveModel(chunks=4)


# --- phases by themselves ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(CollectiveKind))
@pytest.mark.parametrize("n", [2, 3, 4, 5, 8])
@pytest.mark.parametrize(
    ("block", "algorithm"),
    [
        (Ring(), "ring"),
        (FullyConnected(), "direct"),
        (Switch(), "halving_doubling"),
        (Switch(), "direct"),
        (Switch(), "ring"),
        (Switch(), "in_switch"),
        (Switch(), "double_binary_tree"),
        (Switch(), "rabenseifner"),
    ],
)
def test_every_algorithm_on_its_block(
    block: Block, algorithm: str, n: int, kind: CollectiveKind
) -> None:
    model = CollectiveModel(chunks=3, endpoint_delay=10_000, algorithms=(algorithm,))
    dim = Dimension(block, n, 3.7e9, 500_000)
    cluster = Cluster(Topology((dim,)), Npu(reduce_bandwidth=3.3e9), model)
    by_phase, by_message = times(one_collective(kind, 777_777.0, (n,)), cluster)
    if algorithm == "double_binary_tree" and n == 3 and kind is CollectiveKind.ALL_REDUCE:
        # The member that is busy longest, with reducing, is a leaf of neither tree.
        assert by_phase - by_message == 2 * dim.latency + model.endpoint_delay
    else:
        assert by_phase == by_message


@pytest.mark.parametrize(("n", "p"), [(4, 2), (8, 4), (6, 3), (12, 4)])
@pytest.mark.parametrize(
    "kind",
    [CollectiveKind.ALL_REDUCE, CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_GATHER],
)
def test_a_line_takes_as_long_as_the_phase_kernel_says(
    n: int, p: int, kind: CollectiveKind
) -> None:
    """Its last member's way back to the first is met once in p - 1 steps."""
    cluster = Cluster(
        Topology((Dimension(Ring(), n, 2e9, 1_000_000),)),
        collectives=CollectiveModel(chunks=3),
    )
    by_phase, by_message = times(one_collective(kind, 4096.0 * p, (p,)), cluster)
    assert by_phase == by_message


# --- switching -----------------------------------------------------------------------------------


def test_store_and_forward_is_the_largest_packet() -> None:
    topology = Topology.build("Switch(4)_Switch(4)", bandwidth=[5e9, 1e9], latency=[700, 900])
    workload = one_collective(CollectiveKind.ALL_TO_ALL, 1e6, (4, 4))
    at = {
        name: time_of(workload, Cluster(topology, collectives=FEW, network=model))
        for name, model in {
            "none": NetworkModel(),
            "some": NetworkModel(packet=1000.0),
            "all": NetworkModel(packet=1e12),
            "stored": STORING,
        }.items()
    }
    assert at["none"] < at["some"] < at["all"] == at["stored"]


# --- what links can do ---------------------------------------------------------------------------


@st.composite
def networks(draw: st.DrawFn) -> tuple[Topology, NetworkModel]:
    """Any network that the house builds, and some graph, each with any way of switching."""
    kind = draw(st.sampled_from(["dims", "mesh", "clos", "dragonfly", "graph"]))
    bandwidth, latency = draw(st.sampled_from([1e12 / 256, 1e12 / 1024])), 1000
    shape = {"mesh": "Ring(4)_Ring(3)", "clos": "Ring(2)_Switch(8)", "dragonfly": "Switch(12)"}
    if kind == "dims":
        topology = draw(topologies(max_npus=16, max_dims=3, exact=True))
    else:
        blocks = shape.get(kind, "Switch(6)")
        n = blocks.count("(")
        topology = Topology.build(blocks, bandwidth=[bandwidth] * n, latency=[latency] * n)
    model = NetworkModel(
        fabrics={
            "mesh": (Mesh(), Mesh()),
            "clos": (Mesh(), Clos(2, 4, oversubscription=2.0)),
            "dragonfly": (Dragonfly(2, 2),),
        }.get(kind, ()),
        graph=_odd_graph(bandwidth) if kind == "graph" else None,
        routing=draw(st.sampled_from([None, Routing.SHORTEST, Routing.ECMP])),
        switching=draw(st.sampled_from(list(Switching))),
        packet=draw(st.sampled_from([0.0, 1024.0])),
        buffer=draw(st.sampled_from([None, 2.0**22])),
        window=draw(st.sampled_from([None, 1, 2])),
    )
    return topology, model


def _odd_graph(bandwidth: float) -> Network:
    """Six NPUs round a ring, a chord, and a switch."""
    graph = nx.DiGraph()
    pairs = [(i, (i + 1) % 6) for i in range(6)] + [(0, 3), (1, "s"), (4, "s")]
    for i, (a, b) in enumerate(pairs):
        for ends in ((a, b), (b, a)):
            graph.add_edge(*ends, bandwidth=bandwidth / (1 + i % 2), latency=1000 * i, dim=-1)
    return Network(graph)


def collectives(topology: Topology) -> st.SearchStrategy[Workload]:
    return st.builds(
        one_collective,
        st.sampled_from(list(CollectiveKind)),
        st.sampled_from([0.0, 4096.0, 2.0**20]),
        st.just(topology.sizes),
    )


def run_freely(program: Program, *, record: bool = False) -> MessageRun:
    """Run it, unless its buffers are too small for its routes."""
    try:
        return run_messages(program, record=record)
    except DimsweepError as error:
        assume("buffers are full in a circle" not in str(error))
        raise


@examples(30)
@given(st.data())
def test_no_link_carries_more_than_it_can(data: st.DataObject) -> None:
    topology, network = data.draw(networks())
    cluster = Cluster(topology, collectives=CollectiveModel(chunks=2), network=network)
    run = run_freely(lower_by_rank(data.draw(collectives(topology)), cluster), record=True)
    end = int(run.measures.time[0])
    for account in run.links:
        for one, other in zip(account.spans, account.spans[1:], strict=False):
            assert one.end <= other.start  # one message at a time
        assert sum(span.end - span.start for span in account.spans) == account.busy <= end
        could = account.link.bandwidth * account.busy / 1e12
        rounding = len(account.spans) * account.link.bandwidth / 1e12
        assert account.n_bytes <= could + rounding + 1e-6


@examples(30)
@given(st.data())
def test_what_is_sent_leaves_and_arrives(data: st.DataObject) -> None:
    """What NPUs send is on links out of NPUs, and as much comes in; switches keep nothing."""
    topology, network = data.draw(networks())
    assume(network.graph is None)
    cluster = Cluster(topology, collectives=CollectiveModel(chunks=2), network=network)
    run = run_freely(lower_by_rank(data.draw(collectives(topology)), cluster))
    balance: dict[object, float] = defaultdict(float)
    for account in run.links:
        balance[account.link.source] -= account.n_bytes
        balance[account.link.target] += account.n_bytes
    for node, left in balance.items():
        # All NPUs do the same in a collective over everyone, so each gets what it gives.
        assert left == pytest.approx(0, abs=1), node
    out = sum(a.n_bytes for a in run.links if isinstance(a.link.source, int))
    assert out >= run.measures.bytes_sent.sum() - 1  # and more where NPUs pass messages on


@examples(30)
@given(st.data())
def test_twice_as_fast_takes_half_as_long(data: st.DataObject) -> None:
    topology, network = data.draw(networks())
    assume(network.graph is None)
    workload = data.draw(collectives(topology))

    def time(factor: int) -> int:
        dims = tuple(
            dataclasses.replace(d, bandwidth=d.bandwidth / factor, latency=d.latency * factor)
            for d in topology.dims
        )
        model = CollectiveModel(chunks=2, endpoint_delay=1000 * factor)
        cluster = Cluster(Topology(dims), collectives=model, network=network)
        return int(run_freely(lower_by_rank(workload, cluster)).measures.time[0])

    slow, fast = time(2), time(1)
    steps = 2000  # roundings of a ps each; none where transfers are halved into whole ps
    assert abs(slow - 2 * fast) <= (0 if _exact(topology) else steps)


def _exact(topology: Topology) -> bool:
    return all(n & (n - 1) == 0 for n in topology.sizes)


def test_the_same_again() -> None:
    topology = Topology.build("Ring(3)_Switch(4)", bandwidth=[3e9, 1e9], latency=[70, 900])
    model = NetworkModel(routing=Routing.ECMP, buffer=1e6, window=2)
    cluster = Cluster(topology, collectives=FEW, network=model)
    program = lower_by_rank(one_collective(CollectiveKind.ALL_REDUCE, 1e6, (3, 4)), cluster)
    assert run_messages(program, record=True).links == run_messages(program, record=True).links


def test_a_program_may_be_moved_to_another_point() -> None:
    workload = one_collective(CollectiveKind.ALL_REDUCE, 1e6, (4,))
    slow = Topology.build("Ring(4)", bandwidth=[1e9], latency=[70])
    fast = Topology.build("Ring(4)", bandwidth=[4e9], latency=[10])
    moved = lower_by_rank(workload, Cluster(slow)).rebind(bandwidth=[4e9], latency=[10])
    assert run_messages(moved).measures.time[0] == time_of(workload, Cluster(fast))


@examples(20)
@given(st.data())
def test_messages_are_counted_before_ranks_are_lowered_one_by_one(data: st.DataObject) -> None:
    topology = data.draw(topologies(max_npus=16, max_dims=3))
    model = data.draw(collective_models(topology, orders=(DimensionOrder.BASELINE,)))
    fabrics = tuple(
        data.draw(st.sampled_from([Auto(), Mesh()])) if dim.block == Ring() else Auto()
        for dim in topology.dims
    )
    cluster = Cluster(topology, collectives=model, network=NetworkModel(fabrics=fabrics))
    kinds = (collectives(topology), pipelines(topology.sizes), training(topology.sizes))
    workload = data.draw(st.one_of(kinds))
    by_rank = lower_by_rank(workload, cluster)
    n_messages = run_messages(by_rank).n_messages
    assert count_messages(lower(workload, cluster)) == count_messages(by_rank) == n_messages
    if n_messages > 1:
        network = dataclasses.replace(cluster.network, max_messages=n_messages)
        lower_by_rank(workload, dataclasses.replace(cluster, network=network))
        network = dataclasses.replace(network, max_messages=n_messages - 1)
        with refused("network.max_messages", "too-many", f"{n_messages:,}"):
            lower_by_rank(workload, dataclasses.replace(cluster, network=network))


def test_classes_of_several_ranks_are_refused() -> None:
    topology = Topology.build("Ring(4)", bandwidth=[1e9], latency=[0])
    program = lower(one_collective(CollectiveKind.ALL_REDUCE, 1e6, (4,)), Cluster(topology))
    with refused("", "unsupported", "1 classes of 4 ranks") as error:
        run_messages(program)
    assert "lower_by_rank" in error.value.hint


# --- options -------------------------------------------------------------------------------------


def sends(n: int, pairs: list[tuple[int, int]], n_bytes: float, n_npus: int) -> Workload:
    """Messages from NPU to NPU at once; all other NPUs do nothing but compute for no time."""
    graphs, graph_of = [], np.zeros(n_npus, dtype=np.int64)
    builders: dict[int, GraphBuilder] = defaultdict(GraphBuilder)
    for tag, (source, target) in enumerate(pairs):
        builders[source].add(f"send {tag}", Send(n_bytes, (target - source,), tag, f"s{tag}"))
        builders[target].add(f"receive {tag}", Receive((source - target,), tag))
    idle = GraphBuilder()
    idle.add("nothing", Compute(duration=0))
    graphs.append(idle.build())
    for rank, builder in builders.items():
        graph_of[rank] = len(graphs)
        graphs.append(builder.build())
    return Workload(tuple(graphs), {}, graph_of)


def test_oversubscription_costs_what_the_bisection_says() -> None:
    """All-to-all between two leaf switches: half as many uplinks take twice as long."""
    topology = Topology.build("Switch(8)", bandwidth=[1e9], latency=[0])
    model = CollectiveModel(chunks=1, algorithms=("direct",))
    workload = one_collective(CollectiveKind.ALL_TO_ALL, 8e6, (8,))

    def time(oversubscription: float) -> int:
        fabric = Clos(2, 4, oversubscription=oversubscription)
        network = NetworkModel(fabrics=(fabric,), routing=Routing.ECMP, seed=1)
        return time_of(workload, Cluster(topology, collectives=model, network=network))

    # Each leaf sends 4 x 4 pieces of 1 MB to the other one, 1 ms each on an uplink.
    assert time(4.0) >= 16e9
    assert time(2.0) >= 8e9
    assert time(1.0) < time(2.0) < time(4.0)


def test_ecmp_spreads_what_one_path_cannot_carry() -> None:
    topology = Topology.build("Switch(16)", bandwidth=[1e9], latency=[0])
    workload = one_collective(CollectiveKind.ALL_TO_ALL, 16e6, (16,))

    def time(routing: Routing) -> int:
        network = NetworkModel(fabrics=(Clos(2, 4),), routing=routing)
        return time_of(workload, Cluster(topology, collectives=FEW, network=network))

    assert time(Routing.ECMP) < time(Routing.SHORTEST) / 1.5


# --- results -------------------------------------------------------------------------------------


def test_links_are_told_and_drawn_in_a_timeline() -> None:
    topology = Topology.build("Ring(4)", bandwidth=[1e9], latency=[100])
    cluster = Cluster(topology, collectives=CollectiveModel(chunks=1))
    program = lower_by_rank(one_collective(CollectiveKind.ALL_GATHER, 1e6, (4,)), cluster)
    result = Result(run_messages(program, record=True))
    assert [(a.link.source, a.link.target) for a in result.links][:2] == [(0, 1), (0, 3)]
    for account in result.links:
        assert account.n_bytes == 1.5e6  # half of three shards each way
        assert account.busy == 3 * 1_000_000_000
        assert account.utilisation == pytest.approx(account.busy / result.time_ps)
        assert account.longest_queue == 0
    events = result.timeline()["traceEvents"]
    tracks = {event["args"]["name"] for event in events if event["ph"] == "M"}
    assert {
        "links",
        "NPU 0 -> NPU 1",
        "NPU 3 -> NPU 0",
        "rank 0",
        "compute",
        "dim 0: Ring(4)",
    } <= tracks
    on_links = [e for e in events if e["ph"] == "X" and e["pid"] == 4]
    assert len(on_links) == 8 * 3
    unrecorded = Result(run_messages(program))
    with pytest.raises(DimsweepError, match="record"):
        unrecorded.timeline()


# --- refusals ------------------------------------------------------------------------------------


def refusal(workload: Workload, cluster: Cluster) -> str:
    with pytest.raises(DimsweepError) as caught:
        run_messages(lower_by_rank(workload, cluster))
    return str(caught.value)


def test_buffers_full_in_a_circle_are_a_deadlock_with_its_links() -> None:
    """Everyone sends two hops clockwise round a ring with room for one part at a time."""
    topology = Topology.build("Ring(5)", bandwidth=[2e9], latency=[0])
    network = NetworkModel(buffer=1e3, switching=Switching.STORE_AND_FORWARD)
    pairs = [(i, (i + 2) % 5) for i in range(5)]
    message = refusal(sends(5, pairs, 1e5, 5), Cluster(topology, network=network))
    assert "deadlock" in message and "network.buffer" in message
    assert "NPU 0 -> NPU 1" in message and "send" in message


def test_ranks_that_wait_for_one_another_are_named() -> None:
    topology = Topology.build("Ring(2)", bandwidth=[1e9], latency=[0])
    groups = place({"a": "rest"}, topology.sizes)
    graphs = []
    for order in ((0, 1), (1, 0)):  # each rank waits for the other's first send
        builder = GraphBuilder()
        offset = (1,)
        if order[0] == 0:
            got = builder.add("get", Receive(offset, 0))
            builder.add("give", Send(1.0, offset, 1), [got])
        else:
            got = builder.add("take", Receive(offset, 1))
            builder.add("hand over", Send(1.0, offset, 0), [got])
        graphs.append(builder.build())
    workload = Workload(tuple(graphs), groups, np.array([0, 1]))
    message = refusal(workload, Cluster(topology))
    assert "deadlock" in message
    assert "rank 0: 'get' waits for the send 'hand over'" in message
    assert "rank 1: 'take' waits for the send 'give'" in message


def test_a_million_ranks_are_refused_at_once() -> None:
    topology = Topology.build("Switch(1048576)", bandwidth=[1e9], latency=[0])
    workload = one_collective(CollectiveKind.ALL_REDUCE, 1e6, (1048576,))
    assert "network.max_messages" in refusal(workload, Cluster(topology))


def test_a_graph_has_as_many_npus_as_the_topology() -> None:
    network = NetworkModel(graph=_odd_graph(1e9))
    topology = Topology.build("Switch(8)", bandwidth=[1e9], latency=[0])
    workload = one_collective(CollectiveKind.ALL_REDUCE, 1e6, (8,))
    assert "6 NPUs, the topology 8" in refusal(workload, Cluster(topology, network=network))


def test_in_switch_needs_one_switch() -> None:
    topology = Topology.build("Switch(8)", bandwidth=[1e9], latency=[0])
    cluster = Cluster(
        topology,
        collectives=CollectiveModel(algorithms=("in_switch",)),
        network=NetworkModel(fabrics=(Clos(2, 4),)),
    )
    workload = one_collective(CollectiveKind.ALL_REDUCE, 1e6, (8,))
    assert "share no switch" in refusal(workload, cluster)


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ({"packet": -1.0}, "packet"),
        ({"buffer": 0.0}, "buffer"),
        ({"window": 0}, "window"),
        ({"max_messages": 0}, "max_messages"),
        ({"fabrics": (Mesh(),), "graph": _odd_graph(1e9)}, "fabric"),
    ],
)
def test_models_that_make_no_sense(model: dict[str, object], told: str) -> None:
    with pytest.raises(DimsweepError) as caught:
        NetworkModel(**model)
    assert caught.value.where == told


def test_streams_and_jobs_share_the_links() -> None:
    """Two jobs on one switch: each is as fast as alone, or both wait for the same port."""
    topology = Topology.build("Switch(4)", bandwidth=[1e9], latency=[0])
    apart = sends(4, [(0, 1), (2, 3)], 1e6, 4)
    together = sends(4, [(0, 1), (2, 1)], 1e6, 4)
    assert time_of(apart, Cluster(topology)) == 1_000_000_000
    assert time_of(together, Cluster(topology)) == 2_000_000_000
    two = GraphBuilder()
    for name in ("a", "b"):
        two.add(name, Collective(CollectiveKind.ALL_GATHER, 1e6, "all", stream=name))
    workload = Workload((two.build(),), place({"all": "rest"}, topology.sizes))
    alone = one_collective(CollectiveKind.ALL_GATHER, 1e6, (4,))
    assert time_of(workload, Cluster(topology)) == 2 * time_of(alone, Cluster(topology))
