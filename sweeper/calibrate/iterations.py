"""Measured iterations: tables with a plan in each row, and logs of Megatron-LM and torchtitan."""

import csv
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dimsweep.engine import DimsweepError, suggestion
from dimsweep.engine.formats import TrainingRun, delimiter_of, read_text, read_training_log
from dimsweep.sweeper.calibrate.speeds import EXAMPLES, speed_of
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.config.schema import Config

# Short names of columns, as tables of measurements have them.
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
_GPUS = "gpus"  # a column for the number of GPUs, from which the number of nodes follows
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
    return "op" not in columns and any(speed_of(column) for column in columns)


def iterations_of_table(path: Path, overrides: Sequence[str]) -> Iterator[Iteration]:
    """Yield the measured iterations of a table; rows without a time or rate are left out.

    Raises :class:`DimsweepError` naming the line of a cell that cannot be read, or the file if no
    row has a measurement.
    """
    some = False
    with as_csv(path):
        for line, filled in _rows(read_text(path, "file of measurements")):
            speeds = [(name, speed) for name in filled if (speed := speed_of(name))]
            if not speeds:
                continue
            some, (column, speed) = True, speeds[0]
            where = f"{path}, line {line}"
            value = _number(filled[column], where)
            settings = {
                _SHORT.get(k, k): v
                for k, v in filled.items()
                if k not in _ASIDE and speed_of(k) is None
            }
            config = _config(settings, overrides, where)
            with _placed(f"{where}, column {column}"):
                seconds = speed(value, config)
            yield Iteration(
                filled.get("name") or f"line {line}",
                seconds,
                config,
                f"{where}, column {column}",
                path.parent / filled["profile"] if "profile" in filled else None,
            )
    if not some:
        what = "none of its rows says how long an iteration took"
        raise DimsweepError(what, where=str(path), hint=f"a column such as {EXAMPLES}")


def iterations_of_log(path: Path, overrides: Sequence[str]) -> Iterator[Iteration]:
    """Yield an iteration for each run in a log of Megatron-LM or torchtitan: the median of those
    that it prints.  The plan and the shape of the model are the log's.

    Raises :class:`DimsweepError` naming the line at which a run begins.
    """
    runs = read_training_log(path)
    for number, run in enumerate(runs, 1):
        where = f"{path}, line {run.line}"
        with _placed(where):
            seconds = run.iteration()
        name = path.stem if len(runs) == 1 else f"{path.stem} {number}"
        yield Iteration(name, seconds, _config(_settings_of(run), overrides, where), where)


def _settings_of(run: TrainingRun) -> dict[str, Any]:
    gpus = {} if run.gpus is None else {_GPUS: run.gpus}
    return {**gpus, **run.settings}


def _config(settings: Mapping[str, Any], overrides: Sequence[str], where: str) -> Config:
    """Return the configuration with the settings of one row or run."""
    said = {key: _written(value) for key, value in settings.items()}
    for key, other in (_BATCHES, _BATCHES[::-1]):
        if key in said and other not in said:
            said[other] = "null"  # one says the other
    try:
        if _GPUS in said:
            said["nodes"] = _nodes(said.pop(_GPUS), overrides)
        return compose([*overrides, *(f"{k}={v}" for k, v in said.items())]).config
    except DimsweepError as error:
        known = [*_SHORT, _GPUS, "nodes", "workload", "seconds"]
        is_column = error.where in said and "." not in error.where
        hint = suggestion(error.where, known) if is_column else error.hint
        placed = DimsweepError(f"{error.where}: {error.what}", where=where, hint=hint)
        raise placed from error


def _nodes(gpus: str, overrides: Sequence[str]) -> str:
    """Return the number of nodes that have this number of GPUs.

    Raises :class:`DimsweepError` for a machine whose nodes it does not fill.
    """
    a_node = compose([*overrides, "nodes=1"]).config.topology.build().n_npus
    nodes, rest = divmod(int(gpus), a_node) if gpus.isdecimal() else (0, 1)
    if rest or not nodes:
        what = f"{gpus} GPUs do not fill nodes of {a_node}"
        raise DimsweepError(what, where=_GPUS, hint="give the column nodes instead")
    return str(nodes)


def _written(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@contextmanager
def _placed(where: str) -> Iterator[None]:
    """Give the errors of what a measurement means the place of the measurement."""
    try:
        yield
    except DimsweepError as error:
        raise DimsweepError(error.what, where=where, hint=error.hint) from error


def _rows(text: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the line number and the filled cells of each row, by columns in small letters."""
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
def as_csv(path: Path) -> Iterator[None]:
    """Raise :class:`DimsweepError` naming the file for what the csv module cannot read."""
    try:
        yield
    except csv.Error as error:
        raise DimsweepError(f"it is no CSV: {error}", where=str(path)) from error


def _number(text: str, where: str) -> float:
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise DimsweepError(f"{text!r} is no time", where=where, hint="a positive number")
    return value
