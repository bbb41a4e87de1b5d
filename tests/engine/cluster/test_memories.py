"""The kinds of memory: how long an access lasts, who shares a server, and what it holds."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import (
    Access,
    Cluster,
    Collective,
    CollectiveKind,
    Compute,
    GraphBuilder,
    Group,
    Npu,
    RemoteMemory,
    Topology,
    Workload,
    lower,
    simulate,
)
from dimsweep.engine.cluster import MEMORIES
from dimsweep.engine.cluster.remote_memory import (
    HierarchicalMemory,
    LocalMemory,
    MemoryExpansion,
    NodeMemory,
    NpuMemory,
    PooledMemory,
    Request,
    ZeroInfinity,
    node_sizes,
)
from dimsweep.engine.errors import Code
from dimsweep.engine.formats.chakra import read_chakra_workload, write_chakra_workload
from dimsweep.engine.workload import Footprint
from dimsweep.engine.workload.models import Transformer
from dimsweep.engine.workload.plan import DeviceMesh, Offload, ParallelPlan, training
from tests.support.refused import refused

TOPOLOGY = Topology.build("Switch(4)_Switch(2)", bandwidth=[1e10, 1e10], latency=[1000, 1000])
ALL, NODE = Group((4, 2), (1, 1)), Group((4, 1), (1, 1))
HIERARCHICAL = HierarchicalMemory(
    1e9, groups=8, switches=2, switch_bandwidth=8e9, fabric_bandwidth=4e9, chunk=1e3
)
SHARED = [
    NodeMemory(4e9),
    PooledMemory(8e9),
    ZeroInfinity(1e9, drives=4),
    HIERARCHICAL,
]


def on(memory: RemoteMemory | None, npu: Npu | None = None) -> Cluster:
    return Cluster(TOPOLOGY, npu or Npu(1e12, 1e11), memory=memory)


def one(*works: Access | Collective | Compute) -> Workload:
    builder = GraphBuilder()
    for i, work in enumerate(works):
        builder.add(f"operator {i}", work)
    return Workload((builder.build(),), {"all": ALL, "node": NODE})


def some(*uses: bool) -> Workload:
    """Ranks that load 1 MB, and ranks that compute."""
    load, compute = GraphBuilder(), GraphBuilder()
    load.add("load", Access(1e6))
    compute.add("compute", Compute(duration=5))
    graph = np.array([0 if each else 1 for each in uses])
    return Workload((load.build(), compute.build()), {}, graph)


def test_local_and_remote_memory_of_an_npu_take_latency_and_bytes() -> None:
    for kind in (LocalMemory, NpuMemory):
        assert simulate(one(Access(1e6)), on(kind(1e9, latency=70))).time_ps == 70 + 10**9


def test_npus_of_a_server_share_it() -> None:
    assert simulate(one(Access(1e6)), on(NodeMemory(1e9, latency=70))).time_ps == 70 + 4 * 10**9
    two = NodeMemory(1e9, npus_per_node=2)
    assert simulate(one(Access(1e6)), on(two)).time_ps == 2 * 10**9
    assert simulate(one(Access(1e6)), on(PooledMemory(1e9))).time_ps == 8 * 10**9


def test_only_npus_that_use_the_memory_share_it() -> None:
    memory = on(NodeMemory(1e9))
    # Three of the first node and one of the second: the time is that of the first.
    uses = (True, True, True, False, False, True, False, False)
    assert simulate(some(*uses), memory).time_ps == 3 * 10**9
    program = lower(some(*uses), memory)
    assert len(program.names.class_count) == 4  # who loads and who computes, on each node
    assert sorted(program.structure.nodes["duration"].tolist()) == [5, 5, 10**9, 3 * 10**9]
    assert simulate(some(*uses), on(PooledMemory(1e9))).time_ps == 4 * 10**9


@given(
    uses=st.lists(st.booleans(), min_size=8, max_size=8),
    memory=st.sampled_from(SHARED),
)
def test_folding_changes_nothing(uses: list[bool], memory: RemoteMemory) -> None:
    workload = some(*uses)
    folded = simulate(workload, on(memory))
    assert folded.time_ps == simulate(workload, on(memory), fold=False).time_ps
    by_message = simulate(workload, on(memory), fidelity="message")
    assert folded.time_ps == by_message.time_ps


@given(
    memory=st.sampled_from(SHARED),
    n_bytes=st.floats(1.0, 1e9),
    npus=st.integers(1, 8),
    faster=st.floats(1.0, 10.0),
)
def test_sharing_is_no_faster_and_bandwidth_no_slower(
    memory: RemoteMemory, n_bytes: float, npus: int, faster: float
) -> None:
    alone, together = (
        memory.access_time(Request(n_bytes)),
        memory.access_time(Request(n_bytes, npus, 1)),
    )
    assert together >= alone
    wide = dataclasses.replace(memory, bandwidth=memory.bandwidth * faster)
    assert wide.access_time(Request(n_bytes, npus)) <= memory.access_time(Request(n_bytes, npus))
    assert memory.access_time(Request(2 * n_bytes, npus)) >= memory.access_time(
        Request(n_bytes, npus)
    )


def test_drives_of_a_node_are_one_server_behind_links() -> None:
    drives = ZeroInfinity(1e9, drives=4)
    assert drives.access_time(Request(1e6, npus=4)) == 10**9
    linked = dataclasses.replace(drives, link_bandwidth=5e8)
    assert linked.access_time(Request(1e6, npus=4)) == 2 * 10**9
    assert linked.access_time(Request(1e6, npus=16)) == 4 * 10**9


# --- hierarchical memory ------------------------------------------------------------------------


def test_a_pipeline_takes_its_stages_once_and_its_slowest_for_every_other_chunk() -> None:
    """By hand: 8 NPUs of 2 nodes load 4,000 bytes each, 8 groups send 1,000 bytes a chunk."""
    pipeline = HIERARCHICAL.pipeline(Request(4e3, npus=8, nodes=2))
    assert pipeline.chunks == 4
    assert pipeline.group == 1e3 / 1e9
    assert pipeline.switch == 8e3 / (2 * 2 * 8e9)
    assert pipeline.fabric == 8e3 / (8 * 4e9)
    assert pipeline.bottleneck == "group"
    assert pipeline.seconds == pytest.approx(1e-6 + 0.25e-6 + 0.25e-6 + 3 * 1e-6)
    assert simulate(one(Access(4e3)), on(HIERARCHICAL)).time_ps == 4_500_000


@given(
    n_bytes=st.floats(1.0, 1e9),
    npus=st.integers(1, 8),
    members=st.sampled_from([(1, 1), (4, 1), (8, 2)]),
)
def test_no_byte_is_lost_in_a_pipeline(n_bytes: float, npus: int, members: tuple[int, int]) -> None:
    """What the stages move in all their chunks is what was asked for, as often as it is copied."""
    memory, request = HIERARCHICAL, Request(n_bytes, npus, 2, *members)
    pipeline = memory.pipeline(request)
    total = n_bytes * npus
    assert pipeline.chunks * pipeline.group * 8 * memory.bandwidth == pytest.approx(total)
    moved = pipeline.chunks * pipeline.switch * 2 * 2 * memory.switch_bandwidth
    assert moved == pytest.approx(total * members[1])
    moved = pipeline.chunks * pipeline.fabric * npus * memory.fabric_bandwidth
    assert moved == pytest.approx(total * members[0])
    slowest = max(pipeline.group, pipeline.switch, pipeline.fabric) * pipeline.chunks
    assert slowest <= pipeline.seconds * (1 + 1e-12)


@pytest.mark.parametrize("store", [False, True])
def test_a_gather_reads_each_byte_once(store: bool) -> None:
    """The groups send it once, the links to each node once, the fabrics to every member."""
    gathered = one(Access(4e3, store, "all"))
    request = Request(4e3, 8, 2, 8, 2)
    assert simulate(gathered, on(HIERARCHICAL)).time_ps == HIERARCHICAL.access_time(request)
    pipeline = HIERARCHICAL.pipeline(request)
    alone = HIERARCHICAL.pipeline(Request(4e3, 8, 2))
    assert (pipeline.group, pipeline.chunks) == (alone.group, alone.chunks)
    assert pipeline.switch == 2 * alone.switch
    assert pipeline.fabric == 8 * alone.fabric
    in_node = one(Access(4e3, store, "node"))
    assert simulate(in_node, on(HIERARCHICAL)).time_ps == HIERARCHICAL.access_time(
        Request(4e3, 8, 2, 4, 1)
    )


def test_a_plan_gathers_what_it_loads_and_reduces_what_it_stores(tmp_path: Path) -> None:
    model = Transformer(64, 4, 4, 32, vocabulary=128)
    mesh = DeviceMesh.place({"data": "rest"}, (4, 2))
    plan = ParallelPlan(batch=16, zero=3, offload=frozenset(Offload), memory_collectives=True)
    workload = training(model, plan, mesh)
    works = [operator.work for operator in workload.graphs[0]]
    assert not any(isinstance(work, Collective) for work in works)
    over = [work for work in works if isinstance(work, Access) and work.group]
    gathered = sum(work.n_bytes for work in over if not work.store)
    reduced = sum(work.n_bytes for work in over if work.store)
    own = model.parameters / 8
    assert gathered == pytest.approx(own * 2 * 2 * 2)  # both passes of two micro-batches
    assert reduced == pytest.approx(own * 2 * 2)
    by_network = training(model, dataclasses.replace(plan, memory_collectives=False), mesh)
    for both in ("weights", "optimizer"):
        assert getattr(workload.footprint, both) == getattr(by_network.footprint, both)
    groups = write_chakra_workload(workload, on(HIERARCHICAL), tmp_path / "w")
    read = read_chakra_workload(tmp_path / "w", groups, (4, 2), "read")
    assert simulate(read, on(HIERARCHICAL)).time_ps == simulate(workload, on(HIERARCHICAL)).time_ps


# --- expansion ----------------------------------------------------------------------------------


def test_traffic_is_divided_as_the_footprint_is() -> None:
    memory = MemoryExpansion(5e10, capacity=30.0)
    assert memory.blended_bandwidth(1e11, 10.0, 8.0) == 1e11
    assert memory.blended_bandwidth(1e11, 10.0, 40.0) == pytest.approx(
        1 / (0.25 / 1e11 + 0.75 / 5e10)
    )
    need = Footprint(0, 40.0, 0.0, 0.0, 0.0, 0.0, "forward pass")
    workload = dataclasses.replace(one(Compute(n_bytes=1e6)), footprint=need)
    npu = Npu(1e12, 1e11, memory=10.0)
    blended_bandwidth = 1e6 * (0.25 / 1e11 + 0.75 / 5e10)
    assert simulate(workload, on(memory, npu)).time == pytest.approx(blended_bandwidth)
    for short in (None, NpuMemory(1e9), dataclasses.replace(memory, capacity=29.0)):
        with refused("", "infeasible", "40 B"):
            simulate(workload, on(short, npu))


# --- bad input ----------------------------------------------------------------------------------


def hierarchical(**changes: float) -> RemoteMemory:
    return dataclasses.replace(HIERARCHICAL, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "where", "code", "named"),
    [
        (
            lambda: hierarchical(fabric_bandwidth=0.0),
            "fabric_bandwidth",
            "missing",
            "256 GB/s",
        ),
        (
            lambda: hierarchical(switch_bandwidth=0.0),
            "switch_bandwidth",
            "missing",
            "256 GB/s",
        ),
        (lambda: hierarchical(switches=9), "switches", "out-of-range", "9"),
        (lambda: hierarchical(groups=0), "groups", "out-of-range", "0"),
        (lambda: ZeroInfinity(1e9, drives=0), "drives", "out-of-range", "0"),
        (
            lambda: ZeroInfinity(1e9, link_bandwidth=-1.0),
            "link_bandwidth",
            "out-of-range",
            "-1 B/s",
        ),
        (lambda: node_sizes(9, (4, 2)), "memory.npus_per_node", "out-of-range", "9"),
        (lambda: node_sizes(3, (4, 2)), "memory.npus_per_node", "infeasible", "3"),
        (
            lambda: simulate(one(Access(1.0, group="all")), on(PooledMemory(1e9))),
            "memory.kind",
            "unsupported",
            "hierarchical",
        ),
        (
            lambda: simulate(one(Access(1.0, group="no")), on(HIERARCHICAL)),
            "operator",
            "unknown-name",
            "'no'",
        ),
    ],
)
def test_bad_memory_is_refused(
    make: Callable[[], object], where: str, code: Code, named: str
) -> None:
    with refused("", code, named) as error:
        make()
    assert error.value.where.startswith(where)


def test_members_of_a_gather_run_one_graph() -> None:
    gather, other = GraphBuilder(), GraphBuilder()
    gather.add("gather", Access(1e3, group="all"))
    other.add("load", Access(1e3))
    graphs = gather.build(), other.build()
    workload = Workload(graphs, {"all": ALL}, np.array([0] * 7 + [1]))
    with refused("workload", "unsupported", "'all'"):
        simulate(workload, on(HIERARCHICAL))


def test_a_plan_keeps_nothing_in_memory_that_holds_nothing() -> None:
    model, mesh = Transformer(64, 4, 4, 32), DeviceMesh.place({"data": "rest"}, (4, 2))
    workload = training(model, ParallelPlan(batch=16, offload=frozenset(Offload)), mesh)
    with refused("", "infeasible", "'local'"):
        lower(workload, on(LocalMemory(1e9)))


@pytest.mark.parametrize("memory", SHARED)
def test_capacity_is_that_of_a_server(memory: RemoteMemory) -> None:
    need = Footprint(0, 0.0, 0.0, 0.0, 0.0, 0.0, "forward pass", remote=100.0)
    workload = dataclasses.replace(one(Access(1.0)), footprint=need)
    servers = {"zero_infinity": 4, "hierarchical": 8}.get(kind(memory), 1)
    sharers = 4 if memory.SHARING == "node" else 8
    each = 100.0 * sharers / servers
    lower(workload, on(dataclasses.replace(memory, capacity=each)))
    with refused("", "infeasible", "100 B", "99"):
        lower(workload, on(dataclasses.replace(memory, capacity=each * 0.99)))


def kind(memory: RemoteMemory) -> str:
    return next(name for name, cls in MEMORIES.items() if type(memory) is cls)


def test_a_gather_and_a_collective_may_meet() -> None:
    """Accesses and collectives of one group share no stream."""
    gather = Collective(CollectiveKind.ALL_REDUCE, 1e3, "all")
    both = simulate(one(Access(4e3, group="all"), gather), on(HIERARCHICAL)).time_ps
    assert both == simulate(one(Access(4e3, group="all")), on(HIERARCHICAL)).time_ps
