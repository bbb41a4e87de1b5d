"""A cluster's parameters from measurements: of a synthetic machine whose parameters are known."""

import codecs
import gzip
import json
import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy.stats import t as student

from dimsweep.engine.errors import Code
from dimsweep.sweeper.calibrate.calibration import calibrate
from dimsweep.sweeper.calibrate.evidence import find_evidence
from dimsweep.sweeper.calibrate.kernels import read_products, read_profiled
from dimsweep.sweeper.calibrate.observations import (
    compute_iteration_deviation,
    compute_prior_widths,
    compute_shared_errors,
    compute_unmeasured_deviation,
    read_observations,
)
from dimsweep.sweeper.calibrate.posterior import compute_settings, list_parameters
from dimsweep.sweeper.cli.main import main
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.simulation.simulate import simulate
from tests.support.refused import refused

BASE = ("cluster=dgx_h100", "workload=llama3_8b", "workload.model.layers=2", "nodes=2")
# What the synthetic machine has of the preset's.
TRUTH = {"compute": math.log(0.8), "memory": math.log(0.7), "launch": math.log(2.0)} | {
    "network_0": math.log(0.9),
    "network_1": math.log(0.6),
    "overlap": math.log(0.8),
}
ROWS = (
    "name,nodes,tp,micro_batch,micro_batches",
    "alone,1,1,1,4",
    "large,2,1,4,2",
    "cut,2,8,1,4",
    "few,4,2,2,1",
    "far,8,4,1,1",
)
_KEYS = ("parallel.tensor", "plan.micro_batch", "plan.micro_batches")
NCCL = "op,gpus,nodes,bytes,time_us"


def machine(config: Config) -> Config:
    parameters = list_parameters(config)
    at = np.array([TRUTH.get(each.name, 0.0) for each in parameters])
    return config.with_values(compute_settings(config, parameters, at))


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Iterations and collectives, as the synthetic machine would have them, 2 % off each."""
    rng = np.random.default_rng(5)
    heads = ["name", "nodes", *(f"workload.{key}" for key in _KEYS)]
    lines = [f"{ROWS[0]},seconds"]
    for row in ROWS[1:]:
        said = dict(zip(heads, row.split(","), strict=True))
        said.pop("name")
        config = compose([*BASE, *(f"{k}={v}" for k, v in said.items())]).config
        lines.append(f"{row},{simulate(machine(config)).time * math.exp(rng.normal(0, 0.02))}")
    runs, nccl = tmp_path / "runs.csv", tmp_path / "nccl.csv"
    runs.write_text("\n".join(lines) + "\n")
    sizes = [(8, 1, 2**20), (8, 1, 2**28), (16, 2, 2**22), (16, 2, 2**29)]
    nccl.write_text("\n".join([NCCL, *(f"all_reduce,{g},{n},{b},1" for g, n, b in sizes)]) + "\n")
    config = machine(compose(BASE).config)
    found = read_observations(nccl, BASE, config)
    timed = [each.predict(config) * 1e6 * math.exp(rng.normal(0, 0.02)) for each in found]
    told = [f"all_reduce,{g},{n},{b},{us}" for (g, n, b), us in zip(sizes, timed, strict=True)]
    nccl.write_text("\n".join([NCCL, *told]) + "\n")
    return runs, nccl


@pytest.mark.long
def test_a_synthetic_machine_is_found_again(files: tuple[Path, Path]) -> None:
    config = compose(BASE).config
    found = [each for file in files for each in read_observations(file, BASE, config)]
    done = calibrate(config, found, compute_prior_widths(config))
    deviations = np.sqrt(np.diag(done.posterior.covariance))
    half = student.ppf(0.95, done.posterior.degrees) * deviations
    for i, parameter in enumerate(done.parameters):
        truth = TRUTH.get(parameter.name, 0.0)
        assert abs(done.posterior.mean[i] - truth) <= half[i], parameter.name
    learned = {each.name: deviations[i] / each.width for i, each in enumerate(done.parameters)}
    assert learned["compute"] < 0.8 and learned["network_1"] < 0.8
    before, after = done.mean_errors
    assert before > 0.1 > after and before > 3 * after
    assert not done.unexplained


def test_what_near_plans_share_is_not_all_the_clusters() -> None:
    alike = compose(BASE).config
    other = compose([*BASE, "workload.model.hidden=1024", "workload.model.layers=32"]).config
    has = compute_shared_errors([alike, alike, other, None])
    covariance = has @ has.T
    assert covariance[0, 0] > 0 and covariance[0, 1] == pytest.approx(covariance[0, 0])
    assert covariance[0, 2] < 0.1 * covariance[0, 0] and not covariance[3].any()
    whole = math.hypot(math.sqrt(covariance[0, 0]), compute_iteration_deviation(alike))
    assert whole == pytest.approx(compute_unmeasured_deviation(alike))
    assert compute_iteration_deviation(other) > 1.2 * compute_iteration_deviation(alike), (
        "a narrow model is off by more"
    )


def test_iterations_of_one_model_are_told_from_those_of_two(files: tuple[Path, Path]) -> None:
    config = compose(BASE).config
    found = read_observations(files[0], BASE, config)[:1]
    done = calibrate(config, found, compute_prior_widths(config))
    assert done.has_one_model
    deeper = replace(found[0], config=compose([*BASE, "workload.model.layers=4"]).config)
    assert not replace(done, observations=[*found, deeper]).has_one_model


@pytest.mark.long
def test_three_iterations_are_useful_and_a_wrong_one_is_named(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    runs, _ = files
    lines = runs.read_text().splitlines()
    few = tmp_path / "few.csv"
    few.write_text("\n".join(lines[:4]) + "\n")
    config = compose(BASE).config
    known = compute_prior_widths(config)
    done = calibrate(config, read_observations(few, BASE, config), known)
    rest = read_observations(runs, BASE, config)[3:]
    errors = {}
    for name, at in (("before", np.zeros(len(done.parameters))), ("after", done.posterior.mean)):
        told = [
            each.config.with_values(compute_settings(each.config, done.parameters, at))
            for each in rest
        ]
        errors[name] = np.mean(
            [abs(simulate(c).time / each.value - 1) for c, each in zip(told, rest, strict=True)]
        )
    assert errors["after"] < 0.5 * errors["before"]
    name, *plan, seconds = lines[2].split(",")
    lines[2] = ",".join([name, *plan, str(3 * float(seconds))])
    runs.write_text("\n".join(lines) + "\n")
    wrong = calibrate(config, read_observations(runs, BASE, config), known)
    assert [wrong.observations[i].name for i in wrong.unexplained] == ["iteration, large"]


@pytest.mark.long
def test_the_cluster_is_written_and_its_times_have_intervals_of_their_own(
    files: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["calibrate", "runs.csv", *BASE]) == 0
    told = capsys.readouterr().out
    assert "conf/cluster/mine.yaml: use it as cluster=mine" in told and "compute efficiency" in told
    assert "all iterations are of one model" in told
    stored = yaml.safe_load(Path("conf/cluster/mine.yaml").read_text())
    assert stored["calibration"]["measured"] == 5 and stored["npu"]["efficiency"] < 0.91
    own = ["cluster=mine", *BASE[1:]]
    config = compose(own).config
    assert config.npu.efficiency == stored["npu"]["efficiency"]
    said = find_evidence(config)
    assert said.own == 5 and "the posterior of 5 measurements" in str(said)
    low, high = said.band.relative_ends(0.9)
    assert low < 0 < high
    far = find_evidence(compose([*own[:-1], "nodes=64"]).config).band.relative_ends(0.9)
    assert far[1] - far[0] > high - low
    over = find_evidence(compose([*own, "npu.efficiency=0.5"]).config)
    assert over.reason == "npu.efficiency was changed after the calibration"
    assert main(["calibrate", "runs.csv", *BASE]) == 1
    assert "the file exists" in capsys.readouterr().err


def test_measure_writes_a_script_that_python_can_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "m.py"
    assert main(["measure", str(file)]) == 0
    compile(file.read_text(), str(file), "exec")
    imported = {
        line.split()[1].split(".")[0]
        for line in file.read_text().splitlines()
        if line.startswith(("import ", "from "))
    }
    assert imported - {"torch"} <= sys.stdlib_module_names
    assert main(["measure", str(tmp_path)]) == 1
    assert "a folder" in capsys.readouterr().err


# --- other files --------------------------------------------------------------------------------


def test_a_folder_of_measure_is_read(tmp_path: Path) -> None:
    cases = {
        "products": [
            {"kind": "product", "precision": "bf16", "m": 4096, "n": 4096, "k": 4096, "ms": 0.21},
            {"kind": "product", "precision": "bf16", "m": 1, "n": 1, "k": 1, "error": "no memory"},
        ],
        "memory": [
            {"kind": "elementwise", "op": "add", "tokens": 8192, "hidden": 8192, "ms": 0.16},
            {"kind": "elementwise", "op": "unheard", "tokens": 1, "hidden": 1, "ms": 1},
        ],
        "launches": [{"kind": "launch", "op": "add", "host_us": 4.0, "end_us": 5.0}],
    }
    for name, lines in cases.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    config = compose(BASE).config
    found = read_observations(tmp_path, BASE, config)
    assert sorted(each.kind for each in found) == ["launch", "memory", "product"]
    memory = next(each for each in found if each.kind == "memory")
    rate = float(config.npu.memory_bandwidth) * config.npu.memory_efficiency
    assert memory.predict(config) == pytest.approx(6 * 8192**2 / rate)
    product = next(each for each in found if each.kind == "product")
    slow = config.with_values({"npu.efficiency": 0.455})
    assert product.predict(slow) == pytest.approx(2 * product.predict(config))


def test_a_profile_says_what_a_step_is_made_of(tmp_path: Path) -> None:
    events = [
        {"ph": "X", "cat": "kernel", "name": name, "ts": ts, "dur": dur, "tid": tid}
        for name, ts, dur, tid in (
            ("sm90_xmma_gemm_bf16", 0.0, 600.0, 7),
            ("ncclDevKernel_AllReduce", 100.0, 700.0, 9),
            ("vectorized_elementwise_kernel", 700.0, 300.0, 7),
        )
    ]
    file = tmp_path / "step.kineto.json"
    file.write_text(json.dumps({"traceEvents": events}))
    config = compose([*BASE, "nodes=1"]).config
    found = {
        each.name.split(" of ")[0]: each.value for each in read_observations(file, BASE, config)
    }
    assert found == pytest.approx(
        {"profile, step": 1e-3, "profile, products": 6e-4, "profile, memory": 3e-4}
    )


KERNELS = {
    "products": """
        Cijk_Alik_Bljk_BBS_BH_MT256x256x64_MI16x16x1
        Custom_Cijk_Ailk_Bljk_F8BS_BH
        triton_tem_fused_mm_3
        triton_tem_fused_flex_attention_0
        triton_mm_16
        ck::kernel_gemm_xdl_cshuffle_v1
        void ck_tile::kentry<256, 2, ck_tile::FmhaFwdKernel<..>>
        attn_fwd.kd
        bwd_kernel_dk_dv.kd
        miopenSp3AsmConv_v30_3_1_gfx9_fp16_stride1
        void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128>, cutlass::bfloat16_t>
        void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm>
        void cutlass::device_kernel<flash::FlashAttnFwdSm90>
        nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT
        sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64
        sm80_xmma_fprop_implicit_gemm
        ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn
        cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16
        void cudnn::winograd_nonfused::winogradForwardFilter4x4
        void marlin::Marlin<__nv_bfloat16, 4ul, 256>
        void deep_gemm::fp8_gemm_kernel<4096u, 7168u>
        fused_moe_kernel
        void vllm::paged_attention_v2_kernel
    """,
    "memory": """
        void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>
        void at::native::elementwise_kernel<128, 4, ConvertOp>
        triton_poi_fused_addmm_gelu_1
        triton_red_fused__scaled_dot_product_flash_attention_native_layer_norm_3
        triton_per_fused_mm_sum_7
        void rms_norm_kernel<cutlass::bfloat16_t>
        void cudnn::bn_fw_tr_1C11_kernel_NCHW
        void cudnn::ops::nchwToNhwcKernel<__half>
        gptq_marlin_repack_kernel
        causal_conv1d_fwd_kernel
        ck::kernel_elementwise
        void at::native::(anonymous namespace)::multi_tensor_apply_kernel
        Memcpy DtoD (Device -> Device)
    """,
    "communication": """
        ncclDevKernel_AllReduce_Sum_bf16_RING_LL
        ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t
        mscclKernel_Sum_float_LL
        void vllm::cross_device_reduce_2stage<__nv_bfloat16, 8>
        void deep_ep::internode::dispatch
        multimem_all_reduce_kernel
    """,
}


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name.strip()) for kind, text in KERNELS.items() for name in text.strip().splitlines()],
)
def test_kernels_are_known_by_their_names(tmp_path: Path, kind: str, name: str) -> None:
    event = {"ph": "X", "cat": "kernel", "name": name, "ts": 0.0, "dur": 600.0, "tid": 7}
    file = tmp_path / "step.json"
    file.write_text(json.dumps({"traceEvents": [event]}))
    profiled = read_profiled(file)
    kinds = ("products", "memory", "communication")
    assert {each: getattr(profiled, each) for each in kinds if getattr(profiled, each)} == {
        kind: pytest.approx(6e-4)
    }


def test_an_execution_trace_tells_the_shapes_of_products(tmp_path: Path) -> None:
    def node(call: int, name: str, shapes: list[list[int]], kind: str) -> dict[str, object]:
        types = [f"Tensor({kind})"] * len(shapes)
        inputs = {"values": [], "shapes": shapes, "types": types}
        attributes = [{"name": "rf_id", "value": call}]
        return {"id": call + 1, "name": name, "ctrl_deps": 1, "inputs": inputs} | {
            "outputs": {"values": []},
            "attrs": attributes,
        }

    nodes = [
        {"id": 1, "name": "[pytorch|profiler|execution_trace|process]"},
        node(1, "aten::mm", [[512, 256], [256, 1024]], "c10::BFloat16"),
        node(2, "aten::addmm", [[64], [512, 128], [128, 64]], "c10::Half"),
        node(3, "aten::mm", [[8, 8], [8, 8]], "float"),
        node(4, "aten::add", [], "float"),
    ]
    events = []
    for call, us in ((1, 10.0), (2, 20.0), (3, 30.0)):
        args = {"Record function id": call, "External id": call}
        events += [
            {
                "ph": "X",
                "cat": "cpu_op",
                "name": "op",
                "ts": call,
                "dur": 1,
                "tid": 1,
                "args": args,
            },
            {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 100 * call, "dur": us, "tid": 7}
            | {"args": {"External id": call}},
        ]
    (tmp_path / "x.kineto.json").write_text(json.dumps({"traceEvents": events}))
    (tmp_path / "x.et.json").write_text(
        json.dumps({"schema": "1.1.1-chakra.0.0.4", "nodes": nodes})
    )
    found = read_products(tmp_path / "x.kineto.json", tmp_path / "x.et.json")
    assert found == [(512, 128, 64, 20e-6), (512, 256, 1024, 10e-6)]


def test_a_log_of_power_says_which_clock_lasts(tmp_path: Path) -> None:
    rows = [(80, 345), (690, 1485), (700, 1485), (699, 1500)]
    lines = [f"t, {w}.0 W, 700 W, {now} MHz, 1980 MHz" for w, now in rows]
    now = "clocks.current.sm [MHz]"  # which nvidia-smi calls what was asked for as clocks.sm
    head = f"timestamp, power.draw [W], power.limit [W], {now}, clocks.max.sm [MHz]"
    file = tmp_path / "power.csv"
    file.write_text("\n".join([head, *lines]) + "\n")
    (found,) = read_observations(file, BASE, compose(BASE).config)
    assert found.value == pytest.approx(0.75) and found.kind == "clock"
    log = tmp_path / "dcgm.log"
    names = "#Entity   POWER   SMCLK   SMMAX\nID        W\n"
    log.write_text(names + "".join(f"GPU 0     {w}.0   {now}   1980\n" for w, now in rows) + names)
    assert [each.value for each in read_observations(log, BASE, compose(BASE).config)] == [
        found.value
    ]


POWER = "power.draw [W], clocks.current.sm [MHz], clocks.max.sm [MHz]"


@pytest.mark.parametrize(
    ("name", "text", "place", "code", "names"),
    [
        ("runs.csv", "nodes,seconds\n1,soon\n", "line 2", "wrong-type", "'soon'"),
        ("runs.csv", "nodse,seconds\n1,2\n", "line 2", "unknown-key", "'nodes'"),
        ("case.jsonl", "{\n", "line 1", "bad-syntax", ""),
        ("step.json", '{"traceEvents": []}', "step.json", "missing", "ProfilerActivity.CUDA"),
        ("dcgm.log", "#Entity   POWER\nGPU 0  345.2\n", "dcgm.log", "missing", "clocks.max.sm"),
        ("power.csv", f"{POWER}\n[N/A], [N/A], [N/A]\n", "power.csv", "missing", ""),
        ("loss.csv", "step,loss,time\n1,3.2,6.6\n", "loss.csv", "missing", "seconds, ms, tokens/s"),
        ("runs.csv", "nodes;time\n1;2\n", "runs.csv", "missing", "nodes;time"),
        ("runs.csv", "nodes,seconds\n1,\n", "runs.csv", "missing", "seconds"),
        ("runs.csv", "tpp,seconds\n1,2\n", "line 2", "unknown-key", "'tp'"),
    ],
)
def test_what_cannot_be_read_is_refused(
    tmp_path: Path, name: str, text: str, place: str, code: Code, names: str
) -> None:
    file = tmp_path / name
    file.write_text(text)
    with refused(place, code, name, names):
        read_observations(file, BASE, compose(BASE).config)


@pytest.mark.parametrize(("column", "factor"), [("ms", 1.0), ("seconds", 1e3), ("seconds", 1 / 60)])
def test_a_time_of_another_unit_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    column: str,
    factor: float,
) -> None:
    """Seconds in a column ms, milliseconds and minutes in one of seconds."""
    monkeypatch.chdir(tmp_path)
    words = [*BASE[:-1], "nodes=1"]
    seconds = simulate(compose([*words, "workload.parallel.tensor=8"]).config).time
    Path("runs.csv").write_text(f"name,tp,{column}\nright,8,{seconds * factor}\n")
    assert main(["calibrate", "runs.csv", *words]) != 0
    told = " ".join(capsys.readouterr().err.split())
    assert f"runs.csv, line 2, column {column}" in told and "check the unit" in told
    assert not Path("conf").exists(), "nothing is written"


def test_most_collectives_of_another_unit_are_refused(tmp_path: Path) -> None:
    """One of many may be slow, such as the first one."""
    file = tmp_path / "nccl.csv"
    config = compose(BASE).config
    sizes, slow = (2**26, 2**27, 2**28), (1000.0, 1.0, 1.0)
    file.write_text("\n".join([NCCL, *(f"all_reduce,8,1,{n},1" for n in sizes)]) + "\n")
    found = read_observations(file, BASE, config)
    for factors, is_refused in ((slow, False), ((1000.0, 1000.0, 1.0), True)):
        times = [
            replace(each, value=each.predict(config) * f)
            for each, f in zip(found, factors, strict=True)
        ]
        if is_refused:
            with refused("", "out-of-range", "collective"):
                calibrate(config, times, compute_prior_widths(config))
        else:
            calibrate(config, times, compute_prior_widths(config))


TABLE = "name,nodes,tp,micro_batch,batch,seconds\none,1,1,1,64,6.6\n"


@pytest.mark.parametrize(
    "content",
    [
        codecs.BOM_UTF8 + TABLE.encode(),
        TABLE.replace("\n", "\r\n").encode("utf-16"),
        TABLE.title().encode(),
        TABLE.replace("one", '"one"').replace("seconds", '"seconds"').encode(),
        '"'.join(["", '", "'.join(TABLE.splitlines()[0].split(",")), "\n"]).encode()
        + b'"one", "1", "1", "1", "64", "6.6"\n',
        b"# of Monday\n\n" + TABLE.encode(),
        TABLE.replace(",", ";").replace("6.6", "6,6").encode(),
        TABLE.replace(",", "\t").encode(),
        (TABLE + "two,1,2,1,64,NA\n").encode(),
        gzip.compress(TABLE.encode()),
    ],
    ids=["mark", "UTF-16", "capitals", "quotes", "all", "comment", ";", "tabs", "NA", "gzip"],
)  # fmt: skip
def test_tables_of_iterations_as_other_tools_write_them(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "runs.csv").write_bytes(content)
    (found,) = read_observations(tmp_path / "runs.csv", BASE, compose(BASE).config)
    assert found.kind == "iteration"
    assert found.name.lower() == "iteration, one"
    assert found.value == 6.6


def test_what_nccl_tests_print_needs_no_bare_lines(tmp_path: Path) -> None:
    """A command with commas before it was taken for the head of a table."""
    ranks = "".join(f"0: #  Rank  {i} Group  0 Pid 1 on h device {i} [0x1] X\n" for i in (0, 1))
    row = "0: 1024 256 float sum -1 17.51 0.06 0.09 0 16.90 0.06 0.09 0\n"
    other = "0: # broadcast_perf\n" + row
    (tmp_path / "run.log").write_text("mpirun --mca btl tcp,self all_reduce_perf\n" + ranks + row)
    (found,) = read_observations(tmp_path / "run.log", BASE, compose(BASE).config)
    assert found.kind == "collective"
    assert found.value == pytest.approx(17.51e-6)
    assert found.remark == ""
    (tmp_path / "run.log").write_text("all_reduce_perf\n" + ranks + row + other)
    (found,) = read_observations(tmp_path / "run.log", BASE, compose(BASE).config)
    assert found.remark.endswith("left out 1 row of broadcast")


def test_a_profile_of_a_small_step_is_of_no_other_unit(tmp_path: Path) -> None:
    """Kineto's times are microseconds; the two kernels of a test are far below a model's step."""
    event = {"ph": "X", "cat": "kernel", "tid": 7}
    events = [
        {**event, "name": "Cijk_Alik_Bljk_BBS_BH", "ts": 100, "dur": 9000},
        {**event, "name": "vectorized_elementwise_kernel", "ts": 9110, "dur": 1000},
    ]
    (tmp_path / "amd.json").write_text(json.dumps({"traceEvents": events}))
    config = compose([*BASE[:-1], "nodes=1"]).config
    found = read_observations(tmp_path / "amd.json", BASE, config)
    done = calibrate(config, found, compute_prior_widths(config))
    assert {each.name.split()[1]: each.value for each in done.observations} == pytest.approx(
        {"step": 0.01001, "products": 0.009, "memory": 0.001}
    )
