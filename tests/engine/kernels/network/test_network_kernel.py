"""The network kernel against its witness on SimPy: equal in every number, to the picosecond."""

from dataclasses import replace

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import (
    Access,
    Cluster,
    Collective,
    CollectiveKind,
    CollectiveModel,
    GraphBuilder,
    Receive,
    Send,
    Topology,
    Workload,
    place,
)
from dimsweep.engine.cluster.network_model import NetworkModel, Switching
from dimsweep.engine.cluster.remote_memory import EdgeIo
from dimsweep.engine.extensions.wafer import FredWafer, MeshWafer
from dimsweep.engine.kernels.messages import lower_by_rank
from dimsweep.engine.kinds import Fidelity
from dimsweep.engine.network import Interconnect
from dimsweep.engine.network.graph import Network
from dimsweep.engine.network.routing import Routing
from tests.support.examples import examples
from tests.support.kernels import cases, check_witness, run_witnessed
from tests.support.programs import one_collective


@examples(72)
@given(cases(), st.sampled_from([Fidelity.MESSAGE, Fidelity.FLOW, Fidelity.PACKET]))
def test_the_same_as_the_witness(case: tuple[Workload, Cluster], fidelity: Fidelity) -> None:
    check_witness(lower_by_rank(*case), fidelity)


@examples(24)
@given(cases(), st.sampled_from([Fidelity.FLOW, Fidelity.PACKET]))
def test_the_same_as_the_witness_where_messages_are_sprayed(
    case: tuple[Workload, Cluster], fidelity: Fidelity
) -> None:
    """The witness lists all ways, the compiled kernel has each link's share of them only."""
    workload, cluster = case
    sprayed = replace(cluster, network=replace(cluster.network, routing=Routing.SPRAY))
    check_witness(lower_by_rank(workload, sprayed, fidelity), fidelity)


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
def test_the_same_on_wafers(wafer: Interconnect) -> None:
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
    network = NetworkModel(interconnect=wafer)
    model = CollectiveModel(chunks=3)
    cluster = Cluster(topology, collectives=model, network=network, memory=EdgeIo(1e12))
    run_witnessed(lower_by_rank(Workload((graph.build(),), groups), cluster))


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
    check_witness(lower_by_rank(workload, cluster))


@pytest.mark.parametrize("limit", [100, 1000])
def test_too_many_parts_are_told_alike(limit: int) -> None:
    topology = Topology.build("Switch(4)", bandwidth=[1e12], latency=[0])
    network = NetworkModel(buffer=2.0, max_messages=limit)
    cluster = Cluster(topology, collectives=CollectiveModel(chunks=1), network=network)
    program = lower_by_rank(one_collective(CollectiveKind.ALL_TO_ALL, 4e4, (4,)), cluster)
    assert "network.max_messages" in str(check_witness(program))
