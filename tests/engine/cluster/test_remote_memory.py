"""Remote memory: accesses one after another, beside computation and communication; offloading."""

import dataclasses
from pathlib import Path

import pytest

from dimsweep.engine import (
    Access,
    Cluster,
    Collective,
    CollectiveModel,
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
from dimsweep.engine.bound import LinearSpace, lower_bound
from dimsweep.engine.formats.chakra import read_chakra_workload, write_chakra_workload
from dimsweep.engine.workload import Footprint
from dimsweep.engine.workload.models import Transformer
from dimsweep.engine.workload.plan import (
    DeviceMesh,
    Offload,
    ParallelPlan,
    training,
    training_footprint,
)
from tests.support.refused import refused

MODEL = Transformer(64, 4, 4, 32, vocabulary=128)
TOPOLOGY = Topology.build("Ring(4)", bandwidth=[1e10], latency=[1000])
CLUSTER = Cluster(
    TOPOLOGY, Npu(1e12, 1e11), CollectiveModel(chunks=2), memory=RemoteMemory(1e9, latency=500)
)
MESH = DeviceMesh.place({"data": "rest"}, (4,))


def timed(*steps: tuple[str, Compute | Access | Collective, tuple[int, ...]]) -> Workload:
    builder = GraphBuilder()
    for name, work, after in steps:
        builder.add(name, work, after)
    return Workload((builder.build(),), {"all": Group((4,), (1,))})


def test_an_access_lasts_its_latency_and_its_bytes() -> None:
    assert simulate(timed(("load", Access(1000.0), ())), CLUSTER).time_ps == 500 + 1_000_000


def test_accesses_wait_for_one_another_and_for_nothing_else() -> None:
    loads = [(f"load {i}", Access(1000.0), ()) for i in range(3)]
    result = simulate(timed(*loads, ("compute", Compute(duration=2_000_000), ())), CLUSTER)
    assert result.time_ps == 3 * 1_000_500
    assert result.compute == 2e-6
    assert result.exposed == pytest.approx(1_001_500e-12)  # what no computation hides
    assert result.exposed_by_collective["memory"] == pytest.approx(1_001_500e-12)


def test_the_critical_path_goes_through_memory() -> None:
    result = simulate(
        timed(("load", Access(1000.0), ()), ("compute", Compute(duration=7), (0,))), CLUSTER
    )
    path = result.critical_path
    assert path is not None
    assert path["memory"] == 1_000_500e-12
    assert path["compute"] == 7e-12


def test_without_remote_memory_an_access_is_refused() -> None:
    with refused("memory", "missing", "'load'"):
        simulate(timed(("load", Access(1.0), ())), dataclasses.replace(CLUSTER, memory=None))


@pytest.mark.parametrize(
    ("memory", "where"),
    [
        (lambda: RemoteMemory(0.0), "bandwidth"),
        (lambda: RemoteMemory(1e9, latency=-1), "latency"),
        (lambda: RemoteMemory(1e9, capacity=-1.0), "capacity"),
    ],
)
def test_bad_memory_is_named(memory: object, where: str) -> None:
    assert callable(memory)
    with refused(where, "out-of-range"):
        memory()


OFFLOADS = [
    frozenset(list(Offload)[:n]) | extra
    for n in range(4)
    for extra in (frozenset(), frozenset({Offload.WEIGHTS}))
]


@pytest.mark.parametrize("zero", [0, 3])
@pytest.mark.parametrize("offload", OFFLOADS, ids=lambda o: "+".join(sorted(o)) or "nothing")
def test_offloading_frees_memory_and_takes_time(zero: int, offload: frozenset[Offload]) -> None:
    plan = ParallelPlan(batch=8, zero=zero)
    here = training(MODEL, plan, MESH)
    away = training(MODEL, dataclasses.replace(plan, offload=offload), MESH)
    assert here.footprint is not None
    assert away.footprint is not None
    if not offload:
        assert away.footprint == here.footprint
        return
    assert away.footprint.total < here.footprint.total
    assert away.footprint.remote > 0
    assert simulate(away, CLUSTER).time_ps > simulate(here, CLUSTER).time_ps
    fast = dataclasses.replace(CLUSTER, memory=RemoteMemory(1e18))
    assert simulate(away, fast).time == pytest.approx(simulate(here, fast).time, rel=0.01)


def test_every_byte_comes_as_often_as_it_is_needed() -> None:
    """Weights for each forward and backward pass, activations once each way, state once each."""
    plan = ParallelPlan(batch=8, zero=3, offload=frozenset(Offload))
    workload = training(MODEL, plan, MESH)
    loads = stores = 0.0
    for operator in workload.graphs[0]:
        if isinstance(operator.work, Access):
            if operator.work.store:
                stores += operator.work.n_bytes
            else:
                loads += operator.work.n_bytes
    own = MODEL.parameters / 4
    n_micro = 2
    kept = _activations(plan) * n_micro
    assert loads == pytest.approx(own * (2 * 2 * n_micro + 12) + kept)
    assert stores == pytest.approx(own * (12 + 2) + kept)


def _activations(plan: ParallelPlan) -> float:
    network = MODEL.for_rank(plan.shard(MESH))
    return sum(b.activations for b in (*network.front, *network.layers, *network.back))


def test_folding_and_the_message_kernel_agree() -> None:
    mesh = DeviceMesh.place({"pipeline": 2, "data": "rest"}, (4,))
    plan = ParallelPlan(batch=8, zero=3, offload=frozenset(Offload))
    workload = training(MODEL, plan, mesh)
    folded = simulate(workload, CLUSTER)
    assert folded.time_ps == simulate(workload, CLUSTER, fold=False).time_ps
    by_message = simulate(workload, CLUSTER, fidelity="message")
    assert by_message.time == pytest.approx(folded.time, rel=0.02)  # phases may overlap there


def test_the_bound_knows_that_accesses_wait_for_one_another() -> None:
    program = lower(timed(*[(f"load {i}", Access(1e6), ()) for i in range(5)]), CLUSTER)
    space = LinearSpace.budget(1, 1e10, low=1e9)
    assert lower_bound(program, space).bound == pytest.approx(5 * (1e-3 + 5e-10), rel=1e-6)


def test_offloading_survives_a_trace(tmp_path: Path) -> None:
    plan = ParallelPlan(batch=8, zero=3, offload=frozenset(Offload))
    workload = training(MODEL, plan, MESH)
    groups = write_chakra_workload(workload, CLUSTER, tmp_path / "w")
    read = read_chakra_workload(tmp_path / "w", groups, (4,), "read")
    assert simulate(read, CLUSTER).time_ps == simulate(workload, CLUSTER).time_ps


def test_remote_memory_can_be_too_small() -> None:
    plan = ParallelPlan(batch=8, offload=frozenset(Offload))
    workload = training(MODEL, plan, MESH)
    small = dataclasses.replace(CLUSTER, memory=RemoteMemory(1e9, capacity=1e3))
    with refused("", "infeasible", "1 kB"):
        lower(workload, small)


def test_a_footprint_needs_no_graph() -> None:
    plan = ParallelPlan(batch=8, zero=1)
    found = training_footprint(MODEL, plan, MESH)
    assert isinstance(found, Footprint)
    assert found == training(MODEL, plan, MESH).footprint
