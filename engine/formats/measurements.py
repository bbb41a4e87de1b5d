"""Measured times in files of other tools: of kernels, of collectives, of training iterations.

Kernels are in a table, collectives in the text or JSON that nccl-tests print or in a table, and
iterations in the logs of Megatron-LM and torchtitan.
"""

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from pydantic import BaseModel

from dimsweep.engine import units
from dimsweep.engine.cluster.cluster import Timing, Timings
from dimsweep.engine.errors import DimsweepError, naming_place
from dimsweep.engine.formats.reading import (
    delimiter_of,
    first_line,
    read_json,
    read_table,
    read_text,
    validated,
)
from dimsweep.engine.kinds import CollectiveKind


def read_measured(file: Path) -> dict[str, int]:
    """Return the measured picoseconds of each kernel in a table, by the kernel's name.

    Durations in the table have units, such as 12.5 us. Raises :class:`DimsweepError` naming file
    and line.
    """
    measured: dict[str, int] = {}
    for where, row in read_table(file, ("kernel", "duration")):
        name = row["kernel"]
        if not name or name in measured:
            problem = f"kernel {name!r} occurs twice" if name else "the kernel has no name"
            raise DimsweepError(problem, where=where, code="duplicate")
        with naming_place(where):
            measured[name] = units.parse_time(row["duration"])
    return measured


# --- nccl-tests -----------------------------------------------------------------------------------

_COLUMNS = ("op", "gpus", "nodes", "bytes", "time_us")
_KINDS = {str(kind): kind for kind in CollectiveKind} | {"alltoall": CollectiveKind.ALL_TO_ALL}
# Tests of nccl-tests and rccl-tests by their names, those that begin with another's name first.
_TEST = re.compile(
    "(all_reduce_bias|all_reduce_group|all_reduce|reduce_scatter|all_gather|alltoallv2|alltoallv|"
    "alltoall|broadcast|reduce|gather|scatter|sendrecv|hypercube|bisection)_perf"
)
_BARE = re.compile(r"(all_reduce|reduce_scatter|all_gather|alltoall)(?!v|_bias|_group)")
_CONCLUDED = "test concluded"  # "# Collective test concluded: all_reduce_perf"
_RANK = re.compile(r"#\s+Rank\s+(\d+)\s+(?:Group\s+(\d+)\s)?.*?\bon\s+(\S+)\s+device\b")
_ROW = re.compile(
    r"(?:^|(?<=[\s:>|\]]))(\d+)\s+\d+\s+[a-z]\w*(?:\s+[a-z]\w*)?\s+(-?\d.*)$", re.ASCII
)
_TIMESTAMP = re.compile(r"\s\d{4}-\d\d-\d\d[ T].*$")  # of nccl-tests -T
_HALF = 4  # columns of the times out of place, and of those in place


def read_nccl_tests(file: Path) -> Timings:
    """Return the measured times of collectives in a file: the output of nccl-tests, or a CSV file.

    The columns of a CSV file are op, gpus, nodes, bytes, time_us, and perhaps others.

    Rows of 0 bytes are left out.  Rows of other tests, such as broadcast, and rows with wrong
    results are left out and counted in ``left_out``.  Raises :class:`DimsweepError` naming file and
    line for text without the name of the collective or its ranks, for rows of several
    kinds of GPU (a column gpu), and for a file without rows.
    """
    text = read_text(file, "file of measurements")
    output = _Output(file)
    if _is_json(text):
        timings = tuple(output.timings_of_json())
    else:
        timings = tuple(_table(file) if _is_table(text) else output.timings(text.splitlines()))
    left_out = ", ".join(f"{n} row{'s' * (n > 1)} {which}" for which, n in output.left_out.items())
    if not timings:
        raise DimsweepError(
            "no collective was measured" + (f", only {left_out}" if left_out else ""),
            where=str(file),
            hint="give the output of nccl-tests, or a CSV file with the columns "
            + ", ".join(_COLUMNS),
            code="missing",
        )
    return Timings(timings, file.name, left_out=left_out)


def is_nccl_tests(text: str) -> bool:
    """Return whether a text has ranks or rows that nccl-tests print, or is their JSON."""
    if _is_json(text):
        return True
    return any(_RANK.search(line) or _Row.from_line(line) for line in text.splitlines())


def _is_json(text: str) -> bool:
    return text.lstrip().startswith("{") and '"results"' in text and '"out_of_place"' in text


def _is_table(text: str) -> bool:
    try:
        head = next(csv.reader([first_line(text)], delimiter=delimiter_of(text)), [])
    except csv.Error:
        return False
    return set(_COLUMNS) <= {name.strip().lower() for name in head}


def _table(file: Path) -> Iterator[Timing]:
    gpu = None
    for where, row in read_table(file, _COLUMNS):
        gpu = gpu or row.get("gpu")
        if row.get("gpu") != gpu:
            raise DimsweepError(
                f"GPU {row.get('gpu')!r} follows {gpu!r}; a cluster has one kind of GPU",
                where=where,
                hint="keep the rows of one cluster",
                code="conflict",
            )
        kind = _KINDS.get(row["op"])
        if kind is None:
            raise DimsweepError(
                f"unknown collective {row['op']!r}; known: {', '.join(_KINDS)}",
                where=where,
                code="unknown-name",
            )
        if row["bytes"] != "0":
            yield _timing(kind, row["gpus"], row["nodes"], row["bytes"], row["time_us"], where)


class _Row(NamedTuple):
    """The text of the columns in use of one row of nccl-tests."""

    n_bytes: str
    us: str
    wrong: str

    @classmethod
    def from_line(cls, line: str) -> "_Row | None":
        """Return the row in a line of nccl-tests' output, or None."""
        found = _ROW.search(line)
        values = _TIMESTAMP.sub("", found[2]).split() if found else []
        if found is None or len(values) not in (_HALF, _HALF + 1, 2 * _HALF, 2 * _HALF + 1):
            return None
        values = values[len(values) % _HALF :]  # without the root
        if values[0] in ("-", "N/A"):  # not measured out of place
            values = values[_HALF:] or values
        return cls(found[1], values[0], values[3])

    def is_wrong(self) -> bool:
        """Return whether results were wrong; older versions print a relative error below 1."""
        try:
            return float(self.wrong) >= 1
        except ValueError:
            return False


class _Device(BaseModel):
    rank: int
    group: int = 0
    hostname: str


class _Speed(BaseModel):
    time: float | None = None  # us
    nwrong: float | None = None


class _Result(BaseModel):
    size: int
    out_of_place: _Speed | None = None
    in_place: _Speed | None = None


class _Config(BaseModel):
    devices: list[_Device] = []


class _File(BaseModel):
    """Schema of the JSON file of nccl-tests' ``--output_file`` (NVIDIA/nccl-tests, util.cu)."""

    args: list[str] = []
    config: _Config = _Config()
    results: list[_Result]


class _Output:
    """Parser of the text or JSON that one or more runs of nccl-tests print."""

    def __init__(self, file: Path) -> None:
        self.left_out = Counter[str]()
        self._file = file
        self._hosts: dict[str, str] = {}  # by rank

    def timings(self, lines: Iterable[str]) -> Iterator[Timing]:
        """Yield the measured times in the lines of nccl-tests' text output.

        The lines that list the ranks precede the rows, as does the name of the test, unless the
        file's name contains it.
        """
        of_file = test = _test_in(self._file.name)
        named, in_rows, seen = None, False, False
        for number, line in enumerate(lines, 1):
            where = f"{self._file}: line {number}"
            if rank := _RANK.search(line):
                if in_rows:  # another output begins
                    self._hosts, in_rows, test = {}, False, of_file
                self._add(rank[1], rank[2], rank[3], where)
            elif row := _Row.from_line(line):
                test, named, in_rows = named or test, None, True
                if test is None and not seen:
                    raise _unnamed(where)
                seen = True
                if row.n_bytes != "0" and self._keeps(row, test):
                    yield self._timing(_KINDS[str(test)], row, where)
            elif _CONCLUDED not in line:
                named = _test_in(line) or named

    def timings_of_json(self) -> Iterator[Timing]:
        """Yield the timings of the file that nccl-tests write with ``--output_file``.

        The time out of place is used, if there is one.
        """
        content = validated(_File, read_json(self._file, "results of nccl-tests"), self._file)
        program = content.args[0] if content.args else ""
        test = _test_in(program) or _test_in(self._file.name)
        for device in content.config.devices:
            self._add(str(device.rank), str(device.group), device.hostname, str(self._file))
        for number, result in enumerate(content.results):
            speed = result.out_of_place or result.in_place or _Speed()
            row = _Row(str(result.size), str(speed.time), str(speed.nwrong))
            where = f"{self._file}: results[{number}]"
            if test is None:
                raise _unnamed(where)
            if result.size and speed.time is not None and self._keeps(row, test):
                yield self._timing(_KINDS[test], row, where)

    def _add(self, number: str, group: str | None, host: str, where: str) -> None:
        if group not in (None, "0"):
            raise DimsweepError(
                "several groups of ranks ran at once",
                where=where,
                hint="run one group of ranks",
                code="unsupported",
            )
        if number in self._hosts:  # an output without rows came before
            self._hosts = {}
        self._hosts[number] = host

    def _keeps(self, row: _Row, test: str | None) -> bool:
        """Return whether a row is a valid measurement of a known collective; if not, count it."""
        if test not in _KINDS:
            self.left_out[f"of {test or 'a test without a name'}"] += 1
        elif row.is_wrong():
            self.left_out["with wrong results"] += 1
        else:
            return True
        return False

    def _timing(self, kind: CollectiveKind, row: _Row, where: str) -> Timing:
        if not self._hosts:
            raise DimsweepError(
                "the ranks of this row are unknown",
                where=where,
                hint="keep the lines '#  Rank 0 ... on HOST device 0' that nccl-tests print first",
                code="missing",
            )
        hosts = self._hosts.values()
        return _timing(kind, len(hosts), len({*hosts}), row.n_bytes, row.us, where)


def _test_in(text: str) -> str | None:
    """Return the last name of a test or collective in ``text``, or None."""
    found = _TEST.findall(text) or _BARE.findall(text)
    return found[-1] if found else None


def _unnamed(where: str) -> DimsweepError:
    return DimsweepError(
        "the collective of this row is unknown",
        where=where,
        hint="a line before it, or the file's name, must contain all_reduce, all_gather, "
        "reduce_scatter or alltoall",
        code="missing",
    )


def _timing(
    kind: CollectiveKind, ranks: str | int, nodes: str | int, n_bytes: str, us: str, where: str
) -> Timing:
    try:
        found = Timing(kind, int(ranks), int(nodes), int(float(n_bytes)), round(float(us) * 1e6))
    except (ValueError, OverflowError, TypeError) as error:  # not a number, infinite, or missing
        raise DimsweepError(f"invalid number: {error}", where=where, code="bad-syntax") from error
    if found.ranks < 2 or found.nodes < 1 or found.ranks % found.nodes:
        raise DimsweepError(
            f"{found.ranks} GPUs do not divide into {found.nodes} equal nodes",
            where=where,
            code="out-of-range",
        )
    if found.n_bytes < 1 or found.duration < 1:
        raise DimsweepError(
            f"{n_bytes} bytes in {us} us; both must be greater than 0",
            where=where,
            code="out-of-range",
        )
    return found


# --- logs of Megatron-LM and torchtitan ---------------------------------------------------------

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
# innermost first; the data-parallel axis takes the rest.
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
# torchtitan's names of the dimensions of its mesh.  Its replicas and shards are the rest.
_AXES = {"tp": "tensor", "ep": "expert", "cp": "context", "pp": "pipeline"}
_REPLICAS = ("dp", "dp_replicate", "dp_shard")


@dataclass
class TrainingRun:
    """One run of training in a log: its settings, and the seconds of its iterations."""

    line: int
    pieces: int = 1  # micro-batches that torchtitan's pipeline cuts the local batch into
    settings: dict[str, Any] = field(default_factory=dict)  # by key of the configuration
    gpus: int | None = None
    seconds: list[float] = field(default_factory=list)  # of each printed iteration
    rates: list[float] = field(default_factory=list)  # tokens/s of one GPU, if printed

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
                "the log has tokens per second, but not the batch or the number of GPUs",
                hint="keep the lines 'Building device mesh ...' and 'Training starts at ...'",
                code="missing",
            )
        return float(batch * sequence / (median(self.rates[1:] or self.rates) * self.gpus))


def is_training_log(text: str) -> bool:
    """Return whether ``text`` has lines of iterations by Megatron-LM or torchtitan."""
    text = _COLOUR.sub("", text)
    return bool(_ITERATION.search(text) or _STEP.search(text))


def read_training_log(path: Path) -> list[TrainingRun]:
    """Return the runs in a log of Megatron-LM or torchtitan that printed an iteration or more.

    Raises :class:`DimsweepError` naming the file if there is none.
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
        raise DimsweepError("the log has no iteration", where=str(path), code="missing")
    return measured


def _take_iteration(run: TrainingRun, seconds: float, batch: re.Match[str] | None) -> None:
    """Add an iteration to a run; if its batch differs (ramp-up), it replaces all before it."""
    if batch is not None and run.settings.get(_PLAN + "batch") != int(batch[1]):
        run.settings[_PLAN + "batch"] = int(batch[1])
        run.seconds.clear()
    if seconds > 0:
        run.seconds.append(seconds)


def _take_arguments(run: TrainingRun, arguments: dict[str, str]) -> None:
    """Add Megatron's command-line arguments to the settings of a run."""
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
    """Yield the settings that follow from Megatron's boolean and named arguments."""

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
    """Add the settings or the iteration in a line of torchtitan to a run."""
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
    """Set the degrees of parallelism from the text of a mesh, and return its number of GPUs.

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
    """Return the settings of one of torchtitan's dense models; {} for any other model."""
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
