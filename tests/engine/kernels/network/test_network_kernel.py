"""The network kernel against its witness on SimPy: equal in every number, to the picosecond."""

import dataclasses

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import (
    Access,
    Cluster,
    Collective,
    CollectiveKind,
    CollectiveModel,
    GraphBuilder,
    Npu,
    Receive,
    Ring,
    Send,
    Switch,
    Topology,
    Workload,
    place,
)
from engine.cluster.memory import EdgeIo
from engine.cluster.network import NetworkModel, Switching
from engine.cluster.packets import PacketModel
from engine.fidelity import Fidelity
from engine.kernels.messages import lower_by_rank
from engine.kernels.network import run_messages
from engine.kernels.reference import run_on_simpy
from engine.network.fabric import Auto, Clos, Dragonfly, Fabric, Mesh
from engine.network.graph import Network
from engine.network.routing import Routing
from engine.network.wafer import FredWafer, MeshWafer, Wafer
from tests.support.agreement import check_equal, outcome
from tests.support.examples import examples
from tests.support.programs import (
    collective_models,
    one_collective,
    pipelines,
    tangles,
    topologies,
    training,
    uneven,
)

PROGRAMS = (training, tangles, uneven, pipelines)


@st.composite
def fabrics(draw: st.DrawFn, topology: Topology) -> tuple[Fabric, ...]:
    """What may stand for each dimension."""
    choices: list[Fabric] = []
    for dim in topology.dims:
        own: list[Fabric] = [Auto()]
        if dim.block == Ring():
            own.append(Mesh())
        if dim.block == Switch() and dim.size % 4 == 0:
            own += [Clos(2, 2), Clos(2, 4, oversubscription=2.0), Dragonfly(2, 2)]
        choices.append(draw(st.sampled_from(own)))
    return tuple(choices)


@st.composite
def graphs(draw: st.DrawFn, n: int) -> Network:
    """A ring with chords, some of them through a switch, of unequal links."""
    graph = nx.DiGraph()
    pairs = [(i, (i + 1) % n) for i in range(n)]
    pairs += [(i, draw(st.sampled_from(["s", "t"]))) for i in range(0, n, 2)]
    for i, (a, b) in enumerate(pairs):
        buffer = draw(st.sampled_from([None, None, 3e5]))
        for ends in ((a, b), (b, a)):
            bandwidth = 1e9 / (1 + i % 3)
            graph.add_edge(*ends, bandwidth=bandwidth, latency=500 * i, buffer=buffer)
    return Network(graph)


@st.composite
def networks(draw: st.DrawFn, topology: Topology) -> NetworkModel:
    own_graph = topology.n_npus > 2 and draw(st.integers(0, 3)) == 0
    return NetworkModel(
        fabrics=() if own_graph else draw(fabrics(topology)),
        graph=draw(graphs(topology.n_npus)) if own_graph else None,
        routing=draw(st.sampled_from([None, Routing.SHORTEST, Routing.ECMP, Routing.FAT_TREE])),
        seed=draw(st.integers(0, 3)),
        switching=draw(st.sampled_from(list(Switching))),
        packet=draw(st.sampled_from([0.0, 1024.0])),
        buffer=draw(st.sampled_from([None, None, 2.0**22, 2.0**17])),
        window=draw(st.sampled_from([None, None, 1, 3])),
        packets=PacketModel(priorities=draw(st.sampled_from([1, 3]))),
    )


@st.composite
def cases(draw: st.DrawFn) -> tuple[Workload, Cluster]:
    topology = draw(topologies(max_npus=16, max_dims=3))
    chunks = draw(st.integers(1, 4))
    model = dataclasses.replace(draw(collective_models(topology)), chunks=chunks)
    npu = Npu(reduce_bandwidth=draw(st.sampled_from([None, 3.3e9, 1e12])))
    workload = draw(draw(st.sampled_from(PROGRAMS))(topology.sizes))
    return workload, Cluster(topology, npu, model, draw(networks(topology)))


@examples(72)
@given(cases(), st.sampled_from([Fidelity.MESSAGE, Fidelity.FLOW, Fidelity.PACKET]))
def test_the_same_as_the_witness(case: tuple[Workload, Cluster], fidelity: Fidelity) -> None:
    program = lower_by_rank(*case)
    told = [
        outcome(run, program, fidelity=fidelity, record=True)
        for run in (run_messages, run_on_simpy)
    ]
    check_equal(*told)


@pytest.mark.parametrize(
    "wafer",
    [
        FredWafer(3, trunk=1.5e12, controllers=4, pieces=3),
        FredWafer(3, trunk=1.5e12, reduces=False, controllers=4, pieces=5),
        FredWafer(3, reduces=False, controllers=4, pieces=1, multicasts=False),
        FredWafer(3, controllers=4, pieces=2, multicasts=False),
        MeshWafer(4, 3, pieces=2),
    ],
)
def test_the_same_on_wafers(wafer: Wafer) -> None:
    """Two collectives and a message at once, up trees of switches or round two-level rings, beside
    what comes and goes through I/O controllers."""
    sizes = (2, 2, 3)
    topology = Topology.build(
        "Switch(2)_Switch(2)_Switch(3)", bandwidth=[3e12] * 3, latency=[0] * 3
    )
    graph = GraphBuilder()
    for name in ("tensor", "data"):
        work = Collective(CollectiveKind.ALL_REDUCE, 777_777.0, name, stream=name)
        graph.add(name, work)
    graph.add("send", Send(1e5, (0, 1, 0), 0))
    graph.add("receive", Receive((0, -1, 0), 0))
    loaded = graph.add("load", Access(5e5, group="data", shared=True))
    graph.add("store", Access(3e5, True, "tensor", shared=True), [loaded])
    graph.add("own", Access(1e5))
    groups = place({"tensor": 2, "pipeline": 2, "data": 3}, sizes)
    network = NetworkModel(wafer=wafer)
    model = CollectiveModel(chunks=3)
    cluster = Cluster(topology, collectives=model, network=network, memory=EdgeIo(1e12))
    program = lower_by_rank(Workload((graph.build(),), groups), cluster)
    check_equal(run_messages(program, record=True), run_on_simpy(program, record=True))


@pytest.mark.parametrize("buffer", [1000.0, 2500.0, 6000.0])
def test_the_same_where_buffers_are_full_in_a_circle(buffer: float) -> None:
    """Round a ring of one direction, with room for a part of what is sent at each NPU."""
    n = 4
    graph = nx.DiGraph()
    for i in range(n):
        graph.add_edge(i, (i + 1) % n, bandwidth=1e12, latency=i)
    model = NetworkModel(graph=Network(graph), switching=Switching.STORE_AND_FORWARD, buffer=buffer)
    topology = Topology.build(f"Switch({n})", bandwidth=[1e12], latency=[0])
    workload = one_collective(CollectiveKind.ALL_TO_ALL, 8000.0 * n, (n,))
    cluster = Cluster(topology, collectives=CollectiveModel(chunks=2), network=model)
    program = lower_by_rank(workload, cluster)
    check_equal(outcome(run_messages, program), outcome(run_on_simpy, program))


@pytest.mark.parametrize("limit", [100, 1000])
def test_too_many_parts_are_told_alike(limit: int) -> None:
    topology = Topology.build("Switch(4)", bandwidth=[1e12], latency=[0])
    network = NetworkModel(buffer=2.0, max_messages=limit)
    cluster = Cluster(topology, collectives=CollectiveModel(chunks=1), network=network)
    program = lower_by_rank(one_collective(CollectiveKind.ALL_TO_ALL, 4e4, (4,)), cluster)
    told = outcome(run_messages, program)
    assert told == outcome(run_on_simpy, program)
    assert "network.max_messages" in told
