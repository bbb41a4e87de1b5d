"""Alike ranks are simulated once, and only where that changes no number."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given

from dimsweep.engine import (
    Cluster,
    CollectiveKind,
    CollectiveModel,
    Compute,
    GraphBuilder,
    NetworkModel,
    Receive,
    Send,
    Topology,
    Workload,
    place,
)
from dimsweep.engine.cluster.network_model import Switching
from dimsweep.engine.kernels.messages import MessageRun, lower_by_rank
from dimsweep.engine.kernels.network import run_messages
from dimsweep.engine.network import Clos, Network, Routing
from dimsweep.engine.workload.graph import Collective
from tests.support.examples import examples
from tests.support.kernels import cases, check_equal, outcome
from tests.support.programs import one_collective

_ALL_REDUCE, _ALL_TO_ALL = CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_TO_ALL
_CLOS, _NARROW_CLOS = Clos(2, 4), Clos(2, 4, oversubscription=2.0)


def folded(workload: Workload, cluster: Cluster) -> MessageRun:
    """A run that may fold, which has been compared with one that may not."""
    program = lower_by_rank(workload, cluster)
    run, unfolded = run_messages(program), run_messages(program, fold=False)
    assert unfolded.n_simulated is None
    check_equal(run, unfolded)
    return run


def cluster_of(name: str, network: NetworkModel) -> Cluster:
    n = name.count("_") + 1
    bandwidth, latency = [1e11, 3e10, 7e9][:n], [500_000, 100, 0][:n]
    topology = Topology.build(name, bandwidth=bandwidth, latency=latency)
    return Cluster(topology, collectives=CollectiveModel(chunks=3), network=network)


@examples(60)
@given(cases())
def test_folding_changes_nothing(case: tuple[Workload, Cluster]) -> None:
    program = lower_by_rank(*case)
    check_equal(outcome(run_messages, program), outcome(run_messages, program, fold=False))


@pytest.mark.parametrize(
    ("name", "kind", "network", "n_simulated"),
    [
        ("Ring(4)_Switch(4)_FullyConnected(3)", _ALL_REDUCE, NetworkModel(), 1),
        ("Ring(4)_Ring(3)", _ALL_TO_ALL, NetworkModel(buffer=1e6, window=2), 1),
        ("Switch(16)", _ALL_TO_ALL, NetworkModel(fabrics=(_CLOS,), routing=Routing.FAT_TREE), 4),
        # A hash sends some messages over a link that others have for themselves.
        ("Switch(16)", _ALL_REDUCE, NetworkModel(fabrics=(_CLOS,), routing=Routing.ECMP), None),
        # Two alike messages share each link, so that one must wait for the other.
        (
            "Switch(16)",
            _ALL_REDUCE,
            NetworkModel(fabrics=(_NARROW_CLOS,), routing=Routing.FAT_TREE),
            None,
        ),
        # Here only a run shows that two messages ask for a link at one instant.
        ("Switch(8)", _ALL_TO_ALL, NetworkModel(switching=Switching.STORE_AND_FORWARD), None),
    ],
)
def test_alike_ranks_are_simulated_once(
    name: str, kind: CollectiveKind, network: NetworkModel, n_simulated: int | None
) -> None:
    cluster = cluster_of(name, network)
    workload = one_collective(kind, 777_777.0 * 16, cluster.topology.sizes)
    assert folded(workload, cluster).n_simulated == n_simulated


def test_a_failed_link_leaves_no_two_ranks_alike() -> None:
    graph = nx.DiGraph()
    for i in range(6):
        for ends in ((i, (i + 1) % 6), ((i + 1) % 6, i)):
            graph.add_edge(*ends, bandwidth=1e11, latency=500)
    whole, failed = Network(graph), graph.copy()
    failed.remove_edge(2, 3)
    workload = one_collective(_ALL_REDUCE, 1e7, (6,))
    for network, n_simulated in ((whole, 1), (Network(failed), None)):
        cluster = cluster_of("Ring(6)", NetworkModel(graph=network))
        assert folded(workload, cluster).n_simulated == n_simulated


@pytest.mark.parametrize(("durations", "n_simulated"), [((5,), 4), ((5, 6), 8)])
def test_a_class_for_all_ranks_that_do_the_same(
    durations: tuple[int, ...], n_simulated: int
) -> None:
    """A pipeline of four stages, the first of which may be slower in every other replica."""
    graphs = []
    for stage in range(4):
        for duration in durations:
            builder, last = GraphBuilder(), []
            if stage:
                last = [builder.add("receive", Receive((-1, 0), 0))]
            work = Compute(duration=duration if stage == 0 else 7)
            last = [builder.add("compute", work, last)]
            if stage < 3:
                builder.add("send", Send(1e6, (1, 0), 0), last)
            builder.add("reduce", Collective(_ALL_REDUCE, 3e6, "data"), last)
            graphs.append(builder.build())
    sizes, n = (4, 4), len(durations)
    stage_of, replica = np.unravel_index(np.arange(16), sizes, order="F")
    groups = place({"pipeline": 4, "data": 4}, sizes)
    workload = Workload(tuple(graphs), groups, n * stage_of + replica % n)
    run = folded(workload, cluster_of("Ring(4)_Ring(4)", NetworkModel()))
    assert run.n_simulated == n_simulated


def test_every_point_of_a_program_folds() -> None:
    """As it is found at the first of them."""
    cluster = cluster_of("Ring(4)_Switch(4)", NetworkModel())
    program = lower_by_rank(one_collective(_ALL_REDUCE, 1e7, (4, 4)), cluster)
    for bandwidth in ([1e11, 3e10], [2e9, 5e10]):
        point = program.rebind(bandwidth=bandwidth, latency=[7, 1_000_000])
        run = run_messages(point)
        assert run.n_simulated == 1
        check_equal(run, run_messages(point, fold=False))
