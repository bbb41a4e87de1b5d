"""The account along the critical path, and the classes beside it: both add up to the time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import (
    Access,
    Cluster,
    GraphBuilder,
    Result,
    Topology,
    Workload,
    lower,
    run_one,
    simulate,
)
from dimsweep.engine.cluster import MEMORIES
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.simulation.program import build_program
from tests.support.examples import examples
from tests.support.programs import clusters, pipelines, tangles, training, uneven


def check_sums(result: Result) -> None:
    """All parts add up to the time, to the picosecond, and agree with the path of the kernel."""
    along, path, time = result.path_account, result.breakdown.path, result.time_ps
    assert along is not None and path is not None
    by_dim = np.zeros(len(result.program.bandwidth), dtype=np.int64)
    by_dim += sum(along.communication.values(), np.zeros_like(by_dim))
    assert by_dim.tolist() == (path.transfer + path.latency + path.endpoint)[0].tolist()
    assert sum(along.compute.values()) + by_dim.sum() == time
    computes = along.compute.get("compute", 0) + along.compute.get("host", 0)
    assert computes == path.compute[0]
    assert along.by_class.sum() == time
    for cls in result.classes:
        assert min(cls.compute, cls.communication, cls.waiting, cls.idle) >= 0
        assert cls.compute + cls.communication + cls.waiting + cls.idle == time
    assert sum(cls.ranks for cls in result.classes) == result.program.n_npus


@examples(60)
@given(st.data())
def test_all_parts_add_up(data: st.DataObject) -> None:
    cluster = data.draw(clusters(max_npus=64))
    kind = data.draw(st.sampled_from([training, tangles, uneven, pipelines]))
    workload = data.draw(kind(cluster.topology.sizes))
    check_sums(Result(run_one(lower(workload, cluster, fold=data.draw(st.booleans())))))


SMALL = ("collective=streamed", "topology.bandwidth=50 GB/s", "topology.latency=1 us")
EXPERTS = (
    *("workload=deepseek_v3", "topology=dgx_h100", "npu=h200", "workload.model.layers=8"),
    *("workload.parallel={expert: 16, data: rest, pipeline: 4}", "workload.plan.batch=256"),
    *("topology.shape=Switch(8)_Switch(16)", "workload.model.experts=64"),
)
RUNS = {
    "a pipeline with experts": EXPERTS,
    "decoding": (
        *("workload=llama3_70b", "workload.plan.task=decode", "topology=dgx_h100", "npu=h100"),
        *("topology.shape=Switch(8)_Switch(4)", "workload.model.layers=4"),
    ),
    "remote memory that NPUs share": (
        *("workload=transformer_17b", "topology=dgx_a100", "memory=host", "workload.plan.zero=0"),
        *("topology.shape=Switch(8)_Switch(4)", "workload.plan.batch=64"),
    ),
    "ASTRA-sim's rules": ("workload=all_reduce", "profile=astra_sim", "topology=one_switch"),
}


@pytest.mark.parametrize("name", RUNS)
def test_real_plans_add_up(name: str) -> None:
    result = Result(run_one(build_program(compose([*SMALL, *RUNS[name]]).config)))
    check_sums(result)
    assert result.path_account is not None
    assert ("remote memory" in result.path_account.compute) == (
        name == "remote memory that NPUs share"
    )


def test_experts_are_on_the_path_though_the_last_rank_has_none() -> None:
    """The ranks that finish last run the first, dense layers: they wait for all-to-alls that are
    not theirs, which an account of theirs alone never shows."""
    result = Result(run_one(build_program(compose([*SMALL, *EXPERTS]).config)))
    assert result.path_account is not None
    told = {kind.split()[0] for kind, time in result.exposed_by_collective.items() if time}
    along = {
        kind.split()[0]: time.sum() for kind, time in result.path_account.communication.items()
    }
    assert "all_to_all" not in told
    assert max(along, key=lambda kind: along[kind]) == "all_to_all"
    last = result.classes[result.last_class]
    assert last.waiting > 0.5 * result.time_ps and (last.path or 0) < 0.2 * result.time_ps


def test_shared_servers_are_on_the_path() -> None:
    """Two NPUs of a node load at once: each takes as long as both."""
    builder = GraphBuilder()
    builder.add("load", Access(1000.0))
    topology = Topology.build("Switch(2)", bandwidth=[1e9], latency=[0])
    memory = MEMORIES["pool"](bandwidth=1e9)
    result = simulate(Workload((builder.build(),)), Cluster(topology, memory=memory), fold=False)
    check_sums(result)
    assert result.path_account is not None
    assert result.path_account.compute == {"compute": 0, "remote memory": result.time_ps}


def test_no_path_is_told_message_by_message() -> None:
    words = ["workload=all_reduce", "topology.shape=Switch(4)", "topology.tiers=[]", *SMALL]
    config = compose([*words, "fidelity=message"]).config
    program = build_program(config)
    result = simulate(program.workload, program.cluster, fidelity="message")
    assert result.path_account is None
    assert [cls.path for cls in result.classes] == [None] * 4
