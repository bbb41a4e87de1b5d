"""Weights that stream: what comes, what leaves, and that nothing overlaps."""

from collections import Counter

import pytest

from dimsweep.engine import (
    Access,
    Cluster,
    Collective,
    Compute,
    Npu,
    RemoteMemory,
    Topology,
    simulate,
)
from dimsweep.engine.cluster.remote_memory import EdgeIo
from dimsweep.engine.workload.models import Transformer
from dimsweep.engine.workload.plan import DeviceMesh, Offload, ParallelPlan, training
from tests.support.refused import refused

MODEL = Transformer(64, 8, 8, 32, vocabulary=128)


@pytest.mark.parametrize("n_micro", [1, 3])
def test_weights_come_twice_and_gradients_leave_once_a_micro_batch(n_micro: int) -> None:
    plan = ParallelPlan(batch=2 * n_micro, weight_streaming=True)
    workload = training(MODEL, plan, DeviceMesh.place({"data": 2}, (2,)))
    n_bytes: Counter[bool] = Counter()
    for operator in workload.graphs[0]:
        assert not isinstance(operator.work, Collective)  # gradients are summed up on the way
        if isinstance(operator.work, Access):
            assert operator.work.shared and operator.work.group == "replicas"
            n_bytes[operator.work.store] += operator.work.n_bytes
    weights = 2 * MODEL.parameters
    assert n_bytes == {False: 2 * n_micro * weights, True: n_micro * weights}


def test_nothing_computes_while_weights_stream() -> None:
    plan = ParallelPlan(batch=2, weight_streaming=True)
    workload = training(MODEL, plan, DeviceMesh.place({"data": 2}, (2,)))
    topology = Topology.build("Switch(2)", bandwidth=[1e9], latency=[0])
    streamed = sum(op.work.n_bytes for op in workload.graphs[0] if isinstance(op.work, Access))
    assert any(isinstance(op.work, Compute) for op in workload.graphs[0])
    for memory in (RemoteMemory(1e9), EdgeIo(1e9)):  # of each; of both, who load the same
        result = simulate(workload, Cluster(topology, Npu(1e12, 1e12), memory=memory))
        assert result.time == pytest.approx(result.compute + streamed / 1e9, rel=1e-6)


@pytest.mark.parametrize("other", [{"zero": 1}, {"offload": frozenset({Offload.OPTIMIZER})}])
def test_streaming_and_other_ways_to_keep_weights_away_exclude_each_other(other: dict) -> None:
    with refused("weight_streaming", "infeasible"):
        ParallelPlan(batch=2, weight_streaming=True, **other)
