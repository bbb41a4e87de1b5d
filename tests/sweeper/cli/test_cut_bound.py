"""How far a run on a graph is from what its cuts allow, as ``simulate`` says it."""

import io

from rich.console import Console

from dimsweep.engine import (
    Cluster,
    CollectiveKind,
    CollectiveModel,
    NetworkModel,
    Result,
    Topology,
    simulate,
)
from dimsweep.sweeper.cli.account import plain, print_result
from tests.support.graphs import star
from tests.support.programs import one_collective


def run(name: str, network: NetworkModel) -> Result:
    topology = Topology.build("Switch(4)", bandwidth=[1e9], latency=[0])
    collectives = CollectiveModel(chunks=1, algorithms=(name,))
    cluster = Cluster(topology, collectives=collectives, network=network)
    workload = one_collective(CollectiveKind.ALL_GATHER, 1e6, (4,))
    return simulate(workload, cluster, fidelity="message")


def test_a_run_on_a_graph_says_how_far_it_is_from_its_cuts() -> None:
    result, out = run("ring", NetworkModel(graph=star([1e9] * 4))), io.StringIO()
    print_result(result, "a ring", Console(file=out, width=200))
    (line,) = [line for line in out.getvalue().splitlines() if "takes less than" in line]
    assert " ".join(line.split()) == "no algorithm or route takes less than 3 ms 100.0%"
    told = plain(result)
    assert told["cut_bound_s"] == 0.003
    assert (
        told["cut_bound_by"]
        == "all_gather over all: the bytes that must leave every NPU except NPU 0"
    )


def test_dimensions_have_bounds_of_their_own() -> None:
    assert "cut_bound_s" not in plain(run("ring", NetworkModel()))
