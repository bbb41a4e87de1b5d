"""What Megatron-Bridge's recipes say of plans, and its tables of measurements do not print.

``recipes.yaml`` has them, by model, GPU, precision, release and expert-parallel ranks.  They were
looked up because these rows were far off, so how well the rows are met since then judges less than
rows of other sources do.
"""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.extensions.verify.clusters.measurements import LeftOut, Measurement

_TABLE = Path(__file__).with_name("recipes.yaml")
_PATTERNS = ("model", "gpu", "precision", "experts")
_KEYS = {*_PATTERNS, "from", "until", "source", "plan", "npu", "graphs"}
# grad_reduce_in_fp32 is off, and a bucket has 128 Mi parameters (training/comm_overlap.py).
_ALL = {"gradients": "bf16"}
_FEW_GPUS = re.compile("llama.*70b")  # LLAMA3_70B_LORA_CONFIG_* alone run on 8 GPUs
_KNOWN_ISSUE = "[^gpt-oss-note]"  # "Performance regression ... is a known issue", says its footnote


def recipe(measured: Measurement) -> tuple[dict[str, Any], dict[str, Any]]:
    """Keys of workload.plan, and of npu, for a row of Megatron-Bridge's tables.

    Raises :class:`LeftOut` for what is no ordinary run.
    """
    if _FEW_GPUS.search(measured.model.lower()) and measured.gpus == 8:
        raise LeftOut("it trains adapters of low rank (LoRA), which are not simulated")
    if _KNOWN_ISSUE in measured.note:
        raise LeftOut("its source says that a known issue of the release slowed it down")
    for entry in entries():
        if "plan" in entry and _matches(entry, measured):
            own = {f"npu.{name}": value for name, value in entry.get("npu", {}).items()}
            return _ALL | entry["plan"], own
    return dict(_ALL), {}


@cache
def entries() -> tuple[Mapping[str, Any], ...]:
    """The table's recipes, in their order.  Raises :class:`DimsweepError` for one that has other
    keys, or no source."""
    found = tuple(yaml.safe_load(_TABLE.read_text(encoding="utf-8")))
    for number, entry in enumerate(found):
        unknown = sorted({*entry} - _KEYS)
        if unknown or "source" not in entry or not {"plan", "graphs"} & {*entry}:
            lacks = "it lacks its source, or its plan or graphs"
            what = f"it has {', '.join(unknown)}" if unknown else lacks
            raise DimsweepError(what, where=f"{_TABLE.name}, entry {number + 1}")
    return found


def _matches(entry: Mapping[str, Any], measured: Measurement) -> bool:
    cells = (measured.model, measured.gpu, measured.precision, str(measured.expert))
    patterns = zip(_PATTERNS, cells, strict=True)
    if not all(re.search(str(entry.get(name, "")), cell.lower()) for name, cell in patterns):
        return False
    when = release(measured)
    return (when or entry.get("from", "")) >= entry.get("from", "") and when <= entry.get(
        "until", "~"
    )


def release(measured: Measurement) -> str:
    """The NeMo container that a row's source names, such as 26.04; empty if it names none."""
    found = re.search(r"\[(\d+\.\d+)", measured.source)
    return found[1] if found else ""


def in_graphs(measured: Measurement) -> bool:
    """Whether CUDA graphs hold the layers, attention and router among them, so that the host issues
    few kernels by itself: those of small or NVFP4 Llama models on Blackwell, and those of layers
    with experts as the table says."""
    model, blackwell = measured.model.lower(), "h100" not in measured.gpu.lower()
    if "llama" in model:
        return blackwell and ("8b" in model or "fp4" in measured.precision.lower())
    return any(entry.get("graphs") and _matches(entry, measured) for entry in entries())
