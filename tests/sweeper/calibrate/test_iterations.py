"""Measured iterations: columns of times and rates, and logs of Megatron-LM and torchtitan."""

from pathlib import Path

import pytest

from dimsweep.engine.errors import Code
from dimsweep.sweeper.calibrate.iterations import read_iteration_log
from dimsweep.sweeper.calibrate.observations import Observation, read_observations
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.simulation.program import build_program
from dimsweep.sweeper.simulation.simulate import simulate
from tests.support.refused import refused
from tests.support.training_logs import megatron, titan

BASE = ("cluster=dgx_h100", "workload=llama3_8b", "nodes=2", "workload.model.layers=2")
MODEL = ("workload.plan.micro_batches=null", "workload.plan.batch=64")


def read(folder: Path, name: str, text: str) -> list[Observation]:
    (folder / name).write_text(text)
    return read_observations(folder / name, BASE, compose(BASE).config)


@pytest.mark.parametrize(
    ("column", "value_of"),
    [
        ("seconds", lambda s, tokens, flops, peak: s),
        ("Iteration_ms", lambda s, tokens, flops, peak: s * 1e3),
        ("tokens/s", lambda s, tokens, flops, peak: tokens / s),
        ("tokens_per_second_per_gpu", lambda s, tokens, flops, peak: tokens / s / 16),
        ("samples/s", lambda s, tokens, flops, peak: 64 / s),
        ("TFLOP/s/GPU", lambda s, tokens, flops, peak: flops / s / 16 / 1e12),
        ("TFLOPs", lambda s, tokens, flops, peak: flops / s / 16 / 1e12),
        ("mfu", lambda s, tokens, flops, peak: flops / s / 16 / peak),
        ("MFU (%)", lambda s, tokens, flops, peak: 100 * flops / s / 16 / peak),
        ("mfu", lambda s, tokens, flops, peak: f"{100 * flops / s / 16 / peak}%"),
    ],
)  # fmt: skip
def test_a_rate_is_the_time_of_an_iteration(tmp_path: Path, column: str, value_of) -> None:
    config = compose([*BASE, *MODEL]).config
    program = build_program(config)
    amount = program.workload.amount
    assert amount is not None
    peak = program.cluster.npus.peak(amount.flops, amount.narrow)
    assert amount.tokens == 64 * 8192
    seconds = simulate(config).time * 1.1
    value = value_of(seconds, amount.tokens, amount.flops, peak)
    (found,) = read(tmp_path, "runs.csv", f"name,gpus,batch,{column}\nrun,16,64,{value}\n")
    assert found.value == pytest.approx(seconds) and found.config is not None
    assert found.config.topology.build().n_npus == 16


@pytest.mark.parametrize(
    ("text", "place", "code", "name"),
    [
        ("gpus,batch,mfu\n16,64,140\n", "line 2, column mfu", "out-of-range", "140"),
        ("gpus,batch,seconds\n12,64,1.0\n", "line 2", "mismatch", "12"),
        ("gpus,batch,tokens/s\n16,64,-5\n", "line 2", "wrong-type", "-5"),
        ("gpus,batch,speed\n16,64,5\n", "runs.csv", "missing", "gpus,batch,speed"),
    ],
)
def test_a_rate_that_cannot_be_is_refused(
    tmp_path: Path, text: str, place: str, code: Code, name: str
) -> None:
    with refused(place, code, name):
        read(tmp_path, "runs.csv", text)


def test_a_log_of_megatron_is_an_iteration_of_its_plan(tmp_path: Path) -> None:
    log = megatron([9000.0, 3000.0, 3100.0], world_size=16, context_parallel_size=1, num_layers=4)
    (found,) = read(tmp_path, "run.log", log)
    assert found.value == pytest.approx(3.05) and found.config is not None
    text = found.config.text
    assert text["workload"]["parallel"]["tensor"] == 4
    assert text["workload"]["model"]["layers"] == 4 and text["workload"]["plan"]["zero"] == 1
    assert text["workload"]["plan"]["micro_batches"] is None
    assert found.config.topology.build().n_npus == 16


def test_each_run_of_a_log_is_an_iteration(tmp_path: Path) -> None:
    mesh = "1-D device mesh with ['dp_shard'], [8]"
    (tmp_path / "titan.log").write_text(titan(["9", "700"], mesh) + titan(["9", "800"], mesh))
    first, second = read_iteration_log(tmp_path / "titan.log", BASE)
    assert (first.name, second.name) == ("titan 1", "titan 2")
    assert first.seconds / second.seconds == pytest.approx(800 / 700)
    assert first.config.topology.build().n_npus == 8


def test_a_log_of_a_plan_that_cannot_be_names_its_run(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(megatron([900.0], world_size=12))
    with refused(f"{tmp_path / 'run.log'}, line 2", "mismatch", "12", "8"):
        list(read_iteration_log(tmp_path / "run.log", BASE))
