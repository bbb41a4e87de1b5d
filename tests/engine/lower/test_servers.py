"""Accesses in flight share the servers of a memory, in both kernels, folded and not."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import (
    Access,
    Cluster,
    Collective,
    CollectiveKind,
    CollectiveModel,
    Compute,
    GraphBuilder,
    Group,
    Npu,
    RemoteMemory,
    Topology,
    Workload,
    lower,
    run_batch,
    simulate,
)
from dimsweep.engine.bound import LinearSpace, lower_bound
from dimsweep.engine.cluster.remote_memory import (
    HierarchicalMemory,
    NodeMemory,
    PooledMemory,
    ZeroInfinity,
)
from dimsweep.engine.kernels.messages import lower_by_rank
from dimsweep.engine.workload.graph import Work
from tests.support.examples import examples
from tests.support.kernels import run_witnessed

TOPOLOGY = Topology.build("Switch(4)_Switch(2)", bandwidth=[1e10, 1e10], latency=[1000, 1000])
GROUPS = {"node": Group((4, 1), (1, 1)), "pair": Group((2, 1), (1, 1))}
HIERARCHICAL = HierarchicalMemory(
    1e9, groups=8, switches=2, switch_bandwidth=2e9, fabric_bandwidth=2e9, chunk=1e4
)
SHARED = [
    NodeMemory(4e9, latency=70),
    PooledMemory(8e9),
    ZeroInfinity(1e9, drives=4, link_bandwidth=2e9, latency=70),
    HIERARCHICAL,
]
MS = 10**9


def on(memory: RemoteMemory) -> Cluster:
    return Cluster(TOPOLOGY, Npu(1e12, 1e11), CollectiveModel(chunks=1), memory=memory)


def workload(graphs: Sequence[Sequence[Work]], of_rank: Sequence[int]) -> Workload:
    """Chains of works, and which of them each rank runs."""
    built = []
    for works in graphs:
        builder = GraphBuilder()
        last: list[int] = []
        for i, work in enumerate(works):
            last = [builder.add(f"operator {i}", work, last)]
        built.append(builder.build())
    return Workload(tuple(built), GROUPS, np.array(of_rank))


def ends(graphs: Sequence[Sequence[Work]], of_rank: Sequence[int], memory: RemoteMemory) -> int:
    """When all is done (ps), the same for both kernels, folded or not, compiled or on SimPy."""
    load, cluster = workload(graphs, of_rank), on(memory)
    time = simulate(load, cluster).time_ps
    assert simulate(load, cluster, fold=False).time_ps == time
    assert run_witnessed(lower_by_rank(load, cluster)).measures.time.tolist() == [time]
    return time


def wait(milliseconds: float) -> Compute:
    return Compute(duration=int(milliseconds * MS))


HALVES = (0, 0, 1, 1, 0, 0, 1, 1)  # of each node


def test_whoever_asks_alone_has_the_server_for_itself() -> None:
    """Two of four NPUs of a node load 2 MB each at 4 GB/s; the others come when they are done."""
    load = Access(2e6)
    assert ends([[load], [wait(1), load]], HALVES, NodeMemory(4e9, latency=70)) == 2 * MS + 70
    # Together each has a quarter all the time, as long as all ask at once.
    assert ends([[load], [load]], HALVES, NodeMemory(4e9, latency=70)) == 2 * MS + 70


def test_what_overlaps_is_shared() -> None:
    """Alone until 0.5 ms, half of it done; then a quarter of the server each until the first is
    through (1 ms more), and the others have half of theirs to go, alone: 2 ms in all."""
    load = Access(2e6)
    first = simulate(workload([[load], [wait(0.5), load]], HALVES), on(NodeMemory(4e9)))
    assert first.time_ps == 2 * MS
    spans = sorted(e["dur"] for e in first.timeline()["traceEvents"] if e.get("ph") == "X")
    assert spans == [500.0, 1500.0, 1500.0]  # us


def test_an_npu_alone_gets_no_more_than_its_link() -> None:
    memory = ZeroInfinity(1e9, drives=4, link_bandwidth=2e9)
    one = (0, 1, 1, 1, 0, 1, 1, 1)
    # The rest of the node, in step with nobody, begins when the first is through.
    assert ends([[Access(2e6)], [wait(1), Access(2e6)]], one, memory) == 1 * MS + 1.5 * MS
    assert ends([[Access(2e6)], [Access(2e6)]], one, memory) == 2 * MS


def test_stages_of_a_hierarchy_are_shared_one_by_one() -> None:
    """8 MB/ms of the groups, 4 of the links to a node, 2 of an NPU's port."""
    alone = lower(workload([[Access(2e6)], [wait(9)]], (0, *[1] * 7)), on(HIERARCHICAL))
    filling = 0.01e-3 * MS * 1e3  # less than a chunk's way through the other stages
    for n, ms in ((1, 1.0), (2, 1.0), (4, 2.0)):
        graphs = [[Access(2e6)], [wait(0.001)]]
        of_rank = [0] * n + [1] * (8 - n)
        time = simulate(workload(graphs, of_rank), on(HIERARCHICAL)).time_ps
        assert ms * MS <= time <= ms * MS + 20 * filling, n
    assert alone.structure.services.size == 0  # nobody else uses it


@given(of_rank=st.lists(st.booleans(), min_size=8, max_size=8), memory=st.sampled_from(SHARED))
def test_all_at_once_take_what_they_take_together(
    of_rank: list[bool], memory: RemoteMemory
) -> None:
    """Two graphs that load the same at once, however they are spread."""
    graphs = [[Access(1e6)], [Access(1e6), Compute(duration=1)]]
    together = simulate(workload([[Access(1e6)]], [0] * 8), on(memory)).time_ps
    assert abs(ends(graphs, [int(each) for each in of_rank], memory) - together) <= 1 + any(of_rank)


steps = st.lists(
    st.one_of(
        st.floats(1e3, 4e6).map(Access),
        st.integers(1, 2 * MS).map(lambda ps: Compute(duration=ps)),
    ),
    min_size=1,
    max_size=4,
)


@examples(15)
@given(
    graphs=st.lists(steps, min_size=2, max_size=3),
    of_rank=st.lists(st.integers(0, 1), min_size=8, max_size=8),
    memory=st.sampled_from(SHARED),
)
def test_sharing_is_work_conserving(
    graphs: list[list[Work]], of_rank: list[int], memory: RemoteMemory
) -> None:
    """No faster than each alone, no slower than if all asked at all times."""
    load = workload(graphs, of_rank)
    time = ends(graphs, of_rank, memory)
    least = most = 0
    program = lower(load, on(memory))
    for cls in range(len(program.names.class_count)):
        nodes = program.structure.nodes[program.structure.nodes["cls"] == cls]
        least = max(least, int(nodes["duration"].sum()))
        full = [
            program.structure.services[node["service"]]["most"]
            if node["service"] >= 0
            else node["duration"]
            for node in nodes
        ]
        most = max(most, sum(full))
    assert least - len(load.works()) * 8 <= time <= most + len(load.works()) * 8


def overlapping(seed: int) -> tuple[Workload, np.ndarray]:
    """Accesses whose beginnings depend on the network."""
    rng = np.random.default_rng(seed)
    graphs = []
    for _ in range(3):
        works: list[Work] = []
        for _ in range(3):
            works.append(Collective(CollectiveKind.ALL_REDUCE, rng.uniform(1e6, 2e7), "pair"))
            works.append(Access(rng.uniform(1e5, 4e6)))
        graphs.append(works)
    return workload(graphs, [0, 0, 1, 1, 2, 2, 1, 1]), 10 ** rng.uniform(9.5, 10.5, 2)


@pytest.mark.parametrize("memory", SHARED)
@pytest.mark.parametrize("seed", range(4))
def test_slopes_are_those_of_finite_differences(seed: int, memory: RemoteMemory) -> None:
    load, b = overlapping(seed)
    program = lower(load, on(memory))
    step = 1e-4 * b[0]
    points = b + np.array([[0, 0], [-step, 0], [step, 0]])
    measures = run_batch(program, points)
    path, time = measures.path, measures.time.astype(float)
    assert path is not None
    slope = -path.demand[0, 0] / b[0] ** 2 * 1e12
    assert (time[2] - time[1]) / (2 * step) == pytest.approx(slope, rel=1e-3)
    seconds = path.compute + path.memory + (path.transfer + path.latency + path.endpoint).sum(1)
    assert seconds.tolist() == measures.time.tolist()
    late = run_batch(program, b, program.latency + np.array([10_000, 0]))
    assert late.time[0] - time[0] == pytest.approx(10_000 * path.hops[0, 0], abs=5)


def test_the_bound_holds_where_servers_are_shared() -> None:
    load, _ = overlapping(0)
    program = lower(load, on(NodeMemory(4e9)))
    space = LinearSpace.budget(2, 2e10, low=1e9)
    found = lower_bound(program, space)
    assert found.bound <= run_batch(program, found.bandwidth).time[0] / 1e12


def test_stages_of_one_node_share_it() -> None:
    """Ranks in stages fold into as many classes, whether nodes hold one stage or several."""
    graphs = [[wait(0.1 * stage), Access(2e6), wait(0.1)] for stage in range(2)]
    for dims, per_node, shared in (((2, 1), 4, True), ((1, 2), 4, False)):
        base = workload(graphs, [0] * 8)
        stages = Group(dims, (1, 1))
        staged = dataclasses.replace(
            base, graph_of_rank=None, stages="stages", groups={**GROUPS, "stages": stages}
        )
        cluster = on(NodeMemory(4e9, npus_per_node=per_node))
        program = lower(staged, cluster)
        assert len(program.names.class_count) == 2
        assert bool(program.structure.services.size) is shared
        time = simulate(staged, cluster).time_ps
        assert time == simulate(staged, cluster, fold=False).time_ps
