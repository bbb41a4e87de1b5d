"""An iteration is compared with another one of as many samples, or the study says why not."""

from pathlib import Path

import pytest

from tests.support.refused import refused
from tests.support.studies import planned

# Each replica has as many micro-batches, however many replicas there are.
LLAMA = (
    "study=libra_gpt3_4d",
    "workload=llama3_8b",
    "workload.model.layers=2",
    "workload.plan.zero=1",
    "topology=dgx_h100",
    "npu=h100",
    "cost=dgx_h100",
    "topology.shape=Switch(8)",
    "topology.bandwidth=[450 GB/s]",
    "topology.latency=[2 us]",
    "topology.tiers=[package]",
    "space.bandwidth={}",
    "~space.bandwidth.total",
    "search=grid",
)
BATCH = ("workload.plan.batch=64", "workload.plan.micro_batches=null")
PLANS = "grid={workload.parallel: [{data: rest}, {tensor: 8}]}"
TENSOR = "space.parameters={workload.parallel.tensor: {values: [1, 8]}}"


@pytest.mark.parametrize("objective", ["time", "perf_per_cost", "[cost, time]"])
def test_decisions_that_train_different_batches_do_not_compete(
    objective: str, tmp_path: Path
) -> None:
    with refused("objective", "mismatch", "128 samples", "16 samples"):
        planned([*LLAMA, PLANS, f"objective={objective}"], tmp_path)


@pytest.mark.parametrize(
    "words",
    [
        ("objective=throughput",),
        ("objective=time", *BATCH),
        ("objective=time", "roles={workload.parallel: scenario}"),
    ],
)
def test_they_do_by_samples_with_one_batch_or_as_scenarios(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    assert len(planned([*LLAMA, PLANS, *words], tmp_path).cells) == 2


def test_a_baseline_of_another_batch_is_nothing_that_gains_are_against(tmp_path: Path) -> None:
    words = [*LLAMA, "baseline={workload.parallel: {tensor: 8}}", "objective=time"]
    with refused("objective", "mismatch", "128 samples", "16 samples"):
        planned(words, tmp_path)
    assert planned([*words, *BATCH], tmp_path).baselines


# Each replica of two blocks of GPT-3 trains 16 sequences, however many replicas there are.
LAYERS = ("study=libra_gpt3_4d", "topology=dgx_h100", "cost=dgx_h100", "workload=gpt3_libra")
SIZES = "grid={topology.shape: [Switch(8)_Switch(64), Switch(8)_Switch(128)]}"


def test_sizes_that_train_different_batches_do_not_compete(tmp_path: Path) -> None:
    with refused("objective", "mismatch", "32 replicas", "64 replicas"):
        planned([*LAYERS, SIZES], tmp_path)
    apart = planned([*LAYERS, SIZES, "roles={topology.shape: scenario}"], tmp_path)
    assert [cell.work for cell in apart.study.cells] == ["32 replicas", "64 replicas"]
    assert planned([*LAYERS, SIZES, "workload=all_reduce"], tmp_path).cells


def test_a_cell_does_not_search_sizes_of_layers_that_train_different_batches(
    tmp_path: Path,
) -> None:
    words = [*LAYERS, "topology.shape=Switch(8)_Switch(16)", "search=tpe"]
    shapes = "space.parameters={{topology.shape: {{values: [Switch(8)_Switch(16), {}]}}}}"
    with refused("space.parameters.topology.shape", "mismatch"):
        planned([*words, shapes.format("Switch(8)_Switch(32)")], tmp_path)
    assert planned([*words, shapes.format("Switch(16)_Switch(8)")], tmp_path).cells


def test_a_cell_does_not_search_how_much_is_trained(tmp_path: Path) -> None:
    words = [*LLAMA, "workload.parallel={tensor: 1, data: rest}", TENSOR, "objective=time"]
    with refused("space.parameters.workload.parallel.tensor", "mismatch"):
        planned(words, tmp_path)
    assert planned([*words, *BATCH], tmp_path).cells
