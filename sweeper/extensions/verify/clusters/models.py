"""What a table does not print of a model: its family's habits, by the model's name."""

import re
from dataclasses import replace
from typing import Any

from dimsweep.sweeper.extensions.verify.clusters.measurements import LeftOut, Measurement

_GPT = {"bias": True, "tied": True, "positions": True, "dropout": True, "gated": False}
_LLAMA = {"bias": False, "tied": False, "positions": False, "dropout": False, "gated": True}
_PLAIN = {**_LLAMA, "gated": False}  # squared ReLU, two matrices
_HEADS_OF_128 = {"head_size": 128}

_LATENT = {"head_size": 128, "query_rank": 1536, "kv_rank": 512, "rope": 64}
_DEEPSEEK_2 = _LLAMA | _LATENT | {
    "experts": 160, "top_k": 6, "expert_ffn": 1536, "shared_experts": 2, "dense_layers": 1,
}  # fmt: skip
_DEEPSEEK_3 = _LLAMA | _LATENT | {
    "experts": 256, "top_k": 8, "expert_ffn": 2048, "shared_experts": 1, "dense_layers": 3,
}  # fmt: skip

# By name: the family, for reports, and keys of engine.workload.models.Transformer; the first
# match counts.
_MODELS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    # MosaicML's: ALiBi, no biases, one matrix for embedding and logits.
    ("mpt", "MPT", {**_PLAIN, "tied": True}),
    ("qwen3.*30b", "Qwen3 MoE", _LLAMA | _HEADS_OF_128 | {"experts": 128, "top_k": 8, "ffn": 768}),
    (
        "qwen3.*235b",
        "Qwen3 MoE",
        _LLAMA | _HEADS_OF_128 | {"experts": 128, "top_k": 8, "ffn": 1536},
    ),
    (
        "gpt.?oss.*120b",
        "GPT-OSS",
        _LLAMA
        | {"bias": True, "head_size": 64, "experts": 128, "top_k": 4, "clamped": True}
        | {"window": 128, "window_pattern": 2},
    ),
    ("deepseek.?v2", "DeepSeek", _DEEPSEEK_2),
    # A model cut to four layers keeps one dense layer of its three.
    ("deepseek.?v3.*cut", "DeepSeek", _DEEPSEEK_3 | {"dense_layers": 1}),
    ("deepseek.?v3", "DeepSeek", _DEEPSEEK_3),
    ("kimi.?k2", "Kimi", _DEEPSEEK_3 | {"experts": 384, "dense_layers": 1}),
    ("mixtral", "Mixtral", _LLAMA | {"experts": 8, "top_k": 2}),
    ("llama", "Llama", _LLAMA),
    ("qwen|mistral|deepseek|olmo|yi-|granite|phi|internlm|baichuan", "Llama", _LLAMA),
    ("gemma", "Llama", _LLAMA | {"tied": True}),
    ("nemotron.?(4.)?(8|15|22|340)b", "Nemotron", {**_PLAIN, "vocabulary": 256000}),
    ("gpt|^opt", "GPT", _GPT),
    (r"\d+b", "GPT", _GPT),
)
# Habits of a stack's own models, whatever their family's: in Sailor's copy of Megatron-DeepSpeed
# attention drops nothing out, linear layers skip their biases, and logits have a matrix of their
# own (megatron/model/{opt_model,gpt_neo_model}.py).
_OF_STACKS: dict[str, dict[str, Any]] = {
    "ai-hypercomputer/maxtext": _LLAMA | _HEADS_OF_128,
    "maxtext": {"dropout": False},  # dropout_rate of src/MaxText/configs/base.yml
    "eth-easl/sailor": {"tied": False, "dropout": False, "bias": False},
}
# Before 2023 scores were computed and stored; so they are without flash attention.
_STORED_SCORES = ("bigscience", "images/scaling", "2020", "2021", "2022", "eth-easl/sailor")


def family(measured: Measurement) -> str:
    """The family of models that it belongs to; raises :class:`LeftOut` for none that is known."""
    return _entry(measured)[1]


def model_keys(measured: Measurement) -> dict[str, Any]:
    """The keys of ``workload.model``; raises :class:`LeftOut` for a model that is not known."""
    keys, shape = _entry(measured)[2], measured.shape
    if measured.latent and "kv_rank" not in keys:
        raise LeftOut("the ranks of its latent attention (MLA) are not known")
    if measured.expert > 1 and "experts" not in keys:
        raise LeftOut(f"it has {measured.expert} expert-parallel ranks, but no experts are known")
    own = {name: shape[name] for name in ("hidden", "layers", "heads", "kv_heads", "ffn")}
    own |= {"sequence": shape["sequence"], "vocabulary": shape["vocab"] or 51200}
    flash = not any(mark in measured.source for mark in _STORED_SCORES)
    habits = (own for source, own in _OF_STACKS.items() if source in measured.source.lower())
    further = {"mtp_layers": 1} if _predicts_further(measured) else {}
    return {"family": "transformer", "flash": flash, **own, **keys, **further, **next(habits, {})}


def _predicts_further(measured: Measurement) -> bool:
    """Whether it is trained to predict the token after the next one: DeepSeek-V3 in
    Megatron-Bridge is, unless its name says that it is not (mtp_num_layers of its recipes)."""
    name = measured.model.lower()
    bridge = "Megatron-Bridge" in measured.source
    return bridge and bool(re.search("deepseek.?v3", name)) and "w/o mtp" not in name


def with_seconds(measured: Measurement) -> Measurement:
    """The row with the seconds that its FLOP/s stand for.

    Megatron-LM's count: a multiply-add is two, the backward pass twice the forward pass, all scores
    of the attention, and the logits (Narayanan et al., SC 2021, for the rate with recomputation:
    one forward pass more, of the layers only).
    """
    if measured.rate is None:
        return measured
    keys = model_keys(measured)
    hidden, layers, tokens = keys["hidden"], keys["layers"], measured.batch * keys["sequence"]
    size = keys.get("head_size") or hidden // keys["heads"]
    queries, groups = size * keys["heads"], keys["kv_heads"] or keys["heads"]
    attention = 2 * queries * (1 + groups / keys["heads"]) * hidden + 2 * keys["sequence"] * queries
    inner = keys["ffn"] or 4 * hidden
    feed = inner * hidden * (3 if keys["gated"] else 2) * keys.get("top_k", 1)
    logits = hidden * keys["vocabulary"]
    passes = 4 if measured.counts_recomputation else 3
    flops = 2.0 * tokens * (passes * layers * (attention + feed) + 3 * logits)
    return replace(measured, seconds=flops / measured.rate / measured.gpus)


def _entry(measured: Measurement) -> tuple[str, str, dict[str, Any]]:
    name = measured.model.lower().replace("_", " ")
    for entry in _MODELS:
        if re.search(entry[0], name):
            return entry
    raise LeftOut(f"the model {measured.model!r} is not known")
