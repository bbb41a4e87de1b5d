"""Logs of Megatron-LM and torchtitan say which plan ran and how long an iteration took."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import DimsweepError
from dimsweep.engine.formats.measurements import is_training_log, read_training_log
from tests.support.examples import examples
from tests.support.refused import refused
from tests.support.training_logs import MESHES, megatron, titan


@pytest.mark.parametrize("prefix", ["", "0: ", "[default0]:"])
def test_megatron_prints_plan_model_and_time(tmp_path: Path, prefix: str) -> None:
    file = tmp_path / "run.log"
    file.write_text(megatron([9000.0, 3000.0, 3100.0, 3050.0], prefix))
    assert is_training_log(file.read_text())
    (run,) = read_training_log(file)
    assert run.gpus == 64 and run.iteration() == pytest.approx(3.05)
    assert run.settings == {
        "workload.parallel.tensor": 4, "workload.parallel.expert": 1,
        "workload.parallel.context": 2, "workload.parallel.pipeline": 2,
        "workload.plan.micro_batch": 2, "workload.plan.batch": 128,
        "workload.plan.sequence_parallel": True, "workload.plan.recompute": "selective",
        "workload.plan.zero": 1, "workload.plan.precision": "bf16",
        "workload.model.layers": 32, "workload.model.hidden": 4096, "workload.model.ffn": 14336,
        "workload.model.heads": 32, "workload.model.sequence": 8192, "workload.model.gated": True,
        "workload.model.bias": False, "workload.model.tied": False, "workload.model.kv_heads": 8,
    }  # fmt: skip


def test_only_iterations_of_the_last_batch_count(tmp_path: Path) -> None:
    file = tmp_path / "run.log"
    later = megatron([5.0, 2000.0, 2100.0], batch=256).split("training ...\n")[1]
    file.write_text(megatron([900.0, 910.0]) + later)
    (run,) = read_training_log(file)
    assert run.settings["workload.plan.batch"] == 256 and run.iteration() == pytest.approx(2.05)


def test_a_log_of_two_runs_has_two(tmp_path: Path) -> None:
    file = tmp_path / "run.log"
    file.write_text(megatron([900.0]) + megatron([700.0], tensor_model_parallel_size=8))
    first, second = read_training_log(file)
    assert (first.iteration(), second.iteration()) == (0.9, 0.7)
    assert second.settings["workload.parallel.tensor"] == 8


def test_whole_experts_share_the_tensor_parallel_ranks(tmp_path: Path) -> None:
    file = tmp_path / "run.log"
    more = {"expert_model_parallel_size": 8, "num_experts": 64, "moe_router_topk": 6}
    for size, degree in ((1, 2), (4, 8)):
        file.write_text(megatron([900.0], expert_tensor_parallel_size=size, **more))
        (run,) = read_training_log(file)
        assert run.settings["workload.parallel.expert"] == degree
        assert run.settings.get("workload.plan.whole_experts", False) is (size == 1)
        assert run.settings["workload.model.top_k"] == 6


@pytest.mark.parametrize("mesh", MESHES)
def test_torchtitan_prints_tokens_of_each_gpu(tmp_path: Path, mesh: str) -> None:
    file = tmp_path / "run.log"
    applied = "Applied selective activation checkpointing to the model"
    file.write_text(titan(["1,478", "7,026", "7,080", "7,082"], mesh, applied))
    assert is_training_log(file.read_text())
    (run,) = read_training_log(file)
    assert run.gpus == 8 and run.iteration() == pytest.approx(16 * 8192 / (7080 * 8))
    assert run.settings == {
        "workload.parallel.tensor": 2, "workload.parallel.expert": 1,
        "workload.parallel.context": 1, "workload.parallel.pipeline": 1,
        "workload.plan.micro_batch": 2, "workload.plan.batch": 16,
        "workload.plan.recompute": "selective", "workload.plan.zero": 3,
        "workload.model.layers": 32, "workload.model.hidden": 4096, "workload.model.ffn": 14336,
        "workload.model.heads": 32, "workload.model.kv_heads": 8,
        "workload.model.vocabulary": 128256, "workload.model.sequence": 8192,
    }  # fmt: skip


def test_a_pipeline_of_torchtitan_cuts_the_local_batch(tmp_path: Path) -> None:
    file = tmp_path / "run.log"
    schedule = "Using pipeline schedule 1F1B with 8 microbatches and 4 stages."
    file.write_text(titan(["900", "950"], "2-D device mesh with ['pp', 'dp_shard'], [4, 2]",
                          schedule, "Float8 training active", local=8))  # fmt: skip
    (run,) = read_training_log(file)
    assert run.settings["workload.plan.micro_batch"] == 1
    assert run.settings["workload.parallel.pipeline"] == 4
    assert run.settings["workload.plan.precision"] == "fp8"
    assert run.pieces == 8


def test_rates_without_a_plan_are_no_time(tmp_path: Path) -> None:
    file = tmp_path / "run.log"
    file.write_text("step: 10  loss: 8.3  memory: 49GiB(35%)  tps: 7,026  mfu: 41%\n")
    (run,) = read_training_log(file)
    with refused("", "missing", "Building device mesh"):
        run.iteration()


@examples(40)
@given(lines=st.lists(st.sampled_from(megatron([9.0, 8.0]).splitlines() + titan(
    ["1", "2"], MESHES[0]).splitlines()), max_size=30))  # fmt: skip
def test_any_part_of_a_log_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    file = tmp_path_factory.mktemp("log") / "run.log"
    file.write_text("\n".join(lines))
    try:
        runs = [run.iteration() for run in read_training_log(file)]
    except DimsweepError:
        return
    assert all(seconds > 0 for seconds in runs)
