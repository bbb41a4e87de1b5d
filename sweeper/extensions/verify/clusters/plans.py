"""Configurations of measured rows: machine, model, and plan with the habits of the row's stack.

``recipes.yaml`` holds settings of Megatron-Bridge's recipes that its tables do not print, by model,
GPU, precision, release and expert-parallel ranks.  They were looked up because these rows had large
errors, so their later agreement is weaker evidence than that of other sources.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.extensions.verify.clusters.measurements import LeftOut, Measurement
from dimsweep.sweeper.extensions.verify.clusters.systems import build_model, find_system
from dimsweep.sweeper.simulation.simulate import simulate

_TABLE = Path(__file__).with_name("recipes.yaml")
_PATTERNS = ("model", "gpu", "precision", "experts")
_KEYS = {*_PATTERNS, "from", "until", "source", "plan", "graphs"}
# grad_reduce_in_fp32 is off, and a bucket has 128 Mi parameters (training/comm_overlap.py).
_ALL = {"gradients": "bf16"}
_FEW_GPUS = re.compile("llama.*70b")  # LLAMA3_70B_LORA_CONFIG_* alone run on 8 GPUs
_KNOWN_ISSUE = "[^gpt-oss-note]"  # "Performance regression ... is a known issue", says its footnote


def find_recipe(measured: Measurement) -> dict[str, Any]:
    """Return the keys of workload.plan that a row's Megatron-Bridge recipe sets.

    Raises :class:`LeftOut` for adapters and for runs with a known issue.
    """
    if _FEW_GPUS.search(measured.model.lower()) and measured.gpus == 8:
        raise LeftOut("it trains adapters of low rank (LoRA), which are not simulated")
    if _KNOWN_ISSUE in measured.note:
        raise LeftOut("its source says that a known issue of the release slowed it down")
    for entry in read_entries():
        if "plan" in entry and _matches(entry, measured):
            return _ALL | entry["plan"]
    return dict(_ALL)


@cache
def read_entries() -> tuple[Mapping[str, Any], ...]:
    """Return the recipes of the table; raise :class:`DimsweepError` for an invalid one."""
    found = tuple(yaml.safe_load(_TABLE.read_text(encoding="utf-8")))
    for number, entry in enumerate(found):
        unknown = sorted({*entry} - _KEYS)
        if unknown or "source" not in entry or not {"plan", "graphs"} & {*entry}:
            problem = "the source, or both plan and graphs, are missing"
            raise DimsweepError(
                f"unknown keys: {', '.join(unknown)}" if unknown else problem,
                where=f"{_TABLE.name}, entry {number + 1}",
                code="unknown-key" if unknown else "missing",
            )
    return found


def _matches(entry: Mapping[str, Any], measured: Measurement) -> bool:
    cells = (measured.model, measured.gpu, measured.precision, str(measured.expert))
    patterns = zip(_PATTERNS, cells, strict=True)
    if not all(re.search(str(entry.get(name, "")), cell.lower()) for name, cell in patterns):
        return False
    when = find_release(measured)
    return (when or entry.get("from", "")) >= entry.get("from", "") and when <= entry.get(
        "until", "~"
    )


def find_release(measured: Measurement) -> str:
    """Return the release of the NeMo container in a row's source, such as 26.04; "" if none."""
    found = re.search(r"\[(\d+\.\d+)", measured.source)
    return found[1] if found else ""


def has_graphs(measured: Measurement) -> bool:
    """Return whether CUDA graphs launch the layers, including attention and router.

    Small and NVFP4 Llama models on Blackwell have graphs; the table lists models with experts.
    """
    model, blackwell = measured.model.lower(), "h100" not in measured.gpu.lower()
    if "Megatron-Bridge" not in measured.source:
        return False
    if "llama" in model:
        return blackwell and ("8b" in model or "fp4" in measured.precision.lower())
    return any(entry.get("graphs") and _matches(entry, measured) for entry in read_entries())


# --- the configuration of a row: its machine, its model, and its plan ----------------------------


# PyTorch without fused kernels: norms, activations and losses make more passes over memory, and the
# host issues five to ten kernels for one of ours (docs/accuracy.md).
_EAGER = {"npu.memory_efficiency": 0.5, "npu.launch": "110 us"}
# BLOOM's chronicles: from 20 nodes on jobs hang unless CUDA_LAUNCH_BLOCKING=1 makes the host wait
# for each kernel.  That slowed a 200B model down from 97.20 to 91.04 TFLOP/s on 80 GPUs, 75 us for
# each of 192,000 kernels of ours; on 160 GPUs it made 90, with and without.
_BLOCKING = {"npu.launch": "185 us"}
_BLOCKING_GPUS = 160
# "A100s PCI-Express/NUMA was improved today so all TFLOPs have changed for the better (1-5%)", the
# chronicles say on 25 February: what was measured before was 3 % slower.
_BEFORE_REPAIR = {"npu.efficiency": 0.88, "npu.memory_efficiency": 0.485}
# What a table does not print of a stack: keys of workload.plan, and others, by the document; the
# first one counts.
_HOST = {"npu.host": "100 us"}
# Layers with experts have several more kernels for one of ours: routing, sorting, adding up.
_HOST_OF_EXPERTS = {"npu.host": "150 us"}
_TORCHTITAN = {
    "stack": "fsdp",
    "sequence_parallel": True,
    "overlap_tensor": "none",
    "gradients": "fp32",
}
_MEGATRON = {
    "stack": "megatron",
    "overlap_parameters": True,
    "sequence_parallel": True,
    "overlap_tensor": "pieces",
    "gradients": "fp32",
}
_NEMO = {**_MEGATRON, "stack": "nemo"}
# Kernels that read and write at the rate of a copy in device memory: 2,903 of 3,350 GB/s on an H100
# (aigatech/vpbenchmarking).
_COPIES = {"npu.memory_efficiency": 0.87}
_STACKS: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
    # NVIDIA's ResNet in MXNet with Horovod: 64 MiB of gradients at once, exchanged after the
    # backward pass (config_DGXH100_multi_*.sh of training_results_v4.0: "Default is no NCCL and
    # BWD overlap"); LARS keeps a momentum.
    (
        "; mxnet",
        {
            "stack": "ddp",
            "graphs": "step",
            "bucket": "67108864 B",
            "overlap_gradients": False,
            "gradients": "fp16",
            "optimizer": "sgd",
        },
        _COPIES,
    ),
    # HugeCTR: gradients of both perceptrons and of copied tables beside the backward pass, and
    # tables updated in place (dgx_h100.py of training_results_v2.1; train.py of HugeCTR).
    (
        "; hugectr",
        {"stack": "fsdp", "graphs": "step", "gradients": "fp16", "optimizer": "plain_sgd"},
        _COPIES,
    ),
    (
        "; adagrad in hugectr",
        # Adagrad keeps one value for each weight.
        {"stack": "fsdp", "graphs": "step", "gradients": "fp16", "optimizer": "sgd"},
        _COPIES,
    ),
    # MaxText: the scripts' LIBTPU_INIT_ARGS have XLA put all-gathers beside products that do not
    # wait for them (xla_tpu_enable_async_collective_fusion_fuse_all_gather), and no reduce-scatter
    # (its own flag, fuse_reduce_scatter, is of later scripts); so of tensor parallelism what the
    # backward pass leaves room for.  Whether XLA took collectives and products apart (collective
    # matmul) is not printed.
    # MLPerf's TPUs run it with these flags, too (training_results_v4.0, Google/benchmarks/gpt3).
    (
        r"maxtext|\btpu\b",
        {
            "stack": "fsdp",
            "sequence_parallel": True,
            "overlap_gradients": False,
            "overlap_tensor": "backward",
            "gradients": "bf16",
        },
        {},
    ),
    # Megatron-DeepSpeed: gradients are exchanged after the last backward pass, messages block.
    (
        "bigscience",
        {
            "stack": "deepspeed",
            "sequence_parallel": False,
            "overlap_gradients": False,
            "blocking_messages": True,
            "overlap_tensor": "none",
            # Its ZeRO-1 all-reduces gradients of 16 bits, its BF16_Optimizer sums in fp32; neither
            # product adds its gradient to the sum (deepspeed/runtime/{zero,bf16_optimizer.py}).
            "gradients": "bf16",
            "whole_sums": True,
            "fused_sums": False,
        },
        _EAGER,
    ),
    # Megatron-DeepSpeed with DeepSpeed 0.16, of whose pipeline engine it has a copy, without ZeRO;
    # timed with a barrier before gradients are summed up (third_party/Megatron-DeepSpeed,
    # deepspeed/pipe_engine.py).  Nothing blocks its kernels, so that they run behind the host.
    (
        "eth-easl/sailor",
        {
            "stack": "deepspeed",
            "sequence_parallel": False,
            "overlap_gradients": False,
            "blocking_messages": True,
            "overlap_tensor": "none",
            "gradients": "fp32",
            "fused_sums": False,
        },
        {"npu.memory_efficiency": 0.5, **_HOST},
    ),
    # nanotron in eager PyTorch: all-gathers and reduce-scatters of tensor parallelism run beside
    # one shard's product only; DDP's buckets are summed up in fp32 by kernels of their own
    # (src/nanotron/optim/gradient_accumulator.py); two messages of metadata before each tensor
    # between stages block (src/nanotron/parallel/pipeline_parallel/p2p.py).
    (
        "huggingface/nanotron",
        {
            "stack": "ddp",
            "bucket": "50 MB",  # in fp32; 25 MB of bf16
            "sequence_parallel": True,
            "overlap_tensor": "backward",
            "gradients": "fp32",
            "fused_sums": False,
            "blocking_messages": True,
            "eager": True,
        },
        _HOST,
    ),
    # Megatron-DeepSpeed of 2022, without ZeRO and without buckets of gradients.
    (
        "via-research/vtrain",
        {
            "stack": "deepspeed",
            "bucket": "1 TB",
            "sequence_parallel": False,
            "overlap_gradients": False,
            "blocking_messages": True,
            "overlap_tensor": "none",
            "gradients": "bf16",
            "fused_sums": False,
        },
        {"npu.memory_efficiency": 0.5, "npu.host": "75 us"},
    ),
    (
        "images/scaling",
        {
            "stack": "megatron",
            "bucket": "1 TB",  # one buffer of all gradients
            "sequence_parallel": False,
            "overlap_gradients": False,
            "overlap_tensor": "none",
            "gradients": "bf16",
        },
        {},
    ),
    # NeMo 1.11 of 2022: gradient_accumulation_fusion came later, weights were gathered after the
    # update, and Apex's pipelines wait for each message (p2p_communication.py synchronises).
    (
        "launcher",
        {
            "stack": "nemo",
            "sequence_parallel": True,
            "gradients": "fp32",
            "fused_sums": False,
            "blocking_messages": True,
        },
        _EAGER,
    ),
    # MLPerf: NeMo 1 with Apex's distributed Adam, whose sums are fp32 unless grad_sync_dtype says
    # so (conf/optim/distributed_fused_adam.yaml, from 4.0 on), and fp8 weights (FP8_PARAMS) then.
    ("training_results_v3", {**_NEMO, "gradients": "fp32"}, _HOST),
    ("training_results_v4", {**_NEMO, "gradients": "bf16", "gathers": "fp8"}, _HOST),
    # From 5.0 on NeMo 2, which is Megatron-Core's.
    ("training_results_v", {**_MEGATRON, "gradients": "bf16", "gathers": "fp8"}, _HOST),
    ("nvidia/nemo:docs", {**_NEMO, "gradients": "bf16"}, _HOST),
    (
        "simumax",  # its rows say "overlap paths off"
        {
            "stack": "megatron",
            "sequence_parallel": True,
            "overlap_gradients": False,
            "overlap_tensor": "none",
            "gradients": "fp32",
        },
        _HOST,
    ),
    ("llm-foundry", {"stack": "fsdp", "gradients": "bf16"}, _EAGER),
    ("torchtitan.* eager", _TORCHTITAN, _EAGER),
    ("torchtitan", _TORCHTITAN, {}),
    ("", _MEGATRON, _HOST),
)
# Attention kernels, relative to those that were measured: FlashAttention 2 on the A100, 3 on the
# H100.  FlashAttention 1 takes 1.5 times as long as 2, which takes 1.8 times as long as 3; the
# H100's rows with ALiBi say 3.4 for both.
_ATTENTION: tuple[tuple[str, str, float], ...] = (
    ("llm-foundry", "a100", 1.5),
    ("llm-foundry", "h100", 3.4),
    ("torchtitan", "h100|h200", 1.8),
)
# Where a table names none.  Sailor's configuration for DeepSpeed sets neither fp16 nor bf16, and
# its image, NVIDIA's pytorch:24.10, lets products of fp32 use TF32
# (TORCH_ALLOW_TF32_CUBLAS_OVERRIDE).
_PRECISIONS = {"eth-easl/sailor": "tf32"}
# What tables write of a precision; the first pattern that is found counts.
_FORMATS = (
    ("fp4", "nvfp4"),
    (r"^[^(]*(mxfp8|fp8-mx)", "mxfp8"),
    ("fp8|float8", "fp8"),
    ("int8", "int8"),
    ("16", "bf16"),
)
# Layers of DeepSeek-V3's shares: set_deepseek_v3_pipeline_model_parallel_layout of
# recipes/deepseek/deepseek_v3.py of Megatron-Bridge, and pp_layout of scripts/performance/configs.
_LAYOUTS = {
    4: [16, 16, 16, 13],
    8: [*[8] * 7, 5],
    16: [*[4] * 15, 1],
    32: [1, *[2] * 30, 0],
}
_ORDER = ("tensor", "expert", "context", "data", "pipeline")  # Megatron's, innermost first


def count_micro_batches(measured: Measurement) -> int:
    """Return the number of micro-batches of a replica; raise :class:`LeftOut` for a remainder."""
    n, rest = divmod(measured.batch, measured.data * _find_micro_batch(measured))
    if rest or not n:
        raise LeftOut(
            f"a batch of {measured.batch} is no number of micro-batches of {measured.micro_batch} "
            f"for {measured.data} replicas"
        )
    return n


def configure(measured: Measurement, micro_batches: int) -> Config:
    """Return the configuration that simulates a row with the given micro-batches per replica.

    Raises :class:`LeftOut` for a row that cannot be simulated.
    """
    system = find_system(measured)
    shape = system.build_shape(measured.gpus, measured.tensor, measured.node)
    network, n_dims = system.config.text["topology"], shape.count("(")
    plan = {
        "batch": None,
        "micro_batches": micro_batches,
        "micro_batch": _find_micro_batch(measured),
        "interleave": measured.interleave if measured.pipeline > 1 else 1,
        "precision": _parse_precision(measured),
        "recompute": _parse_recompute(measured),
        "recompute_modules": _parse_modules(measured),
        "stage_layers": list(measured.stage_layers)
        or _find_layout(measured)
        or _fill_stages(measured)
        or _balance_stages(measured),
        "whole_experts": measured.expert > 1 and measured.tensor > 1,
        **_parse_sharding(measured),
        **_build_stack(measured),
    }
    return system.config.with_values(
        {
            "topology.shape": shape,
            **{
                f"topology.{name}": network[name][:n_dims]
                for name in ("bandwidth", "latency", "tiers")
            },
            "workload.name": measured.model,
            "workload.model": build_model(measured),
            "workload.parallel": _build_degrees(measured),
            "workload.plan": {**system.config.text["workload"]["plan"], **plan},
            **_build_software(measured),
        }
    )


def _find_layout(measured: Measurement) -> Sequence[int]:
    """Return the layers per stage in Megatron-Bridge's DeepSeek-V3.

    The last stage has the fewest.
    """
    name = measured.model.lower()
    is_its = "Megatron-Bridge" in measured.source and re.search("deepseek.?v3", name)
    return _LAYOUTS.get(measured.pipeline * measured.interleave, ()) if is_its else ()


def _fill_stages(measured: Measurement) -> list[int]:
    """Return the layers per stage in DeepSpeed, which fills the first stages; [] for other stacks.

    See ``partition_balanced`` of runtime/utils.py.
    """
    layers, stages = measured.shape["layers"], measured.pipeline
    most = -(-layers // stages)
    if _find_entry(measured)[1].get("stack") != "deepspeed":
        return []
    filled = [min(most, layers - most * s) for s in range(stages)]
    return filled if layers % stages and min(filled) > 0 else []


def _balance_stages(measured: Measurement) -> list[int]:
    """Return the layers per stage in nanotron, which balances matrix products; [] for other stacks.

    A stage ends with the block by which the work exceeds its share; the logits count, too
    (``build_model`` of src/nanotron/models/base.py).
    """
    if "nanotron" not in measured.source or measured.pipeline == 1:
        return []
    shape, stages = measured.shape, measured.pipeline
    layer = 4 * shape["hidden"] + 3 * shape["ffn"]
    total = shape["layers"] * layer + shape["vocab"]
    found = [0] * stages
    stage = 0
    for n in range(1, shape["layers"] + 1):
        found[stage] += 1
        stage += n * layer > total * (stage + 1) / stages
    return found


def _find_micro_batch(measured: Measurement) -> int:
    """Return the micro-batch in sequences; torchtitan's pipelines run one sequence at a time."""
    runs_singly = "torchtitan" in measured.source and measured.pipeline > 1
    return 1 if runs_singly else measured.micro_batch


def _build_degrees(measured: Measurement) -> dict[str, int]:
    # Megatron's experts are whole: tensor-parallel ranks hold different ones.
    experts, rest = divmod(measured.expert, measured.tensor if measured.expert > 1 else 1)
    if rest or measured.data % experts:
        raise LeftOut(
            f"its {measured.expert} expert-parallel ranks are no part of {measured.tensor} "
            f"tensor-parallel ranks and {measured.data} replicas"
        )
    degrees = {
        "tensor": measured.tensor,
        "expert": experts,
        "context": measured.context,
        "data": measured.data // experts,
        "pipeline": measured.pipeline,
    }
    return {axis: degrees[axis] for axis in _ORDER}


def _parse_precision(measured: Measurement) -> str:
    """Return the precision; raise :class:`LeftOut` if it is unknown."""
    text = measured.precision.lower()
    if not re.search(r"\d", text):
        for source, known in _PRECISIONS.items():
            if source in measured.source:
                return known
        raise LeftOut(f"its precision is {measured.precision or 'not given'}")
    if "rowwise" in text:  # its scales and casts cost what it gains (torchtitan, 2025-06)
        return "bf16"
    for pattern, precision in _FORMATS:
        if re.search(pattern, text):
            return precision
    raise LeftOut(f"its precision, {measured.precision}, is none that is simulated")


def _parse_recompute(measured: Measurement) -> str:
    text = measured.recompute.lower()
    if "torchtitan" in measured.source and "full" not in text:
        return "none"  # its selection is one of modules
    if "remat" in text or "save_dot" in text:  # MaxText's remat_policy
        return "full" if re.search(r"\bfull\b", text) else "none"
    for word in ("full", "selective"):
        if text.startswith(word):
            return word
    return "full" if re.match("yes|true|all|activation checkpointing", text) else "none"


def _parse_modules(measured: Measurement) -> list[str]:
    """Return the modules that are recomputed separately, from a cell such as "norm, act"."""
    words = re.split(r"[^a-z0-9]+", measured.recompute.lower())
    if "torchtitan" in measured.source and "selective" in words:
        return ["activation", "linear", "norm"]
    # MaxText keeps the products' outputs, but for those that its policy names.
    if "save_dot" in measured.recompute.lower():
        if "ffn1" in words:
            raise LeftOut("it computes the first linear layer of each MLP again, and no other")
        return ["activation", "core", "norm"]
    names = {"norm": "norm", "layernorm": "norm", "act": "activation"}
    names |= {name: name for name in ("core", "activation", "qkv", "projection", "expansion")}
    return sorted({names[word] for word in words if word in names})


def _parse_sharding(measured: Measurement) -> dict[str, Any]:
    """Return the keys of the ZeRO stage, and of the number of ranks that share the weights."""
    text = measured.sharding.lower()
    stage = re.search(r"zero.(\d)|^(\d)", text)
    if stage:
        zero = int(stage[1] or stage[2])
    elif re.search(r"fsdp2? ?([1-9]|on)", text):
        zero = 3
    else:
        zero = 1 if re.search("distributed|zero-1|fsdp 0|fsdp /", text) else 0
    # Megatron-Bridge prints how many ranks divide the weights.
    ranks = re.fullmatch(r"fsdp2? (\d+)", text)
    n, replicas = int(ranks[1]) if ranks else 0, measured.data * measured.context
    if n > 1 and n != replicas:
        if n > replicas or replicas % n:
            raise LeftOut(f"its weights are divided among {n} of {replicas} replicas")
        return {"zero": 3, "shard_ranks": n}
    return {"zero": zero}


def _build_stack(measured: Measurement) -> dict[str, Any]:
    keys = _find_entry(measured)[1]
    if "Megatron-Bridge" in measured.source:
        keys = keys | find_recipe(measured)
    if "fsdp" in measured.sharding.lower() and keys == _MEGATRON:
        keys = keys | {"gradients": "bf16"}  # Megatron-FSDP's user guide
    if re.search("deepep|hybridep", measured.note.lower()):
        keys = keys | {"experts_by_node": True}
    if has_graphs(measured):
        keys = {"graphs": "layer"} | keys
    if "full-iteration cuda graphs" in measured.note.lower():
        keys = keys | {"graphs": "step"}
    if "1f1b overlap" in measured.note.lower():
        keys = keys | {"overlap_experts": True, "fused_experts": True}
    # No recipe of a model with experts has userbuffers: CommOverlapConfig(tp_comm_overlap=False) of
    # recipes/{deepseek,qwen,glm}/*.py of Megatron-Bridge.
    if keys.get("overlap_tensor") == "pieces" and "experts" in build_model(measured):
        keys = keys | {"overlap_tensor": "backward"}
    if "bigscience" in measured.source and measured.precision == "bf16":
        keys = keys | {"gradients": "fp32"}
    if "sparse_matmul" in measured.note.lower():
        keys = keys | {"expert_tile": 512}  # wi_tile_fwd_batch_seq of MaxText's base.yml
    if re.search("async ?tp", measured.note.lower()):
        keys = keys | {"overlap_tensor": "pieces"}
    # torchtitan gathers in float8 with one scale only, and AQT quantises what was gathered.
    if re.search("rowwise|int8", measured.precision.lower()):
        keys = keys | {"wide_gathers": True}
    if keys.get("overlap_parameters") and _parse_sharding(measured)["zero"] not in (1, 2):
        keys = keys | {"overlap_parameters": False}  # none is gathered once an iteration
    return keys | ({"sequence_parallel": False} if measured.tensor == 1 else {})


def _build_software(measured: Measurement) -> dict[str, Any]:
    """Return the NPU's keys that depend on the software stack: kernels and launches."""
    keys = dict(_find_entry(measured)[2])
    if "npu.host" in keys and "experts" in build_model(measured):
        keys |= _HOST_OF_EXPERTS
    if "bigscience" in measured.source:
        keys |= _BLOCKING if measured.gpus >= _BLOCKING_GPUS else {}
        keys |= _BEFORE_REPAIR if re.search("; 02-2[0-4];", measured.note) else {}
    for stack, gpu, factor in _ATTENTION:
        if stack in measured.source.lower() and re.search(gpu, measured.gpu.lower()):
            keys["npu.attention_time"] = factor
    return keys


def _find_entry(measured: Measurement) -> tuple[str, dict[str, Any], dict[str, Any]]:
    text = f"{measured.gpu} {measured.source} {measured.note}".lower()
    return next(entry for entry in _STACKS if re.search(entry[0], text))


@dataclass(frozen=True)
class Prediction:
    """The simulated iteration of a measured row."""

    seconds: float
    memory: float  # bytes of the fullest GPU
    reserved: float  # bytes that PyTorch's cache may reserve for them


Changed = Callable[[Config], Config]


def _keep(config: Config) -> Config:
    return config


def predict(measured: Measurement, changed: Changed = _keep) -> Prediction:
    """Simulate a row, with its configuration passed through ``changed``.

    A full pipeline is periodic.  Many micro-batches are therefore extrapolated from two runs: with
    the micro-batches that fill the pipeline, and with one more round, which lasts as long as each
    further round to the picosecond.  Raises :class:`LeftOut` for a row that cannot be simulated.
    """
    n, stages = count_micro_batches(measured), measured.pipeline
    chunks = measured.interleave if stages > 1 else 1
    few = max(stages, 2)  # one micro-batch has no gradients to add up
    more = few + (stages if chunks > 1 else 1)
    try:
        if n <= more:
            return simulate_row(measured, n, changed)
        first, second = (simulate_row(measured, some, changed) for some in (few, more))
    except DimsweepError as error:
        raise LeftOut(str(error)) from error
    each = (second.seconds - first.seconds) / (more - few)
    return replace(second, seconds=second.seconds + (n - more) * each)


def simulate_row(measured: Measurement, micro_batches: int, changed: Changed = _keep) -> Prediction:
    """Simulate a row with the given micro-batches per replica."""
    result = simulate(changed(configure(measured, micro_batches)))
    footprint = result.program.workload.footprint
    assert footprint is not None
    return Prediction(result.time, footprint.total, footprint.reserved)
