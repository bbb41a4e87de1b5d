"""Plans that others tried: tables, errors, and the plan that dimsweep prefers."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from dimsweep.sweeper.extensions.verify.clusters import compare, ranked
from dimsweep.sweeper.extensions.verify.clusters.compared import Compared
from dimsweep.sweeper.extensions.verify.clusters.measurements import LeftOut, Measurement
from dimsweep.sweeper.extensions.verify.clusters.plans import Prediction, configure
from dimsweep.sweeper.extensions.verify.clusters.ranked import find_aims, rank_plans
from dimsweep.sweeper.extensions.verify.clusters.systems import SYSTEMS, find_system
from dimsweep.sweeper.extensions.verify.clusters.tried_plans import read_plans
from tests.support.refused import refused

GOLDEN = Path(__file__).parents[3] / "golden" / "plans"
GIB = 2.0**30


def write(folder: Path, table: str, *, n: int = 1, **changes: str) -> Path:
    """The first rows of a recorded table, with changed cells."""
    with (GOLDEN / f"{table}.csv").open(newline="") as lines:
        reader = csv.DictReader(lines)
        rows = [{**row, **changes} for row, _ in zip(reader, range(n), strict=False)]
    file = folder / f"{table}.csv"
    with file.open("w", newline="") as lines:
        writer = csv.DictWriter(lines, reader.fieldnames or ())
        writer.writeheader()
        writer.writerows(rows)
    return file


def read(folder: Path, table: str, **changes: str) -> Measurement | LeftOut:
    file = write(folder, table, **changes)
    ((line, row),) = read_plans(folder)[file]
    assert line == 2
    return row


def test_every_recorded_row_is_read() -> None:
    found = {file.stem: rows for file, rows in read_plans(GOLDEN).items()}
    assert {name: len(rows) for name, rows in found.items()} == {
        "mlperf_v6": 9,
        "mlperf_vision_dlrm": 96,
        "nanotron_h100": 838,
        "tpu_recipes": 25,
        "vtrain_a100_multi": 41,
        "vtrain_a100_single": 720,
    }
    left = [row for rows in found.values() for _, row in rows if isinstance(row, LeftOut)]
    other = [why for why in left if "no model for" in str(why)]
    assert len(other) == 60, "U-Net, BERT, graph networks, RNN-T and Stable Diffusion"
    assert len(left) - len(other) == 5, "plans that MLPerf's logs do not print"


def test_a_row_of_nanotron_becomes_a_plan(tmp_path: Path) -> None:
    row = read(tmp_path, "nanotron_h100", pp="4", dp="1", tp="2")
    assert isinstance(row, Measurement)
    assert (row.gpus, row.pipeline, row.tensor, row.data) == (8, 4, 2, 1)
    assert row.seconds == pytest.approx(256 * 4096 / 114942)
    assert row.memory == 10.4 * GIB
    plan = configure(row, 4).text["workload"]["plan"]
    assert plan["eager"] and plan["stack"] == "ddp"
    # The logits of 131,072 words weigh as much as four of 16 layers.
    assert plan["stage_layers"] == [6, 5, 5, 0]


def test_a_plan_that_did_not_run_has_no_figures(tmp_path: Path) -> None:
    row = read(tmp_path, "nanotron_h100", tokens_s="nan", gpu_memory_gb="nan")
    assert isinstance(row, Measurement)
    assert row.seconds is None and row.memory is None


def test_notes_of_mlperf_choose_the_software(tmp_path: Path) -> None:
    row = read(tmp_path, "mlperf_v6")
    assert isinstance(row, Measurement)
    text = configure(row, 8).text
    plan = text["workload"]["plan"]
    assert plan["experts_by_node"] and plan["overlap_experts"] and plan["fused_experts"]
    assert plan["graphs"] == "step", "so that no host issues kernels"
    assert plan["overlap_tensor"] == "backward", "no userbuffers beside experts"


def test_a_row_of_samples_becomes_a_model_and_its_stack(tmp_path: Path) -> None:
    """The tables of DLRM are divided among all GPUs; between nodes HugeCTR has its collectives."""
    row = read(tmp_path, "mlperf_vision_dlrm", benchmark="dlrm", nodes="2", global_batch="55296")
    assert isinstance(row, Measurement)
    assert row.seconds == pytest.approx(55296 / 266.2)
    config = configure(replace(row, gpu="NVIDIA H100-SXM5-80GB, HugeCTR"), 1)
    text = config.text
    assert text["workload"]["parallel"]["expert"] == 16
    assert text["workload"]["plan"]["micro_batch"] == 55296 // 16
    assert text["workload"]["plan"]["optimizer"] == "plain_sgd"
    assert len(text["workload"]["model"]["rows"]) == text["workload"]["model"]["tables"] == 26
    assert text["workload"]["plan"]["graphs"] == "step"
    assert find_system(replace(row, gpu="NVIDIA H100-SXM5-80GB")).overrides[0] == "npu=h100"
    adagrad = read(tmp_path, "mlperf_vision_dlrm", benchmark="dlrm_dcnv2", nodes="2")
    assert isinstance(adagrad, Measurement)
    assert configure(adagrad, 1).text["workload"]["plan"]["optimizer"] == "sgd"


def test_resnet_is_exchanged_at_once_in_nodes_of_four(tmp_path: Path) -> None:
    row = read(
        tmp_path,
        "mlperf_vision_dlrm",
        **{"benchmark": "resnet", "nodes": "2", "accelerators_per_node": "4"},
        accelerator="NVIDIA L40S",
        global_batch="1600",
    )
    assert isinstance(row, Measurement)
    text = configure(row, 1).text
    assert text["topology"]["shape"] == "Switch(4)_Switch(2)"
    assert text["workload"]["model"]["fused"] is True
    assert text["workload"]["plan"]["overlap_gradients"] is False
    assert text["workload"]["plan"]["micro_batch"] == 200
    unknown = read(tmp_path, "mlperf_vision_dlrm", benchmark="resnet", accelerator="Gaudi2")
    assert "not known" in str(unknown)


def test_a_recipe_of_maxtext_becomes_a_plan(tmp_path: Path) -> None:
    """Chips and sequences follow from the tokens; the rest is what the table or its source says."""
    row = read(tmp_path, "tpu_recipes", model="Llama3.1-70B-MaxText")
    assert isinstance(row, Measurement)
    assert (row.gpus, row.data, row.tensor, row.batch) == (256, 256, 1, 192)
    plan = configure(row, 1).text["workload"]["plan"]
    assert (plan["zero"], plan["precision"], plan["expert_tile"]) == (3, "bf16", 0)
    again = {"activation", "core", "expansion", "norm", "projection"}
    assert set(plan["recompute_modules"]) == again, "queries, keys and values are offloaded"


def test_what_a_recipe_says_of_its_run_counts(tmp_path: Path) -> None:
    said = "max_target_length=4096;ici_tensor_parallelism=4;ici_fsdp_parallelism=-1;context=device"
    row = read(tmp_path, "tpu_recipes", model="Llama4-Scout-17B-16E", kv=said, tpu="v5p")
    assert isinstance(row, Measurement)
    assert (row.tensor, row.data, row.shape["sequence"], row.batch) == (4, 64, 4096, 384)
    config = configure(row, 1).text
    assert config["workload"]["plan"]["expert_tile"] == 512, "megablox"
    again = {"activation", "expansion", "norm", "projection", "qkv"}
    assert set(config["workload"]["plan"]["recompute_modules"]) == again
    dropped = read(tmp_path, "tpu_recipes", model="Mixtral-8x7B", kv="")
    assert isinstance(dropped, Measurement)
    model = configure(dropped, 1).text["workload"]["model"]
    assert (model["capacity"], model["experts"]) == (1.25, 8)
    whole = read(tmp_path, "tpu_recipes", variant="8k-fp8-tpu7x-4x4x8", tpu="ironwood", kv="")
    assert isinstance(whole, Measurement)
    assert (whole.gpus, whole.precision, whole.shape["sequence"]) == (128, "fp8", 8192)
    assert "not known" in str(read(tmp_path, "tpu_recipes", model="Another"))


@pytest.mark.parametrize(
    ("chips", "shape"), [(64, "Mesh2D(8,8)"), (512, "Ring(16)_Ring(16)_Switch(2)")]
)
def test_slices_of_trillium_are_rings_only_where_a_pod_closes_them(chips: int, shape: str) -> None:
    system = next(each for each in SYSTEMS if each.kind == "TPU v6e")
    assert system.build_shape(chips) == shape


def test_runs_of_one_plan_are_no_ranking(measured: Measurement) -> None:
    rows = [compared(measured, n, n) for n in range(1, 6)]
    same = [replace(row, measured=replace(row.measured, interleave=1)) for row in rows]
    assert len(rank_plans(rows)) == 1
    assert not rank_plans(same)


def test_an_invalid_number_names_its_line(tmp_path: Path) -> None:
    write(tmp_path, "vtrain_a100_multi", **{"# GPUs": "many"})
    with refused("vtrain_a100_multi.csv, line 2", "invalid", "many"):
        read_plans(tmp_path)


def test_a_folder_without_plans_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with refused(str(tmp_path), "missing"):
        read_plans(tmp_path)
    with refused("nowhere", "inaccessible"):
        read_plans(tmp_path / "nowhere")


# --- rankings ------------------------------------------------------------------------------------


def compared(measured: Measurement, theirs: float, ours: float, memory: float = 1.0) -> Compared:
    row = replace(measured, seconds=theirs, interleave=round(100 * theirs))  # plans differ
    return Compared(1, row, Prediction(ours, memory * GIB, memory * GIB), "H100", "Llama", False)


@pytest.fixture
def measured(tmp_path: Path) -> Measurement:
    row = read(tmp_path, "nanotron_h100")
    assert isinstance(row, Measurement)
    return row


def test_the_regret_is_that_of_the_preferred_plan(measured: Measurement) -> None:
    times = [(1.0, 1.2), (1.1, 1.1), (2.0, 1.9), (3.0, 2.0), (4.0, 5.0)]
    (ranking,) = rank_plans([compared(measured, *each) for each in times])
    assert ranking.regret == pytest.approx(0.1)
    assert ranking.rank == pytest.approx(0.9)
    # A plan that is said not to fit is not preferred.
    (ranking,) = rank_plans(
        [*(compared(measured, *each) for each in times), compared(measured, 9.0, 0.1, 100)]
    )
    assert ranking.regret == pytest.approx(0.1)


def test_other_batches_are_ranked_by_themselves(measured: Measurement) -> None:
    rows = [compared(measured, n, n) for n in range(1, 6)]
    other = [compared(replace(measured, batch=512), n, n) for n in range(1, 6)]
    assert len(rank_plans([*rows, *other])) == 2
    assert not rank_plans(rows[:4]), "too few"


def test_plans_without_figures_judge_what_fits(measured: Measurement) -> None:
    failed = replace(measured, memory=None)
    rows = [compared(failed, 1.0, 1.0, size) for size in (100, 100, 2, 90)]
    rows = [replace(row, measured=replace(row.measured, seconds=None)) for row in rows]
    (aim,) = [aim for aim in find_aims(rows) if "not to fit" in aim.name]
    assert (aim.ours, aim.rows, aim.is_met) == (0.75, 4, False)


@pytest.mark.long
def test_one_node_of_nanotron_is_predicted() -> None:
    """Measured: 5.3 % of times and 4.6 % of memory without a pipeline; constants: the host's time
    alone, which another source gave."""
    rows = {
        file: [
            (line, row)
            for line, row in found
            if isinstance(row, Measurement) and row.gpus == 8 and row.seconds is not None
        ]
        for file, found in read_plans(GOLDEN).items()
        if file.stem == "nanotron_h100"
    }
    found = [row for own in compare(rows).values() for row in own if isinstance(row, Compared)]
    aims = {aim.name: aim for aim in find_aims(found)}
    assert aims["nanotron, PP 1, TP up to 8: mean error of times"].ours < 0.08
    assert aims["memory of eager stacks: mean error"].ours < 0.10
    assert aims["regret, mean of rankings"].ours < 0.03


@pytest.mark.parametrize(("slowest", "code", "verdict"), [(5.1, 0, "ok"), (15.0, 1, "MISSED")])
def test_the_exit_code_is_1_outside_the_aims(
    slowest: float,
    code: int,
    verdict: str,
    measured: Measurement,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = write(tmp_path, "nanotron_h100")
    simple = replace(measured, tensor=4, pipeline=1)
    times = [(1.0, 1.0), (2.0, 2.0), (3.0, 3.0), (4.0, 4.0), (5.0, slowest)]
    rows: list[Compared | str] = [compared(simple, *each) for each in times]
    monkeypatch.setattr(ranked, "compare", lambda tables: {file: [*rows, "no such GPU"]})
    result = CliRunner().invoke(
        ranked.command, ["--data", str(tmp_path), "--rows"], standalone_mode=False
    )
    assert result.return_value == code
    assert "left out: 1 row of nanotron_h100: no such GPU" in result.output
    assert verdict in result.output and "+0.0%" in result.output
