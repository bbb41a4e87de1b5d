"""What a table does not print of a model: its family's habits, by the model's name."""

import re
from typing import Any

from sweeper.verify.clusters.measurements import LeftOut, Measurement

_GPT = {"bias": True, "tied": True, "positions": True, "dropout": True, "gated": False}
_LLAMA = {"bias": False, "tied": False, "positions": False, "dropout": False, "gated": True}
_PLAIN = {**_LLAMA, "gated": False}  # squared ReLU, two matrices
_HEADS_OF_128 = {"head_size": 128}

# By name: the family, for reports, and keys of engine.model.Transformer; the first match counts.
_MODELS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    # MosaicML's: ALiBi, no biases, one matrix for embedding and logits.
    ("mpt", "MPT", {**_PLAIN, "tied": True}),
    ("qwen3.*30b", "Qwen3 MoE", _LLAMA | _HEADS_OF_128 | {"experts": 128, "top_k": 8, "ffn": 768}),
    (
        "qwen3.*235b",
        "Qwen3 MoE",
        _LLAMA | _HEADS_OF_128 | {"experts": 128, "top_k": 8, "ffn": 1536},
    ),
    ("gpt.?oss.*120b", "GPT-OSS", _LLAMA | {"head_size": 64, "experts": 128, "top_k": 4}),
    ("mixtral", "Mixtral", _LLAMA | {"experts": 8, "top_k": 2}),
    ("llama", "Llama", _LLAMA),
    ("nemotron.(8|15|22|340)b", "Nemotron", {**_PLAIN, "vocabulary": 256000}),
    ("gpt", "GPT", _GPT),
    (r"\d+b", "GPT", _GPT),
)
# Before 2023 scores were computed and stored.
_STORED_SCORES = ("bigscience", "images/scaling", "2020", "2021", "2022")


def family(measured: Measurement) -> str:
    """The family of models that it belongs to; raises :class:`LeftOut` for none that is known."""
    return _entry(measured)[1]


def model_keys(measured: Measurement) -> dict[str, Any]:
    """The keys of ``workload.model``; raises :class:`LeftOut` for a model that is not known."""
    keys, shape = _entry(measured)[2], measured.shape
    if measured.latent:
        raise LeftOut("its attention is latent (MLA), which is not modelled")
    if measured.expert > 1 and "experts" not in keys:
        raise LeftOut(f"it has {measured.expert} expert-parallel ranks, but no experts are known")
    own = {name: shape[name] for name in ("hidden", "layers", "heads", "kv_heads", "ffn")}
    own |= {"sequence": shape["sequence"], "vocabulary": shape["vocab"] or 51200}
    flash = not any(mark in measured.source for mark in _STORED_SCORES)
    return {"family": "transformer", "flash": flash, **own, **keys}


def _entry(measured: Measurement) -> tuple[str, str, dict[str, Any]]:
    name = measured.model.lower().replace("_", " ")
    for entry in _MODELS:
        if re.search(entry[0], name):
            return entry
    raise LeftOut(f"the model {measured.model!r} is not known")
