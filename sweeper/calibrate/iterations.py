"""Measured iterations: tables with a plan in each row, and logs of Megatron-LM and torchtitan.

Columns of a table say how fast an iteration was: times, rates, FLOP/s or MFU.
"""

import csv
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dimsweep.engine import DimsweepError, suggest_names
from dimsweep.engine.formats import TrainingRun, delimiter_of, read_text, read_training_log
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.simulation.program import build_program

# Converts a column's value to seconds of an iteration of a configuration.
Seconds = Callable[[float, Config], float]

_WORDS = {"sec": "s", "second": "s", "seconds": "s", "chip": "gpu", "device": "gpu"}
_WORDS |= {"sequences": "samples", "tflops": "tflop_s", "percent": "%"}


def _times(unit: float) -> Seconds:
    return lambda value, config: value * unit


def _rate(name: str, *, per_gpu: bool = False) -> Seconds:
    """Return a conversion to seconds from an amount per second, such as tokens per second.

    ``name`` is the amount of an iteration; ``per_gpu``: the rate is of one GPU.
    """

    def seconds(value: float, config: Config) -> float:
        program = build_program(config)
        amount = program.workload.amount
        total = getattr(amount, name) if amount is not None else 0
        if not total:
            problem = f"the {name} of an iteration of this workload are unknown"
            raise DimsweepError(problem, code="missing")
        return float(total / value / (program.n_npus if per_gpu else 1))

    return seconds


def _tflops(value: float, config: Config) -> float:
    """Convert 10^12 model FLOP/s of one GPU to seconds per iteration."""
    return _rate("flops", per_gpu=True)(value * 1e12, config)


def _mfu(value: float, config: Config, *, is_percent: bool = False) -> float:
    """Convert model FLOPs utilisation to seconds per iteration; a value above 1 is in percent."""
    share = value / 100 if is_percent or value > 1 else value
    if share > 1:
        raise DimsweepError(f"an MFU of {value:g} % exceeds 100 %", code="out-of-range")
    program = build_program(config)
    amount = program.workload.amount
    peak = program.cluster.npus.peak(amount.flops, amount.narrow) if amount is not None else None
    if not peak:
        hint = "set npu.flops"
        raise DimsweepError("the peak FLOP/s of the NPU are unknown", hint=hint, code="missing")
    return _rate("flops", per_gpu=True)(share * peak, config)


def _mfu_percent(value: float, config: Config) -> float:
    return _mfu(value, config, is_percent=True)


#: Conversions of columns to seconds, by the normalised name of a column.
SPEEDS: Mapping[str, Seconds] = {
    **dict.fromkeys(("s", "iteration_s", "time_s", "step_time_s"), _times(1.0)),
    **dict.fromkeys(("ms", "iteration_ms", "time_ms", "step_time_ms"), _times(1e-3)),
    "tokens_s": _rate("tokens"),
    **dict.fromkeys(("tokens_s_gpu", "tokens_gpu_s"), _rate("tokens", per_gpu=True)),
    "samples_s": _rate("samples"),
    "samples_s_gpu": _rate("samples", per_gpu=True),
    **dict.fromkeys(("tflop_s", "tflop_s_gpu", "model_tflop_s_gpu"), _tflops),
    "mfu": _mfu,
    "mfu_%": _mfu_percent,
}
#: Examples of such columns, for messages.
EXAMPLES = "seconds, ms, tokens/s, tokens/s/GPU, samples/s, TFLOP/s/GPU or MFU"


def find_speed(column: str) -> Seconds | None:
    """Return the function that converts a column of times or rates to seconds; None for others.

    Case, signs between words and the word "per" do not matter: "TFLOPs/GPU",
    "tokens_per_second_per_gpu" and "MFU (%)" are known.
    """
    words = re.findall(r"[a-z]+|%", column.lower())
    named = "_".join(_WORDS.get(word, word) for word in words if word != "per")
    return SPEEDS.get(named.replace("tflop_s_s", "tflop_s"))


# Short names of columns.
_SHORT = {
    "tp": "workload.parallel.tensor",
    "pp": "workload.parallel.pipeline",
    "dp": "workload.parallel.data",
    "cp": "workload.parallel.context",
    "ep": "workload.parallel.expert",
    "micro_batch": "workload.plan.micro_batch",
    "batch": "workload.plan.batch",
    "global_batch": "workload.plan.batch",
    "micro_batches": "workload.plan.micro_batches",
    "vp": "workload.plan.interleave",
    "precision": "workload.plan.precision",
    "recompute": "workload.plan.recompute",
    "zero": "workload.plan.zero",
}
_GPUS = "gpus"  # determines the number of nodes
_BATCHES = ("workload.plan.batch", "workload.plan.micro_batches")
_MISSING = ("", "NA", "N/A")
_ASIDE = ("name", "note", "profile")


@dataclass(frozen=True)
class Iteration:
    """A measured iteration of the plan in ``config``."""

    name: str
    seconds: float
    config: Config
    place: str  # file, line and column of the time
    profile: Path | None = None


def has_iterations(columns: Collection[str]) -> bool:
    """Return whether a table with these columns holds measured iterations."""
    return "op" not in columns and any(find_speed(column) for column in columns)


def read_iteration_table(path: Path, overrides: Sequence[str]) -> Iterator[Iteration]:
    """Yield the measured iterations of a table; rows without a time or rate are left out.

    Raises :class:`DimsweepError` naming the line of a cell that cannot be read, or the file if no
    row has a measurement.
    """
    is_empty = True
    with reading_csv(path):
        for line, filled in _read_rows(read_text(path, "file of measurements")):
            speeds = [(name, speed) for name in filled if (speed := find_speed(name))]
            if not speeds:
                continue
            is_empty, (column, speed) = False, speeds[0]
            where = f"{path}, line {line}"
            value = _parse_positive(filled[column], where)
            settings = {
                _SHORT.get(k, k): v
                for k, v in filled.items()
                if k not in _ASIDE and find_speed(k) is None
            }
            config = _compose_config(settings, overrides, where)
            with _placing_errors(f"{where}, column {column}"):
                seconds = speed(value, config)
            yield Iteration(
                filled.get("name") or f"line {line}",
                seconds,
                config,
                f"{where}, column {column}",
                path.parent / filled["profile"] if "profile" in filled else None,
            )
    if is_empty:
        problem = "no row has the time or rate of an iteration"
        hint = f"a column such as {EXAMPLES}"
        raise DimsweepError(problem, where=str(path), hint=hint, code="missing")


def read_iteration_log(path: Path, overrides: Sequence[str]) -> Iterator[Iteration]:
    """Yield the median iteration of each run in a log of Megatron-LM or torchtitan.

    The plan and the shape of the model are read from the log.

    Raises :class:`DimsweepError` naming the line at which a run begins.
    """
    runs = read_training_log(path)
    for number, run in enumerate(runs, 1):
        where = f"{path}, line {run.line}"
        with _placing_errors(where):
            seconds = run.iteration()
        name = path.stem if len(runs) == 1 else f"{path.stem} {number}"
        yield Iteration(
            name, seconds, _compose_config(_collect_settings(run), overrides, where), where
        )


def _collect_settings(run: TrainingRun) -> dict[str, Any]:
    gpus = {} if run.gpus is None else {_GPUS: run.gpus}
    return {**gpus, **run.settings}


def _compose_config(settings: Mapping[str, Any], overrides: Sequence[str], where: str) -> Config:
    """Return the configuration with the settings of one row or run."""
    values = {key: _format_value(value) for key, value in settings.items()}
    for key, other in (_BATCHES, _BATCHES[::-1]):
        if key in values and other not in values:
            values[other] = "null"  # each determines the other
    try:
        if _GPUS in values:
            values["nodes"] = _count_nodes(values.pop(_GPUS), overrides)
        return compose([*overrides, *(f"{k}={v}" for k, v in values.items())]).config
    except DimsweepError as error:
        known = [*_SHORT, _GPUS, "nodes", "workload", "seconds"]
        is_column = error.where in values and "." not in error.where
        hint = suggest_names(error.where, known) if is_column else error.hint
        raise DimsweepError(
            f"{error.where}: {error.problem}",
            where=where,
            hint=hint,
            code="unknown-key" if is_column else error.code,
        ) from error


def _count_nodes(gpus: str, overrides: Sequence[str]) -> str:
    """Return the number of nodes with ``gpus`` GPUs; raise an error if a node is not full."""
    a_node = compose([*overrides, "nodes=1"]).config.topology.build().n_npus
    nodes, rest = divmod(int(gpus), a_node) if gpus.isdecimal() else (0, 1)
    if rest or not nodes:
        problem, hint = f"{gpus} GPUs do not fill nodes of {a_node}", "use the column nodes instead"
        raise DimsweepError(problem, where=_GPUS, hint=hint, code="mismatch")
    return str(nodes)


def _format_value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@contextmanager
def _placing_errors(where: str) -> Iterator[None]:
    """Return a context that adds ``where`` to the place of errors."""
    try:
        yield
    except DimsweepError as error:
        raise error.replace(where=where) from error


def _read_rows(text: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield line number and nonempty cells of each row, by column name in lower case."""
    every = enumerate(text.splitlines(), 1)
    rows = [(number, line) for number, line in every if line.strip() and line[0] != "#"]
    delimiter = delimiter_of(text)
    reader = csv.DictReader((line for _, line in rows), delimiter=delimiter, skipinitialspace=True)
    for row in reader:
        cells = {k.strip().lower(): v.strip() for k, v in row.items() if k and isinstance(v, str)}
        if delimiter == ";":  # where a comma is the decimal point
            cells = {k: re.sub(r"^(-?\d+),(\d+)$", r"\1.\2", v) for k, v in cells.items()}
        filled = {k: v for k, v in cells.items() if v not in _MISSING}
        yield rows[reader.line_num - 1][0], filled


@contextmanager
def reading_csv(path: Path) -> Iterator[None]:
    """Return a context that turns errors of the csv module into errors that name the file."""
    try:
        yield
    except csv.Error as error:
        raise DimsweepError(f"invalid CSV: {error}", where=str(path), code="bad-syntax") from error


def _parse_positive(text: str, where: str) -> float:
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        problem = f"{text!r} is not a time or rate"
        raise DimsweepError(problem, where=where, hint="a positive number", code="wrong-type")

    return value
