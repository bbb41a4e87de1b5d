"""Real models from configuration: every preset, plans as axes of a sweep, wrong keys."""

import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from dimsweep import load
from dimsweep.engine import DimsweepError, InfeasibleError, Result, run_one
from dimsweep.engine.errors import Code
from dimsweep.engine.workload.graph import Kernel
from dimsweep.engine.workload.models.model import Graphs, Shard
from dimsweep.sweeper.cli.sweep import sweep_study
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.extensions.verify.megatron import CASES, simulate_case
from dimsweep.sweeper.simulation.program import build_program
from dimsweep.sweeper.simulation.simulate import simulate
from tests.support.refused import refused

CONF = Path(__file__).resolve().parents[3] / "conf" / "workload"
PRESETS = [file.stem for file in sorted(CONF.glob("*.yaml")) if "kind/model" in file.read_text()]
SHAPES = {
    "megatron_530b": "Switch(8)_Switch(35)",
    "megatron_22b": "Switch(8)_Switch(1)",
    "fred_transformer_17b": "Switch(3)_Switch(6)",
}


def program(*overrides: str) -> Any:
    return build_program(compose(list(overrides)).config)


def test_there_are_presets() -> None:
    assert len(PRESETS) >= 24


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_runs(name: str) -> None:
    shape = SHAPES.get(name, "Switch(8)_Switch(128)")
    n = {"megatron_530b": 35, "megatron_22b": 1}.get(name, 24)
    small = ["workload.plan.batch=null", f"workload.plan.micro_batches={n}"]
    result = Result(
        run_one(
            program(
                f"workload={name}",
                "topology=dgx_a100",
                f"topology.shape={shape}",
                "collective=streamed",
                "npu.memory=null",
                *small,
            )
        )
    )
    assert result.time > 0
    assert result.compute > 0
    assert result.program.workload.footprint is not None


@pytest.mark.parametrize(
    ("name", "published", "left_out"),
    [
        # Values in the files of their model cards, and those that we leave out: biases of
        # DeepSeek-V3's 58 routers, norms of queries and keys (Qwen3), sinks and routers' biases of
        # GPT-OSS, whose norms have biases here.
        ("deepseek_v3", 671_026_419_200, 58 * 256),
        ("llama3_8b", 8_030_261_248, 0),
        ("llama3_70b", 70_553_706_496, 0),
        ("llama3_405b", 405_853_388_800, 0),
        ("mixtral_8x22b", 140_630_071_296, 0),
        ("qwen3_30b", 30_532_122_624, 48 * 2 * 128),
        ("qwen3_235b", 235_093_634_560, 94 * 2 * 128),
        ("gpt_oss_120b", 116_829_156_672, 36 * (64 + 128 - 2 * 2880) - 2880),
    ],
)
def test_presets_have_the_parameters_of_their_cards(
    name: str, published: int, left_out: int
) -> None:
    model: Any = compose([f"workload={name}"]).config.workload
    assert model.model.parameters == published - left_out


@pytest.mark.parametrize(
    ("name", "billions"),
    [("deepseek_v3", 37), ("qwen3_30b", 3.3), ("qwen3_235b", 22), ("gpt_oss_120b", 5.1)],
)
def test_tokens_activate_the_published_parameters(name: str, billions: float) -> None:
    """Without those of the embedding, which is looked up (GPT-OSS's card leaves it out, too)."""
    model: Any = compose([f"workload={name}"]).config.workload
    network = model.model.for_rank(Shard(batch=1))
    steps = [s for b in (*network.front, *network.layers, *network.back) for s in b.forward]
    products = [s for s in steps if isinstance(s, Kernel) and s.matmul and not s.attention]
    active = sum(s.flops for s in products) / 2 / model.model.sequence
    looked_up = 0.0 if name == "gpt_oss_120b" else model.model.vocabulary * model.model.hidden
    assert (active + looked_up) / 1e9 == pytest.approx(billions, rel=0.02)


def test_nemotron_4_has_the_parameters_of_its_report() -> None:
    """3.2 billion of embeddings and 12.5 billion others, each rounded."""
    model: Any = compose(["workload=nemotron4_15b"]).config.workload
    embeddings = 2 * model.model.vocabulary * model.model.hidden
    assert embeddings / 1e9 == pytest.approx(3.2, abs=0.06)
    assert (model.model.parameters - embeddings) / 1e9 == pytest.approx(12.5, abs=0.06)


GPT = (
    "workload=gpt3_13b",
    "workload.plan.batch=8",
    "topology=dgx_a100",
    "topology.shape=Switch(8)_Switch(4)",
)


@pytest.mark.parametrize(
    ("override", "where", "code", "data"),
    [
        ("workload.model.family=rnn", "workload.model.family", "unknown-name", "'rnn'"),
        ("+workload.model.hiden=3", "workload.model.hiden", "unknown-key", "mean 'hidden'"),
        ("workload.model.hidden=wide", "workload.model.hidden", "wrong-type", "'wide'"),
        ("~workload.model.heads", "workload.model.heads", "missing", ""),
        ("workload.plan.recompute=some", "workload.plan.recompute", "unknown-name", "'some'"),
        ("workload.plan.precision=int4", "workload.plan.precision", "unknown-name", "'int4'"),
        ("workload.plan.task=rest", "workload.plan.task", "unknown-name", "'rest'"),
        ("workload.plan.micro_batches=3", "workload.plan.batch", "conflict", ""),
        ("workload.plan.zero=4", "workload.plan.zero", "out-of-range", "from 0 to 3"),
        ("+workload.parallel.model=2", "workload.parallel.model", "unknown-key", "'model'"),
        ("npu.matmul_efficiency=[[1 GFLOP]]", "npu.matmul_efficiency[0]", "wrong-type", ""),
        ("workload.plan.precision=fp8", "npu.flops", "missing", "fp8"),
        ("workload.model.hiden=3", "workload.model.hiden", "unknown-key", "mean 'hidden'"),
        ("npu.systolic={rows: 8, columns: 8}", "npu.systolic.clock", "missing", ""),
        (
            "npu.systolic={rows: 8, columns: a, clock: 1 GHz}",
            *("npu.systolic.columns", "wrong-type", "'a'"),
        ),
        ("npu.measured=none.csv", "npu.measured: none.csv", None, ""),
    ],
)
def test_wrong_keys_are_named(override: str, where: str, code: Code | None, data: str) -> None:
    with refused(where, code, data) as error:
        program(*GPT, override)
    key, _, file = error.value.where.partition(" (in ")  # the file is known while composing
    assert key == where
    assert not file or override in file or "gpt3_13b.yaml" in file


@pytest.mark.parametrize(
    ("override", "where"),
    [
        ("workload.parallel.tensor=3", "workload.parallel.tensor"),
        ("workload.plan.batch=6", "workload.plan.batch"),
        ("npu.memory=15 GB", "npu.memory"),
    ],
)
def test_a_plan_that_cannot_be_is_infeasible(override: str, where: str) -> None:
    with pytest.raises(InfeasibleError) as error:
        program(*GPT, override)
    assert error.value.where == where


def test_an_axis_that_the_preset_does_not_name_can_be_set() -> None:
    assert program(*GPT, "workload.parallel.pipeline=2").structure.shape.n_classes == 2


@pytest.mark.parametrize(
    "workload",
    ["gpt3_libra", "resnet50_libra", "gpt3_13b"],
    ids=["layers", "convolutions", "model"],
)
def test_a_misspelt_axis_is_refused(workload: str) -> None:
    with pytest.raises(DimsweepError) as error:
        program(f"workload={workload}", "topology=dgx_a100", "workload.parallel.tensr=2")
    assert error.value.where.split(" ")[0] == "workload.parallel.tensr"
    assert "did you mean 'tensor'?" in error.value.hint


def test_layers_may_name_axes_of_their_own() -> None:
    layer = "{name: block, forward: {flops: 1 GFLOP, collective: all_reduce, size: 1 MB, group: G}}"
    named = ("workload=kind/layers", "workload.name=mine")
    given = (*named, "topology=dgx_a100", f"workload.layers=[{layer}]")
    axes = ("workload.parallel.G=4", "workload.parallel.data=rest")
    built = program(*given, *axes)
    assert built.workload.groups["G"].n_members == 4
    with refused("parallel.g", None, "'g'"):
        program(*given, *axes, "workload.parallel.g=1")


def test_a_systolic_array_from_configuration() -> None:
    array = "npu.systolic={rows: 128, columns: 128, clock: 940 MHz, arrays: 2}"
    program(*GPT, array, "npu.kernels=null")


def test_precision_sets_bytes_and_peak() -> None:
    half, whole = (
        Result(run_one(program(*GPT, f"workload.plan.precision={p}", "npu.memory=null")))
        for p in ("bf16", "fp32")
    )
    assert whole.compute > 4 * half.compute
    assert whole.bytes_by_dim["1: Switch(4)"] == 2 * half.bytes_by_dim["1: Switch(4)"]


@pytest.mark.parametrize("task", ["prefill", "decode"])
def test_serving_from_configuration(task: str) -> None:
    served = program(
        "workload=llama3_70b",
        "topology=dgx_a100",
        "topology.shape=Switch(8)_Switch(4)",
        f"workload.plan.task={task}",
        "workload.plan.batch=8",
    )
    assert Result(run_one(served)).time > 0


@pytest.mark.parametrize("recompute", ["full", "selective"])
def test_batch_times_of_the_smallest_cluster_are_within_the_aim(recompute: str) -> None:
    """All eight take minutes: dimsweep verify megatron."""
    case = CASES[0]
    seconds, _, _ = simulate_case(case, recompute)
    assert seconds == pytest.approx(getattr(case, recompute), rel=0.10)


def test_plans_are_searched_and_what_cannot_be_costs_nothing(tmp_path: Path) -> None:
    """A search over plans and the split; a grid with a cell that does not divide."""
    overrides = [
        *GPT,
        "workload.model.layers=4",
        "name=plans",
        f"results={tmp_path}",
        "executor=inline",
        "search=random",
        "budget.trials=12",
        "npu.memory=7 GB",
        "space.bandwidth.total=300 GB/s",
        "+space.parameters={workload.parallel.tensor: {values: [1, 2, 8]}}",
        "+grid={workload.plan.micro_batch: [1, 2, 3]}",
    ]
    assert sweep_study(compose(overrides), Console(quiet=True)) == 0
    rows = load(tmp_path / "plans").to_pandas()
    assert set(rows.state) == {"complete", "infeasible"}
    infeasible = rows[rows.state == "infeasible"]
    assert infeasible.error.str.contains("must hold|does not divide").all()
    assert infeasible.time_s.isna().all()
    pruned = json.loads((tmp_path / "plans" / "study.json").read_text())["pruned"]
    assert [p["coordinates"]["workload.plan.micro_batch"] for p in pruned] == ["3"]


def test_a_grid_of_nothing_but_infeasible_cells_is_an_error(tmp_path: Path) -> None:
    overrides = [*GPT, "name=none", f"results={tmp_path}", "executor=inline"]
    overrides += ["+grid={workload.parallel.tensor: [3, 5]}"]
    with pytest.raises(InfeasibleError):
        sweep_study(compose(overrides), Console(quiet=True))


def test_what_does_not_fit_goes_to_remote_memory() -> None:
    """No more than is needed: first the optimizer's state."""
    spilled = program(*GPT, "npu.memory=25 GB", "memory=host").workload.footprint
    assert spilled.remote == pytest.approx(spilled.weights / 2 * 12)
    assert spilled.total <= 25e9
    told = program(*GPT, "memory=host", "workload.plan.offload=[weights]").workload.footprint
    assert told.weights < spilled.weights
    with pytest.raises(DimsweepError) as error:
        program(*GPT, "memory=host", "workload.plan.offload=[gradients]")
    assert error.value.where.startswith("workload.plan.offload")


def test_narrow_precision_speeds_up_linear_layers_and_what_is_gathered_for_them() -> None:
    whole, narrow, cast_later = (
        Result(
            run_one(
                program(
                    *GPT,
                    "npu=h100",
                    "npu.launch=0 ns",
                    f"workload.plan.precision={p}",
                    f"workload.plan.wide_gathers={wide}",
                    "npu.memory=null",
                )
            )
        )
        for p, wide in (("bf16", False), ("fp8", False), ("fp8", True))
    )
    assert 0.4 * whole.compute < narrow.compute < whole.compute
    assert cast_later.bytes_by_dim == whole.bytes_by_dim
    assert sum(narrow.bytes_by_dim.values()) < sum(whole.bytes_by_dim.values())


@pytest.mark.parametrize(
    ("override", "where"),
    [
        ("npu.kernels=v100", "npu.kernels"),
        ("npu.relative_time={fp9: 0.5}", "npu.relative_time.fp9"),
        ("npu.relative_time={fp8: -1}", "npu.relative_time.fp8"),
    ],
)
def test_calibrations_that_are_refused(override: str, where: str) -> None:
    with pytest.raises(DimsweepError) as error:
        program(*GPT, "npu=h100", override)
    assert error.value.where.startswith(where)


DEEPSEEK = (
    *("workload=deepseek_v3", "cluster=dgx_h100", "nodes=8", "npu.memory=null"),
    *("workload.parallel={expert: 16, pipeline: 4, data: rest}", "workload.model.layers=8"),
    "workload.plan.batch=256",
)


@pytest.mark.parametrize(
    ("plan", "other"),
    [
        ("schedule=dualpipe", ""),
        ("schedule=zb_h1 overlap_experts=false", "overlap_experts=false"),
        ("nodes_a_token=1", ""),
        ("dispatch=fp8", ""),
        ("overlap_experts=false", "overlap_experts=false blocking_messages=true"),
    ],
)
def test_a_plan_of_deepseek_v3_can_be_said_and_is_faster(plan: str, other: str) -> None:
    def seconds(keys: str) -> float:
        return Result(
            run_one(program(*DEEPSEEK, *(f"workload.plan.{k}" for k in keys.split())))
        ).time

    assert seconds(plan) < seconds(other)


def test_a_decode_takes_all_sequences_of_a_replica_at_once() -> None:
    """One by one 64 sequences read all weights 64 times; prompts go one by one, as in training."""
    words = ["workload=llama3_70b", "npu=h100", "topology=dgx_h100", "topology.tiers=[]"]
    words += ["topology.shape=Switch(8)_Switch(8)", "workload.plan.batch=64"]
    words += ["workload.model.layers=8", "workload.plan.interleave=1"]

    def time(*more: str) -> int:
        return simulate(compose([*words, *more]).config).time_ps

    for task, at_once in (("decode", 32), ("prefill", 1)):
        served = f"workload.plan.task={task}"
        assert time(served) == time(served, f"workload.plan.micro_batch={at_once}")
    graphs = [time("workload.plan.task=decode", f"workload.plan.graphs={g}") for g in Graphs]
    assert time("workload.plan.task=decode") == graphs[0] < graphs[1] < graphs[2]
    assert time("workload.plan.task=prefill") == time(
        "workload.plan.task=prefill", "workload.plan.graphs=none"
    )
    one_by_one = time("workload.plan.task=decode", "workload.plan.micro_batch=1")
    assert one_by_one > 5 * time("workload.plan.task=decode")
