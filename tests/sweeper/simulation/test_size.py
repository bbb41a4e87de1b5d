"""Graphs that would take all memory are refused before they are built."""

import tracemalloc

import pytest

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.simulation.program import build_cluster, build_workload

GPT3 = ("workload=gpt3_175b", "topology=hgx_h100", "topology.shape=Switch(8)_Switch(64)")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((*GPT3, "workload.model.layers=100000000"), "100000000 layers"),
        (
            (*GPT3, "workload.plan.batch=null", "workload.plan.micro_batches=10000000"),
            "10000000 micro-batches",
        ),
        (
            ("study=libra_gpt3_4d", "workload.layers=100000000"),
            "about 2.5e[+]09 nodes and take 8e[+]02 GB",
        ),
    ],
)
def test_a_graph_that_is_too_large_is_refused_at_once(words: tuple[str, ...], says: str) -> None:
    config = compose(words).config
    cluster = build_cluster(config)
    tracemalloc.start()
    try:
        with pytest.raises(DimsweepError, match=says) as told:
            build_workload(config, cluster)
        assert tracemalloc.get_traced_memory()[1] < 10e6
    finally:
        tracemalloc.stop()
    assert told.value.where.startswith("workload")


def test_the_estimate_is_near_the_count() -> None:
    config = compose([*GPT3, "npu.memory=null", "workload.plan.batch=null"]).config
    config = config.with_values({"workload.plan.micro_batches": 16})
    graphs = build_workload(config, build_cluster(config)).graphs
    nodes = sum(map(len, graphs))
    assert nodes == pytest.approx(96 * 16 * 25, rel=0.1)
