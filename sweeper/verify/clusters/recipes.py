"""What Megatron-Bridge's recipes say of plans, and its tables of measurements do not print.

From scripts/performance/configs of NVIDIA-NeMo/Megatron-Bridge (presets V1 and V2 of 2025 and
2026), by model, GPU and expert-parallel ranks.  They were looked up because these rows were far
off, so how well the rows are met since then judges less than rows of other sources do.
"""

import re
from typing import Any

from sweeper.verify.clusters.measurements import LeftOut, Measurement

_ALL = {"gradients": "bf16"}  # grad_reduce_in_fp32 is off
_BY_NODE = {"experts_by_node": True}  # the flex dispatcher: DeepEP, HybridEP
_OVERLAP = {"overlap_experts": True}  # moe_a2a_overlap
_MADE_AGAIN = {"recompute_modules": ["activation", "norm"]}  # layernorm, moe_act
_FEW_GPUS = re.compile("llama.*70b")  # LLAMA3_70B_LORA_CONFIG_* alone run on 8 GPUs
# Model, GPU and release, expert-parallel ranks; the first that matches counts.
_RECIPES: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    (
        "qwen3.?235",
        r"h100.*\[25\.09",
        "",
        {},
    ),  # before the overlap of experts, with that of tensors
    ("deepseek.?v3", "h100", "", _BY_NODE | _OVERLAP),
    ("deepseek.?v3", "b200", "^32$", _BY_NODE | _OVERLAP),
    ("deepseek|kimi", "", "", _BY_NODE),
    ("qwen3.?235", "h100", "", _OVERLAP | {"overlap_tensor": "backward"}),
    ("qwen3.?235", "gb", "", _BY_NODE),
    ("qwen3.?235", "", "", {}),
    ("qwen3", "", "", _BY_NODE),
    ("gpt.?oss", "gb300|b300", "", {}),
    ("gpt.?oss", "", "", _MADE_AGAIN),
)


def recipe(measured: Measurement) -> dict[str, Any]:
    """Keys of workload.plan for a row of Megatron-Bridge's tables."""
    if _FEW_GPUS.search(measured.model.lower()) and measured.gpus == 8:
        raise LeftOut("it trains adapters of low rank (LoRA), which are not simulated")
    release = re.search(r"\[.*", measured.source)
    where = measured.gpu + (release[0] if release else "")
    values = (measured.model, where, str(measured.expert))
    for *patterns, keys in _RECIPES:
        if all(re.search(p, v.lower()) for p, v in zip(patterns, values, strict=True)):
            return _ALL | keys
    return _ALL


def in_graphs(measured: Measurement) -> bool:
    """Whether CUDA graphs hold the layers, so that the host issues few kernels by itself: those of
    small or NVFP4 Llama models on Blackwell, and those of layers with experts from 26.04 on."""
    model, blackwell = measured.model.lower(), "h100" not in measured.gpu.lower()
    if "llama" in model:
        return blackwell and ("8b" in model or "fp4" in measured.precision.lower())
    return not re.search(r"\[25\.|\[26\.02", measured.source)
