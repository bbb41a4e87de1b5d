"""Collectives along trees: as fast as the cuts of a network allow, if links are shared fairly."""

import pytest

from dimsweep.engine import (
    Cluster,
    CollectiveKind,
    CollectiveModel,
    DimsweepError,
    Fidelity,
    NetworkModel,
    Result,
    Runner,
    Topology,
    lower,
    simulate,
)
from dimsweep.engine.bound import cut_bound, time_by_cuts
from dimsweep.engine.collective.algorithms import ALGORITHMS
from dimsweep.engine.extensions.wafer import MeshWafer
from dimsweep.engine.kernels.messages import MessageRun, lower_by_rank
from dimsweep.engine.kernels.network import MessageRunner, run_messages
from dimsweep.engine.kernels.reference import run_on_simpy
from dimsweep.engine.network import Network
from tests.support.graphs import cable, dgx, empty, leaf_spine, star, torus
from tests.support.programs import one_collective
from tests.support.refused import refused

GATHER, SCATTER = CollectiveKind.ALL_GATHER, CollectiveKind.REDUCE_SCATTER
REDUCE = CollectiveKind.ALL_REDUCE
SIZE = 720e6


def cluster_on(network: Network, *names: str, chunks: int = 1) -> Cluster:
    topology = Topology.build(f"Switch({network.n_npus})", bandwidth=[1e9], latency=[0])
    collectives = CollectiveModel(chunks=chunks, algorithms=names)
    return Cluster(topology, collectives=collectives, network=NetworkModel(graph=network))


def by_trees(
    network: Network, kind: CollectiveKind, fidelity: Fidelity, n_bytes: float = SIZE
) -> Result:
    workload = one_collective(kind, n_bytes, (network.n_npus,))
    return simulate(workload, cluster_on(network, "forest"), fidelity=fidelity)


NETWORKS = {
    "DGX": dgx(1),
    "2 DGX": dgx(2),
    "torus": torus(4, 4),
    "ports of several speeds": star([1e9, 2e9, 3e9, 1e9]),
    "Clos, oversubscribed": leaf_spine(4, 4, 2),
}


@pytest.mark.long
@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
@pytest.mark.parametrize("kind", [GATHER, SCATTER])
def test_flows_take_what_the_narrowest_cut_needs(network: Network, kind: CollectiveKind) -> None:
    least = cut_bound(network, range(network.n_npus), kind).picoseconds(SIZE)
    result = by_trees(network, kind, Fidelity.FLOW)
    assert least - 1 <= result.time_ps <= least + 100  # each flow is rounded to a picosecond


def test_an_all_reduce_of_alike_members_takes_what_its_bound_says() -> None:
    network = dgx(2)
    least = cut_bound(network, range(16), REDUCE).picoseconds(SIZE)
    assert by_trees(network, REDUCE, Fidelity.FLOW).time_ps == pytest.approx(least, rel=1e-6)
    assert by_trees(network, REDUCE, Fidelity.MESSAGE).time_ps == pytest.approx(least, rel=1e-6)
    assert by_trees(network, REDUCE, Fidelity.PACKET, 7.2e5).time_ps > least / 1000


def test_every_byte_reaches_every_member_once() -> None:
    """Each sends or passes on as much as all others have, in the mean."""
    network = dgx(2)
    for kind, held in ((GATHER, SIZE), (SCATTER, SIZE / 16)):
        sent = by_trees(network, kind, Fidelity.FLOW).run.measures.bytes_sent
        assert sent.sum() == pytest.approx(16 * 15 * held)


def test_depth_is_latency() -> None:
    """Along 5 links between 6 NPUs in a row, of which each end's data pass all."""
    graph = empty(6)
    for npu in range(5):
        cable(graph, npu, npu + 1, 1e9, latency=1_000_000)
    workload = one_collective(GATHER, SIZE, (6,))
    result = simulate(workload, cluster_on(Network(graph), "forest"), fidelity="message")
    assert result.time_ps == pytest.approx(5 * SIZE * 1e3 + 5 * 1_000_000)


@pytest.mark.parametrize("fidelity", [Fidelity.MESSAGE, Fidelity.FLOW])
def test_both_kernels_run_trees_alike(fidelity: Fidelity) -> None:
    for network in (star([1e9, 2e9, 3e9, 1e9]), torus(3, 3)):
        cluster = cluster_on(network, "forest", chunks=2)
        program = lower_by_rank(one_collective(REDUCE, 1e6, (network.n_npus,)), cluster)
        (witness,) = run_on_simpy(program, fidelity).measures.time
        for fold in (True, False):
            assert run_messages(program, fidelity, fold=fold).measures.time[0] == witness


def test_lines_of_a_dimension_have_trees_over_its_own_links() -> None:
    topology = Topology.build("Switch(4)_Ring(3)", bandwidth=[4e9, 1e9], latency=[0, 0])
    workload = one_collective(GATHER, 1e6, (4, 3))
    model = CollectiveModel(chunks=1, algorithms=("forest", "forest"))
    result = simulate(workload, Cluster(topology, collectives=model), fidelity="flow")
    # The ring first: a member's from both sides at once, then 3 times as much in the switch.
    assert result.time_ps == pytest.approx(2 * 1e9 + 3 * 3 * 1e9 / 4, rel=1e-6)


def test_a_group_of_several_dimensions_of_a_graph_is_told_to_be_one() -> None:
    """Each dimension in turn would pack its trees on all links; groups of one dimension may."""
    collectives = CollectiveModel(chunks=1, algorithms=("forest", "forest"))
    topology = Topology.build("Switch(4)_Switch(4)", bandwidth=[1e9] * 2, latency=[0, 0])
    cluster = Cluster(topology, collectives=collectives, network=NetworkModel(graph=torus(4, 4)))
    with pytest.raises(DimsweepError, match="would go through 2 dimensions") as raised:
        simulate(one_collective(REDUCE, SIZE, (4, 4)), cluster, fidelity="flow")
    assert "topology.shape='Switch(16)'" in raised.value.hint
    assert simulate(one_collective(REDUCE, SIZE, (4, 1)), cluster, fidelity="flow").time_ps > 0


def test_other_bandwidths_have_other_trees() -> None:
    topology = Topology.build("Switch(4)_Ring(3)", bandwidth=[4e9, 1e9], latency=[0, 0])
    model = CollectiveModel(chunks=1, algorithms=("forest", "forest"))
    workload = one_collective(GATHER, 1e6, (4, 3))
    program = lower_by_rank(workload, Cluster(topology, collectives=model))
    runner = MessageRunner(program, Fidelity.PACKET)
    first = runner.run()
    again = runner.run(program.bandwidth * [2, 1])
    alone = MessageRunner(program.rebind(bandwidth=program.bandwidth * [2, 1]), Fidelity.PACKET)
    assert again.measures.time[0] == alone.run().measures.time[0] < first.measures.time[0]


def test_who_cannot_run_trees_says_so() -> None:
    workload, network = one_collective(GATHER, SIZE, (4,)), star([1e9] * 4)
    with refused("collective.algorithms", "unsupported", "forest"):
        simulate(workload, cluster_on(network, "forest"))
    with refused("collective.algorithms", "unsupported", "forest"):
        Runner(lower(workload, cluster_on(network, "forest")))
    topology = Topology.build("Switch(20)", bandwidth=[1e9], latency=[0])
    collectives = CollectiveModel(algorithms=("forest",))
    model = NetworkModel(interconnect=MeshWafer(latency=0))
    cluster = Cluster(topology, collectives=collectives, network=model)
    with refused("collective.algorithms", "conflict", "'forest'", "wafer"):
        lower(one_collective(GATHER, 1e6, (20,)), cluster)
    with refused("collective.algorithms", "unsupported", "'forest'"):
        ALGORITHMS["forest"].rounds(CollectiveKind.ALL_TO_ALL, 4, circle=False)


def test_switches_that_reduce_keep_to_the_cuts_that_hold_for_them() -> None:
    network = star([1e9] * 4)
    workload = one_collective(REDUCE, SIZE, (4,))
    run = simulate(workload, cluster_on(network, "in_switch"), fidelity="message").run
    assert isinstance(run, MessageRun)
    least = time_by_cuts(run.program, run.network)
    assert least is not None
    assert least.picoseconds == pytest.approx(SIZE * 1e3) == pytest.approx(run.measures.time[0])
    assert cut_bound(network, range(4), REDUCE).picoseconds(SIZE) > run.measures.time[0]
