"""Logs of Megatron-LM and torchtitan: the plan of a training run and how fast it was.

Both print the plan at the beginning of a run and the speed of every few iterations.  A log may hold
several runs, and every line may have a prefix (of Slurm, torchrun or a logger).
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.formats.content import read_text

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_ARGUMENT = re.compile(r"(\w+) \.{2,} ?(.*)$")  # Megatron: "  hidden_size ............ 4096"
_ITERATION = re.compile(r"iteration +\d+/ *\d+ \|.*elapsed time per iteration \(ms\): ([\d.]+)")
_BATCH = re.compile(r"global batch size: *(\d+)")
_STEP = re.compile(r"\bstep: +\d+ .*\btps: ([\d,]+)")
_MESH = re.compile(r"Building (?:\d+-D )?device mesh with (.*)")
_START = re.compile(
    r"Training starts at step \d+, with local batch size (\d+), global batch size (\d+),.*?"
    r"sequence length (\d+)"
)
_MODEL = re.compile(r"Building .*ModelArgs\((.*)\)")
_RECOMPUTED = re.compile(r"Applied (selective|full) activation checkpointing")
_PIECES = re.compile(r"Using pipeline schedule .* with (\d+) microbatches")
_FLOAT8 = re.compile(r"Float8 training active|Swapped to Float8Linear")

_PARALLEL = "workload.parallel."
_PLAN = "workload.plan."
_MODEL_KEY = "workload.model."
# Megatron's arguments that are whole numbers, each with its key.  Axes stand in Megatron's order,
# innermost first; the data-parallel axis takes what they leave.
_NUMBERS = {
    "tensor_model_parallel_size": _PARALLEL + "tensor",
    "expert_model_parallel_size": _PARALLEL + "expert",
    "context_parallel_size": _PARALLEL + "context",
    "pipeline_model_parallel_size": _PARALLEL + "pipeline",
    "micro_batch_size": _PLAN + "micro_batch",
    "global_batch_size": _PLAN + "batch",
    "virtual_pipeline_model_parallel_size": _PLAN + "interleave",
    "num_layers": _MODEL_KEY + "layers",
    "hidden_size": _MODEL_KEY + "hidden",
    "ffn_hidden_size": _MODEL_KEY + "ffn",
    "num_attention_heads": _MODEL_KEY + "heads",
    "seq_length": _MODEL_KEY + "sequence",
    "padded_vocab_size": _MODEL_KEY + "vocabulary",
    "num_experts": _MODEL_KEY + "experts",
    "moe_router_topk": _MODEL_KEY + "top_k",
    "moe_ffn_hidden_size": _MODEL_KEY + "expert_ffn",
}
# torchtitan's names of the dimensions of its mesh.  Its replicas and shards are what is left.
_AXES = {"tp": "tensor", "ep": "expert", "cp": "context", "pp": "pipeline"}
_REPLICAS = ("dp", "dp_replicate", "dp_shard")


@dataclass
class TrainingRun:
    """One run in a log.

    ``settings`` are keys of the configuration with the values that the log prints.  ``seconds``
    holds what each printed iteration took; ``rates`` tokens/s of one GPU, if it prints those.
    """

    line: int
    pieces: int = 1  # micro-batches that torchtitan's pipeline cuts the local batch into
    settings: dict[str, Any] = field(default_factory=dict)
    gpus: int | None = None
    seconds: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)

    def iteration(self) -> float:
        """Return the median seconds of an iteration after the first printed one, which compiles.

        Raises :class:`DimsweepError` if the log prints rates without batch or number of GPUs.
        """
        if self.seconds:
            return median(self.seconds[1:] or self.seconds)
        batch = self.settings.get(_PLAN + "batch")
        sequence = self.settings.get(_MODEL_KEY + "sequence")
        if batch is None or sequence is None or self.gpus is None:
            raise DimsweepError(
                "tokens per second alone do not say how long an iteration took",
                hint="keep the lines 'Building device mesh ...' and 'Training starts at ...'",
            )
        return float(batch * sequence / (median(self.rates[1:] or self.rates) * self.gpus))


def is_training_log(text: str) -> bool:
    """Return whether Megatron-LM or torchtitan printed a text, by its lines of iterations."""
    text = _COLOUR.sub("", text)
    return bool(_ITERATION.search(text) or _STEP.search(text))


def read_training_log(path: Path) -> list[TrainingRun]:
    """Return the runs of a log that printed at least one iteration.

    Raises :class:`DimsweepError` naming the file if it holds none.
    """
    runs: list[TrainingRun] = []
    arguments: dict[str, str] = {}
    for number, line in enumerate(read_text(path, "training log").splitlines(), 1):
        line = _COLOUR.sub("", line).rstrip()
        begins = line.endswith(" arguments ------------------------") or _MESH.search(line)
        if begins or not runs:
            runs.append(TrainingRun(number))
            arguments = {}
        if found := _ARGUMENT.search(line):
            arguments[found[1]] = found[2].strip()
        elif found := _ITERATION.search(line):
            _take_arguments(runs[-1], arguments)
            _take_iteration(runs[-1], float(found[1]) / 1e3, _BATCH.search(line))
        else:
            _take_titan(runs[-1], line)
    measured = [run for run in runs if run.seconds or run.rates]
    if not measured:
        raise DimsweepError("no iteration was printed", where=str(path))
    return measured


def _take_iteration(run: TrainingRun, seconds: float, batch: re.Match[str] | None) -> None:
    """Add an iteration; one of another batch (while the batch ramps up) replaces those before."""
    if batch is not None and run.settings.get(_PLAN + "batch") != int(batch[1]):
        run.settings[_PLAN + "batch"] = int(batch[1])
        run.seconds.clear()
    if seconds > 0:
        run.seconds.append(seconds)


def _take_arguments(run: TrainingRun, arguments: dict[str, str]) -> None:
    """Move Megatron's arguments to the settings of a run."""
    for name, key in _NUMBERS.items():
        if arguments.get(name, "").isdecimal():
            run.settings[key] = int(arguments[name])
    if arguments.get("world_size", "").isdecimal():
        run.gpus = int(arguments["world_size"])
    run.settings |= dict(_derived(arguments))
    experts, tensor = (run.settings.get(_PARALLEL + axis, 1) for axis in ("expert", "tensor"))
    if arguments.get("expert_tensor_parallel_size") == "1" and experts % tensor == 0 and tensor > 1:
        # Each rank of the tensor-parallel axis holds whole experts of its own.
        run.settings |= {_PARALLEL + "expert": experts // tensor, _PLAN + "whole_experts": True}
    arguments.clear()


def _derived(arguments: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    """Yield the settings that Megatron's arguments say by names or by true and false."""

    def is_set(name: str) -> bool:
        return arguments.get(name) == "True"

    said: tuple[tuple[str, str, Callable[[], Any]], ...] = (
        ("sequence_parallel", _PLAN + "sequence_parallel", lambda: is_set("sequence_parallel")),
        ("recompute_granularity", _PLAN + "recompute", lambda: _recompute(arguments)),
        ("use_distributed_optimizer", _PLAN + "zero", lambda: +is_set("use_distributed_optimizer")),
        ("bf16", _PLAN + "precision", lambda: _precision(arguments)),
        ("swiglu", _MODEL_KEY + "gated", lambda: is_set("swiglu")),
        ("add_bias_linear", _MODEL_KEY + "bias", lambda: is_set("add_bias_linear")),
        (
            "untie_embeddings_and_output_weights",
            _MODEL_KEY + "tied",
            lambda: not is_set("untie_embeddings_and_output_weights"),
        ),
    )
    for name, key, value in said:
        if name in arguments:
            yield key, value()
    if "group_query_attention" in arguments:
        queries = arguments.get("num_query_groups" if is_set("group_query_attention") else "")
        yield _MODEL_KEY + "kv_heads", int(queries) if queries and queries.isdecimal() else 0


def _recompute(arguments: Mapping[str, str]) -> str:
    granularity = arguments["recompute_granularity"]
    return granularity if granularity in ("selective", "full") else "none"


def _precision(arguments: Mapping[str, str]) -> str:
    if arguments.get("fp8", "None") not in ("None", "False"):
        return "fp8"
    return next((name for name in ("bf16", "fp16") if arguments.get(name) == "True"), "fp32")


def _take_titan(run: TrainingRun, line: str) -> None:
    """Add what a line of torchtitan says to a run."""
    if found := _STEP.search(line):
        if (rate := float(found[1].replace(",", ""))) > 0:
            run.rates.append(rate)
    elif found := _MESH.search(line):
        run.gpus = _take_mesh(run.settings, found[1])
    elif found := _START.search(line):
        run.settings[_PLAN + "micro_batch"] = max(1, int(found[1]) // run.pieces)
        run.settings[_PLAN + "batch"] = int(found[2])
        run.settings[_MODEL_KEY + "sequence"] = int(found[3])
    elif found := _MODEL.search(line):
        run.settings |= _titan_model(found[1])
    elif found := _RECOMPUTED.search(line):
        run.settings[_PLAN + "recompute"] = found[1]
    elif found := _PIECES.search(line):
        run.pieces = max(1, int(found[1]))  # printed before the line of the start
    elif "Applied FSDP" in line or "Applied HSDP" in line:
        run.settings[_PLAN + "zero"] = 3
    elif _FLOAT8.search(line):
        run.settings[_PLAN + "precision"] = "fp8"


def _take_mesh(settings: dict[str, Any], text: str) -> int:
    """Set the degrees of a mesh and return its number of GPUs.

    The text is ``['dp_shard', 'tp'], [4, 2]`` or ``parallelism: dp_shard=4, tp=2, ...``.
    """
    names = re.findall(r"'(\w+)'", text) or re.findall(r"(\w+)=", text)
    degrees = map(int, re.findall(r"\b\d+\b", text))
    mesh = dict(zip(names, degrees, strict=False))
    settings |= {_PARALLEL + axis: mesh.get(name, 1) for name, axis in _AXES.items()}
    settings[_PLAN + "recompute"] = "none"  # unless a later line says otherwise
    gpus = 1
    for name in ("tp", "pp", "cp", *_REPLICAS):  # experts share the GPUs of the others
        gpus *= max(1, mesh.get(name, 1))
    return gpus


def _titan_model(text: str) -> dict[str, Any]:
    """Return the settings of a dense model of torchtitan, and none for another."""
    found = dict(re.findall(r"(\w+)=([\d.]+)\b", text))
    if not {"dim", "n_layers", "n_heads", "multiple_of"} <= found.keys():
        return {}
    wide = int(8 * int(found["dim"]) / 3)
    wide = int(float(found.get("ffn_dim_multiplier", 1)) * wide)
    unit = int(found["multiple_of"])
    settings = {
        "hidden": int(found["dim"]),
        "layers": int(found["n_layers"]),
        "heads": int(found["n_heads"]),
        "kv_heads": int(found.get("n_kv_heads", 0)),
        "ffn": -(-wide // unit) * unit,
        "vocabulary": int(found.get("vocab_size", 0)),
    }
    return {_MODEL_KEY + name: value for name, value in settings.items() if value}
