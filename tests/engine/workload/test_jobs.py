"""Several jobs on one network."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import (
    Cluster,
    Collective,
    CollectiveKind,
    CollectiveModel,
    GraphBuilder,
    Group,
    NetworkModel,
    Send,
    Topology,
    Workload,
    simulate,
)
from dimsweep.engine.errors import Code
from dimsweep.engine.network import Level, build_levels
from dimsweep.engine.workload import Job, combine_jobs
from tests.support.examples import examples
from tests.support.programs import one_collective, training
from tests.support.refused import refused

SIZES = (4, 4)
# Four leaf switches of 8 NPUs, each with half as much bandwidth up as down.
CLOS = build_levels(
    32,
    [
        Level("leaf", 50e9, 500_000, share=8),
        Level("spine", 50e9, 500_000, below="leaf", count=4),
    ],
)
PACKED = {"a": range(16), "b": range(16, 32)}
SCATTERED = {"a": range(0, 32, 2), "b": range(1, 32, 2)}


def topology(outer: int = 4, shape: str = "Switch") -> Topology:
    return Topology.build(
        f"Switch(4)_{shape}({outer})", bandwidth=[50e9] * 2, latency=[1_000_000] * 2
    )


def ends(jobs: dict[str, Job], places: dict[str, range]) -> dict[str, int]:
    """When each of some jobs that begin at once is done (ps)."""
    all_jobs = combine_jobs(jobs)
    npus = tuple(npu for name in jobs for npu in places[name])
    cluster = Cluster(
        all_jobs.topology,
        collectives=CollectiveModel(chunks=2),
        network=NetworkModel(graph=CLOS, placement=npus),
    )
    end = simulate(all_jobs.workload, cluster, fidelity="message").run.measures.end[0]
    return {name: int(end[list(ranks)].max()) for name, ranks in all_jobs.ranks.items()}


def slowdowns(jobs: dict[str, Job], places: dict[str, range]) -> dict[str, float]:
    """How many times as long each job takes among the others as alone."""
    alone = {name: ends({name: job}, places)[name] for name, job in jobs.items()}
    return {name: end / alone[name] for name, end in ends(jobs, places).items()}


REDUCE = Job(one_collective(CollectiveKind.ALL_REDUCE, 64e6, SIZES), topology())
EXCHANGE = Job(one_collective(CollectiveKind.ALL_TO_ALL, 64e6, SIZES), topology())


def test_packed_jobs_do_not_feel_each_other_and_scattered_ones_do() -> None:
    jobs = {"a": REDUCE, "b": EXCHANGE}
    assert slowdowns(jobs, PACKED) == {"a": 1, "b": 1}
    among = slowdowns(jobs, SCATTERED)
    assert min(among.values()) >= 1
    assert max(among.values()) > 1.2


@examples(15)
@given(st.data())
def test_on_leaves_of_their_own_jobs_take_as_long_as_alone(data: st.DataObject) -> None:
    jobs = {name: Job(data.draw(training(SIZES)), topology()) for name in ("a", "b")}
    assert set(slowdowns(jobs, PACKED).values()) <= {1.0}


def test_a_job_alone_is_as_ever() -> None:
    job = combine_jobs({"a": REDUCE})
    assert job.topology == REDUCE.topology
    cluster = Cluster(topology(), network=NetworkModel())
    times = [
        simulate(each, cluster, fidelity=fidelity).time  # type: ignore[arg-type]
        for fidelity in ("phase", "message")
        for each in (job.workload, REDUCE.workload)
    ]
    assert times[0] == times[1]
    assert times[2] == times[3]


def test_jobs_of_other_sizes_have_ranks_and_groups_of_their_own() -> None:
    half = Job(one_collective(CollectiveKind.ALL_REDUCE, 1e6, (4, 2)), topology(2))
    jobs = combine_jobs({"large": REDUCE, "left": half, "right": half})
    assert jobs.topology.sizes == (4, 8)
    assert jobs.ranks == {"large": range(16), "left": range(16, 24), "right": range(24, 32)}
    assert {name.split(": ")[0] for name in jobs.workload.groups} == set(jobs.ranks)
    assert np.array_equal(jobs.workload.graph_of_rank, [0] * 16 + [1] * 8 + [2] * 8)


def test_jobs_that_cannot_run_together_are_refused() -> None:
    half = Job(one_collective(CollectiveKind.ALL_REDUCE, 1e6, (4, 2)), topology(2))
    ring = Job(REDUCE.workload, topology(4, "Ring"))
    builder = GraphBuilder()
    builder.add("round", Send(1.0, (0, 1)))
    sends = Job(Workload((builder.build(),)), topology())
    in_order = Job(replace(REDUCE.workload, in_order=True), topology())
    cases: tuple[tuple[dict[str, Job], str, Code, str], ...] = (
        ({}, "jobs", "missing", ""),
        ({"a": half, "b": REDUCE}, "job 'b'", "mismatch", "4"),
        ({"a": ring, "b": ring}, "job 'a'", "mismatch", "Ring(4)"),
        ({"a": REDUCE, "b": ring}, "job 'b'", "mismatch", "Switch(4)_Ring(4)"),
        ({"a": sends, "b": REDUCE}, "job 'a'", "unsupported", "'round'"),
        ({"a": REDUCE, "b": in_order}, "jobs", "conflict", ""),
    )
    for jobs, where, code, named in cases:
        with refused(where, code, named):
            combine_jobs(jobs)


def test_streams_and_names_of_groups_stay_apart() -> None:
    builder = GraphBuilder()
    builder.add("all", Collective(CollectiveKind.ALL_REDUCE, 1e6, "all"))
    job = Job(Workload((list(builder.build()),), {"all": Group(SIZES, (1, 1))}), topology())  # type: ignore[arg-type]
    whole = combine_jobs({"a": job, "b": job}).workload
    works = [graph[0].work for graph in whole.graphs]
    assert [work.group for work in works] == ["a: all", "b: all"]  # type: ignore[union-attr]
    assert {work.stream for work in works} == {"all"}  # type: ignore[union-attr]
