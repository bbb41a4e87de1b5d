"""A row's configuration: its machine, its model, and its plan as the stack that ran it would."""

import re
from typing import Any

from sweeper.config.schema import Config
from sweeper.verify.clusters.measurements import LeftOut, Measurement
from sweeper.verify.clusters.models import model_keys
from sweeper.verify.clusters.recipes import in_graphs, recipe
from sweeper.verify.clusters.systems import system_of

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
_TORCHTITAN = {"sequence_parallel": True, "overlap_tensor": "none", "gradients": "fp32"}
_MEGATRON = {"sequence_parallel": True, "overlap_tensor": "pieces", "gradients": "fp32"}
_STACKS: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
    # Megatron-DeepSpeed: gradients are exchanged after the last backward pass, messages block.
    (
        "bigscience",
        {
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
    (
        "images/scaling",
        {
            "sequence_parallel": False,
            "overlap_gradients": False,
            "overlap_tensor": "none",
            "gradients": "bf16",
        },
        {},
    ),
    ("launcher", {"sequence_parallel": True, "gradients": "fp32"}, _EAGER),
    (
        "simumax",  # its rows say "overlap paths off"
        {
            "sequence_parallel": True,
            "overlap_gradients": False,
            "overlap_tensor": "none",
            "gradients": "fp32",
        },
        _HOST,
    ),
    ("llm-foundry", {"gradients": "bf16"}, _EAGER),
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
_ORDER = ("tensor", "expert", "context", "data", "pipeline")  # Megatron's, innermost first


def n_micro_batches(measured: Measurement) -> int:
    """Of each replica; raises :class:`LeftOut` where the batch does not divide."""
    n, rest = divmod(measured.batch, measured.data * _micro_batch(measured))
    if rest or not n:
        raise LeftOut(
            f"a batch of {measured.batch} is no number of micro-batches of {measured.micro_batch} "
            f"for {measured.data} replicas"
        )
    return n


def configure(measured: Measurement, micro_batches: int) -> Config:
    """The configuration that simulates a row with so many micro-batches of each replica.

    Raises :class:`LeftOut` for what cannot be simulated.
    """
    system = system_of(measured)
    shape = system.shape(measured.gpus)
    network, n_dims = system.config.text["topology"], shape.count("(")
    plan = {
        "batch": None,
        "micro_batches": micro_batches,
        "micro_batch": _micro_batch(measured),
        "interleave": measured.interleave if measured.pipeline > 1 else 1,
        "precision": _precision(measured),
        "recompute": _recompute(measured),
        "recompute_modules": _modules(measured),
        "whole_experts": measured.expert > 1 and measured.tensor > 1,
        **_sharding(measured),
        **_stack(measured),
    }
    return system.config.changed(
        {
            "topology.shape": shape,
            **{
                f"topology.{name}": network[name][:n_dims]
                for name in ("bandwidth", "latency", "tiers")
            },
            "workload.name": measured.model,
            "workload.model": model_keys(measured),
            "workload.parallel": _parallel(measured),
            "workload.plan": {**system.config.text["workload"]["plan"], **plan},
            **_software(measured),
        }
    )


def _micro_batch(measured: Measurement) -> int:
    """torchtitan prints the batch of a replica, which a pipeline runs one sequence at a time."""
    runs_singly = "torchtitan" in measured.source and measured.pipeline > 1
    return 1 if runs_singly else measured.micro_batch


def _parallel(measured: Measurement) -> dict[str, int]:
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


def _precision(measured: Measurement) -> str:
    text = measured.precision.lower()
    if "fp4" in text:
        return "nvfp4"
    if re.search("mxfp8|fp8-mx", text.split("(")[0]):
        return "mxfp8"
    return "fp8" if re.search("fp8|float8", text) else "bf16"


def _recompute(measured: Measurement) -> str:
    text = measured.recompute.lower()
    if "torchtitan" in measured.source and "full" not in text:
        return "none"  # its selection is one of modules
    for word in ("full", "selective"):
        if text.startswith(word):
            return word
    return "full" if re.match("yes|true|all|activation checkpointing", text) else "none"


def _modules(measured: Measurement) -> list[str]:
    """What Megatron computes again by itself, as tables write it: "norm, act"."""
    words = re.split(r"[^a-z]+", measured.recompute.lower())
    if "torchtitan" in measured.source and "selective" in words:
        return ["activation", "linear", "norm"]
    names = {"norm": "norm", "layernorm": "norm", "act": "activation"}
    return sorted({names[word] for word in words if word in names})


def _sharding(measured: Measurement) -> dict[str, Any]:
    """What the replicas divide among themselves; FSDP exchanges a block at once."""
    text = measured.sharding.lower()
    stage = re.search(r"zero.(\d)|^(\d)", text)
    if stage:
        zero = int(stage[1] or stage[2])
    elif re.search(r"fsdp2? ?([1-9]|on)", text):
        zero = 3
    else:
        zero = 1 if re.search("distributed|zero-1|fsdp 0|fsdp /", text) else 0
    return {"zero": zero} | ({"bucket": "1 TB"} if zero >= 2 else {})


def _stack(measured: Measurement) -> dict[str, Any]:
    keys = _entry(measured)[1]
    if "Megatron-Bridge" in measured.source:
        keys = keys | recipe(measured)
    if "fsdp" in measured.sharding.lower() and keys == _MEGATRON:
        keys = keys | {"gradients": "bf16"}  # Megatron-FSDP's user guide
    if re.search("deepep", measured.note.lower()):
        keys = keys | {"experts_by_node": True}
    if "bigscience" in measured.source and measured.precision == "bf16":
        keys = keys | {"gradients": "fp32"}
    if re.search("async ?tp", measured.note.lower()):
        keys = keys | {"overlap_tensor": "pieces"}
    if "rowwise" in measured.precision.lower():
        keys = keys | {"wide_gathers": True}  # torchtitan gathers in float8 with one scale only
    return keys | ({"sequence_parallel": False} if measured.tensor == 1 else {})


def _software(measured: Measurement) -> dict[str, Any]:
    """What the stack makes of the GPU: its kernels, and how it launches them."""
    keys = dict(_entry(measured)[2])
    if "npu.host" in keys and "experts" in model_keys(measured):
        keys |= _HOST_OF_EXPERTS
    if "Megatron-Bridge" in measured.source and in_graphs(measured):
        del keys["npu.host"]
    if "bigscience" in measured.source:
        keys |= _BLOCKING if measured.gpus >= _BLOCKING_GPUS else {}
        keys |= _BEFORE_REPAIR if re.search("; 02-2[0-4];", measured.note) else {}
    if re.search("gpt.?oss", measured.model.lower()):
        # No fused kernel adds its experts' biases and clamps their activations.
        keys["npu.memory_efficiency"] = _EAGER["npu.memory_efficiency"]
    for stack, gpu, factor in _ATTENTION:
        if stack in measured.source.lower() and re.search(gpu, measured.gpu.lower()):
            keys["npu.attention_time"] = factor
    return keys


def _entry(measured: Measurement) -> tuple[str, dict[str, Any], dict[str, Any]]:
    text = f"{measured.source} {measured.note}".lower()
    return next(entry for entry in _STACKS if re.search(entry[0], text))
