"""What Megatron-Bridge's recipes say of plans, and its tables of measurements do not print.

From scripts/performance/configs of NVIDIA-NeMo/Megatron-Bridge (presets V1 and V2 of 2025 and
2026), by model, GPU and expert-parallel ranks.  They were looked up because these rows were far
off, so how well the rows are met since then judges less than rows of other sources do.
"""

import re
from typing import Any

from sweeper.verify.clusters.measurements import Measurement

_ALL = {"gradients": "bf16"}  # grad_reduce_in_fp32 is off
_BY_NODE = {"experts_by_node": True}  # the flex dispatcher: DeepEP, HybridEP
_OVERLAP = {"overlap_experts": True}  # moe_a2a_overlap
_MADE_AGAIN = {"recompute_modules": ["activation", "norm"]}  # layernorm, moe_act
# Model, GPU, expert-parallel ranks; the first that matches counts.
_RECIPES: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
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
    values = (measured.model, measured.gpu, str(measured.expert))
    for *patterns, keys in _RECIPES:
        if all(re.search(p, v.lower()) for p, v in zip(patterns, values, strict=True)):
            return _ALL | keys
    return _ALL
