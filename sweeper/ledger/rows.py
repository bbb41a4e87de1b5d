"""The rows of a study: what becomes of trials, and rows of them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dimsweep.engine import Breakdown, DimsweepError, Result
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.ledger.schema import (
    BANDWIDTH,
    BY_COLLECTIVE,
    CHANGES,
    FIDELITY,
    SLOPE,
    Simulated,
    measures,
    row_schema,
)
from dimsweep.sweeper.space.setting import MARK
from dimsweep.sweeper.space.trials import Trials

COMPLETE, FAILED = "complete", "failed"
LOST = "lost"  # to a fault of the environment, not of the trial; the next run tries again
INFEASIBLE = "infeasible"  # a design that cannot be, which was not simulated
RECHECK = "recheck"  # the origin of a design that is looked at again, message by message
PORTFOLIO = "portfolio"  # the origin of a split that is tried for all workloads of a portfolio
BASELINE = "baseline"  # the origin of the design that there is today
WHAT_IF = "what_if"  # the origin of a design with one change, the rest of it as it was
BESIDE = (RECHECK, PORTFOLIO, BASELINE, WHAT_IF)  # of rows that are no trials of a cell's search
# How the origin of a design begins that somebody asked for from Python: what follows is whose idea
# it was.  It is a trial of its cell's search, but its number is told by no sampler.
ASKED = "ask:"
CHANGE = tuple(column.name for column in CHANGES)
# Raise it when the columns or the files change: rows of different columns do not mix in a ledger.
ROWS_VERSION = 11


@dataclass(frozen=True)
class Cell:
    """One cell of a study's grid: its resolved configuration and its coordinates."""

    number: int
    config: Config
    coordinates: Mapping[str, str]


def complete_rows(
    schema: pa.Schema,
    labels: Mapping[str, Sequence[Any]],
    bandwidth: np.ndarray,
    breakdown: Breakdown,
    tallies: Sequence[str],
) -> pa.RecordBatch:
    """Rows of simulated trials.  ``labels`` holds the columns that name them."""
    told = measures(Simulated(bandwidth, breakdown, tallies))
    columns: dict[str, Any] = {**labels, "state": [COMPLETE] * len(bandwidth), **told}
    return _batch(schema, columns, len(bandwidth))


def single_row(config: Config, result: Result) -> dict[str, Any]:
    """The columns of one simulated design that is no trial of a study, those that are known."""
    breakdown, bandwidth = result.breakdown, result.program.bandwidth[None]
    known: dict[str, list[Any]] = {FIDELITY.name: [str(config.fidelity)]}
    schema = row_schema(bandwidth.shape[1], (), ())
    (row,) = complete_rows(
        schema, known, bandwidth, breakdown, result.program.names.tally
    ).to_pylist()
    row[BY_COLLECTIVE.name] = dict(row[BY_COLLECTIVE.name])
    return {name: value for name, value in row.items() if value is not None}


def is_asked(origins: pa.ChunkedArray) -> np.ndarray:
    """Which rows, by their column ``origin``, are of designs that were asked for from Python."""
    return np.asarray(pc.starts_with(origins, ASKED).fill_null(False).to_numpy())


def changes_in(told: object) -> dict[str, Any]:
    """What a row's column ``changes`` says that it sets; raises :class:`DimsweepError` if that is
    no JSON of keys."""
    try:
        found = json.loads(told) if isinstance(told, str) else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise DimsweepError(f"a row of a what-if does not say what it changes, but {told!r}")
    return found


def slope_columns(schema: pa.Schema) -> list[str]:
    """The columns that say how the time changes with each dimension's bandwidth."""
    return SLOPE.among(schema.names)


def numbers(rows: pa.RecordBatch, columns: Sequence[str]) -> np.ndarray:
    """The values (N, C) of columns of numbers, NaN where there is none."""
    found = np.empty((len(rows), len(columns)))
    for i, name in enumerate(columns):
        found[:, i] = rows.column(name).to_numpy(zero_copy_only=False)
    return found


def slopes(rows: pa.RecordBatch, columns: Sequence[str]) -> np.ndarray:
    """dT/db (N, D) of each row in seconds per byte/s, from :func:`slope_columns` or none of them;
    NaN where it is not known, and beyond the dimensions of the row's cell."""
    return numbers(rows, columns) * (1e-3 / 1e9)


def failed_row(
    schema: pa.Schema,
    labels: Mapping[str, Any],
    bandwidth: Sequence[float] | None,
    error: str,
    state: str = FAILED,
) -> pa.RecordBatch:
    """The row of one trial that could not be simulated."""
    columns: dict[str, Any] = {name: [value] for name, value in labels.items()}
    columns |= {"state": [state], "error": [error]}
    for d, value in enumerate(bandwidth or ()):
        columns[BANDWIDTH.at(d)] = [value / 1e9]
    return _batch(schema, columns, 1)


def labels(cell: Cell, trials: Trials, keys: Sequence[str]) -> dict[str, Sequence[Any]]:
    """The columns that name ``trials`` of a cell."""
    columns: dict[str, Sequence[Any]] = {
        "key": keys,
        "cell": [cell.number] * len(trials),
        "trial": trials.number.tolist(),
        "origin": trials.origin.tolist(),
        "fidelity": [str(cell.config.fidelity)] * len(trials),
    }
    for name, value in cell.coordinates.items():
        columns[name] = [value] * len(trials)
    for name in trials.settings[0] if trials.settings else ():
        texts = [str(setting[name]) for setting in trials.settings]
        columns[name] = [texts[i] for i in trials.setting.tolist()]
    if columns.pop(MARK, None) is not None:
        found = [trials.settings[i][MARK] for i in trials.setting.tolist()]
        columns |= {name: [each[name] for each in found] for name in CHANGE}
    return columns


def renamed(
    rows: pa.Table, schema: pa.Schema, named: Mapping[str, Sequence[Any]]
) -> pa.RecordBatch:
    """Rows of another cell or study as rows of ``schema``, with the columns that name them."""
    columns = {
        name: rows[name].combine_chunks() for name in rows.column_names if name in schema.names
    }
    return _batch(schema, columns | dict(named), len(rows))


def _batch(schema: pa.Schema, columns: Mapping[str, Any], n: int) -> pa.RecordBatch:
    arrays = [
        pa.nulls(n, field.type)
        if (column := columns.get(field.name)) is None
        else column
        if isinstance(column, pa.Array)
        else pa.array(column, type=field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
