"""Bounds on plans without their graphs, against the memory's account, the bound of the lowered
program, and the simulation."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from dimsweep.engine import (
    Cluster,
    CollectiveModel,
    DimensionOrder,
    DimsweepError,
    InfeasibleError,
    Npu,
    Topology,
    lower,
    run_batch,
)
from dimsweep.engine.bound import EventBound, LinearSpace, time_of
from dimsweep.engine.bound.communication import BoundTable, GroupBounds
from dimsweep.engine.bound.plans import CellCommunication, bound_time
from dimsweep.engine.bound.shards import PlanCounts, Stagings, bound_memory
from dimsweep.engine.cluster.network_model import NetworkModel
from dimsweep.engine.cluster.remote_memory import NodeMemory, NpuMemory
from dimsweep.engine.collective.algorithms import AUTO, list_algorithms
from dimsweep.engine.network.degrade import Change, Selection
from dimsweep.engine.workload import AXES
from dimsweep.engine.workload.models import Graphs, Recompute, Transformer
from dimsweep.engine.workload.plan import (
    DeviceMesh,
    Offload,
    ParallelPlan,
    Schedule,
    Stack,
    training,
    training_footprint,
)
from tests.support.examples import examples
from tests.support.refused import refused

NPU = Npu(flops=100e12, memory_bandwidth=1e12, efficiency=0.6, launch=8_000_000, memory=80e9)
SHAPES = (
    ("Ring(4)_Switch(4)", 2),
    ("FullyConnected(4)_Ring(2)_Switch(2)", 3),
    ("Switch(2)_Switch(8)", 2),
    ("Torus2D(2,2)_Switch(4)", 2),
)
# No NPU is slower, or some are, wherever they stand in a plan.
DEGRADED = [
    (),
    (),
    tuple(Change(npu=Selection(f"NPU {i}"), speed=left) for i, left in ((3, 0.5), (12, 0.9))),
]
ORDERS = (AXES, ("tensor", "pipeline", "context", "expert", "data"))


def model(experts: int = 0) -> Transformer:
    return Transformer(
        hidden=512, layers=4, heads=8, sequence=256, vocabulary=2048, experts=experts, tied=False
    )


@st.composite
def cases(draw: Any) -> tuple[Cluster, Transformer, ParallelPlan, DeviceMesh]:
    """Plans on 16 NPUs."""
    shape, n_dims = draw(st.sampled_from(SHAPES))
    speeds = st.floats(1e9, 500e9)
    topology = Topology.build(
        shape,
        bandwidth=[draw(speeds) for _ in range(n_dims)],
        latency=[draw(st.sampled_from([0, 500_000, 5_000_000])) for _ in range(n_dims)],
    )
    named = [draw(st.sampled_from([AUTO, *list_algorithms(dim.block)])) for dim in topology.dims]
    cluster = Cluster(
        topology,
        NPU,
        CollectiveModel(
            algorithms=tuple(named),
            chunks=draw(st.sampled_from([1, 4])),
            order=draw(st.sampled_from(DimensionOrder)),
            endpoint_delay=draw(st.sampled_from([0, 100_000])),
            streams=draw(st.sampled_from([1, 2])),
        ),
        NetworkModel(degrade=draw(st.sampled_from(DEGRADED))),
        memory=draw(st.sampled_from([NpuMemory(25e9, 1_000_000), NodeMemory(100e9, 0)])),
    )
    degrees, left = {}, 16
    for axis in ("tensor", "context", "expert", "pipeline"):
        degrees[axis] = draw(st.sampled_from([d for d in (1, 2, 4) if d <= left]))
        left //= degrees[axis]
    degrees["data"] = left
    zero = draw(st.integers(0, 3))
    plan = ParallelPlan(
        batch=degrees["data"] * degrees["expert"] * draw(st.sampled_from([1, 2, 4, 8])),
        schedule=draw(st.sampled_from([Schedule.GPIPE, Schedule.ONE_F_ONE_B])),
        interleave=draw(st.sampled_from([1, 2])),
        sequence_parallel=draw(st.booleans()),
        recompute=draw(st.sampled_from(Recompute)),
        zero=zero,
        whole_sums=zero == 1 and draw(st.booleans()),
        overlap_gradients=draw(st.booleans()),
        overlap_parameters=zero in (1, 2) and draw(st.booleans()),
        fused_sums=draw(st.booleans()),
        graphs=draw(st.sampled_from(Graphs)),
        stack=draw(st.sampled_from(Stack)),
        offload=draw(st.frozensets(st.sampled_from(Offload))),
    )
    order = draw(st.sampled_from(ORDERS))
    try:
        mesh = DeviceMesh.place(
            {axis: degrees[axis] for axis in order}, cluster.topology.sizes, cluster.symmetric_dims
        )
    except DimsweepError:  # axes that share gradients are apart in a dimension
        reject()
    return cluster, model(4 if degrees["expert"] > 1 else 0), plan, mesh


def turns_of(plan: ParallelPlan, mesh: DeviceMesh) -> PlanCounts:
    numbers = (
        mesh.n_micro_batches(plan.batch, plan.micro_batch),
        mesh.degree("replicas"),
        mesh.degree("expert_replicas"),
    )
    return PlanCounts(*(np.array([number]) for number in numbers))


def reach_of(mesh: DeviceMesh, cluster: Cluster) -> CellCommunication:
    """One cell's."""
    used = [name for name, group in mesh.groups.items() if group.n_members > 1]
    bandwidth = np.array([dim.bandwidth for dim in cluster.topology.dims], dtype=float)
    ways = GroupBounds().bound_collectives(cluster, [mesh.groups[name] for name in used], bandwidth)
    stages = mesh.groups["pipeline"]
    between = (
        [GroupBounds().bound_messages(cluster, stages, bandwidth)] if stages.n_members > 1 else []
    )
    table = BoundTable([ways, *between])
    hops = int(table.first[1]) + np.arange(stages.n_members)[None] if between else None
    groups = {name: np.array([i], dtype=np.int64) for i, name in enumerate(used)}
    at, alone = table.column_factors(ways, bandwidth)[None], np.zeros(1, dtype=np.int64)
    in_turn = cluster.collectives.streams == 1
    return CellCommunication(1, table, groups, hops, at, alone, alone, is_sequential=in_turn)


@given(cases())
@examples(100)
def test_no_level_exceeds_the_next(
    case: tuple[Cluster, Transformer, ParallelPlan, DeviceMesh],
) -> None:
    cluster, transformer, plan, mesh = case
    stagings = Stagings(transformer, cluster.npu, cluster.memory, cluster.slowest_speed)
    degrees = [mesh.degree(axis) for axis in AXES]
    try:
        program = lower(training(transformer, plan, mesh), cluster)
    except InfeasibleError:
        return
    staging, turns = stagings.build_staging(plan, degrees), turns_of(plan, mesh)
    alone = bound_time(staging, plan, turns, CellCommunication(1), stagings).item()
    loads = bound_time(staging, plan, turns, reach_of(mesh, cluster), stagings).item()
    b = program.bandwidth
    least = time_of(EventBound(program, LinearSpace.build(b, b)), b)
    simulated = float(run_batch(program, b[None]).time[0]) / 1e12
    assert 0 < alone <= loads <= simulated
    assert (0 if plan.offload else loads) <= least <= simulated * (1 + 1e-12)
    footprint = training_footprint(transformer, plan, mesh)
    held, (found, away) = footprint.total, (e.item() for e in bound_memory(staging, plan, turns))
    assert 0 < found <= held
    assert (0 < away <= footprint.remote) if plan.offload else away == 0
    # What DeepSpeed joins to flat buffers is left out of the least.
    whole = plan.stack is not Stack.DEEPSPEED
    whole = whole and Offload.ACTIVATIONS not in plan.offload
    if whole and plan.interleave == 1 and (plan.zero < 3 or mesh.degree("expert") == 1):
        assert found == pytest.approx(held, rel=1e-9)


@pytest.mark.parametrize(("pipeline", "stages"), [(1, [4]), (4, [1, 1, 1, 1])])
def test_a_slower_npu_is_waited_for(pipeline: int, stages: list[int]) -> None:
    """All passes of its stage, whichever that is, take twice as long on it."""
    degrees, plan = (1, 1, 1, pipeline, 4), ParallelPlan(batch=32 * 4, stage_layers=tuple(stages))
    turns = PlanCounts(*(np.array([n]) for n in (32, 4, 4)))
    whole, half = (
        bound_time(
            each.build_staging(plan, degrees), plan, turns, CellCommunication(1), each
        ).item()
        for each in (Stagings(model(), NPU, slowest=share) for share in (1.0, 0.5))
    )
    assert 1.4 * whole < half < 2 * whole


@pytest.mark.parametrize("slow", [0, 7])
def test_a_slower_npu_may_be_in_the_stage_that_does_least(slow: int) -> None:
    change = Change(npu=Selection(f"NPU {slow}"), speed=0.5)
    topology = Topology.build("Switch(4)_Switch(2)", bandwidth=[1e12] * 2, latency=[0, 0])
    cluster = Cluster(topology, NPU, network=NetworkModel(degrade=(change,)))
    mesh = DeviceMesh.place({"data": 4, "pipeline": 2}, topology.sizes, cluster.symmetric_dims)
    plan = ParallelPlan(batch=64, stage_layers=(3, 1))
    program = lower(training(model(), plan, mesh), cluster)
    simulated = float(run_batch(program, program.bandwidth[None]).time[0]) / 1e12
    stagings = Stagings(model(), NPU, slowest=cluster.slowest_speed)
    staging = stagings.build_staging(plan, [mesh.degree(axis) for axis in AXES])
    least = bound_time(staging, plan, turns_of(plan, mesh), CellCommunication(1), stagings).item()
    assert (0.6 if slow else 0.5) * simulated < least <= simulated


@pytest.mark.parametrize("key", ["weight_streaming", "shard_ranks", "overlap_experts", "schedule"])
def test_what_no_bound_knows_is_refused(key: str) -> None:
    others = {"shard_ranks": 2, "schedule": Schedule.ZB_H1}
    value = others.get(key, True)
    plan = ParallelPlan(batch=8, zero=3 * (key == "shard_ranks"), **{key: value})
    with refused(f"plan.{key}", "unsupported"):
        Stagings(model(), NPU).build_staging(plan, (1, 1, 1, 1, 4))
