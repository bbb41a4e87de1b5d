"""The columns of a study's rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from engine import MERIT_NEEDS, Breakdown, Result, units
from sweeper.config.schema import Config
from sweeper.space.trials import MARK, Trials

COMPLETE, FAILED = "complete", "failed"
LOST = "lost"  # to a fault of the environment, not of the trial; the next run tries again
INFEASIBLE = "infeasible"  # a design that cannot be, which was not simulated
RECHECK = "recheck"  # the origin of a design that is looked at again, message by message
PORTFOLIO = "portfolio"  # the origin of a split that is tried for all workloads of a portfolio
BASELINE = "baseline"  # the origin of the design that there is today
WHAT_IF = "what_if"  # the origin of a design with one change, the rest of it as it was
BESIDE = (RECHECK, PORTFOLIO, BASELINE, WHAT_IF)  # of rows that are no trials of a cell's search
# Of a what-if: its name, the key of the row whose design it changes, and what it sets, as JSON.
CHANGE = ("change", "change_of", "changes")
# Raise it when the columns or the files change: rows of different columns do not mix in a ledger.
ROWS_VERSION = 7
_PARTS = ("transfer", "latency", "endpoint")  # of the path, in a dimension
_SLOPE = "ms_per_GBps"
_SHADOW_PRICES = (_SLOPE, "ms_per_usd")


@dataclass(frozen=True)
class Cell:
    """One cell of a study's grid: its resolved configuration and its coordinates."""

    number: int
    config: Config
    coordinates: Mapping[str, str]


def row_schema(n_dims: int, grid: Sequence[str], parameters: Sequence[str]) -> pa.Schema:
    """The schema of a study whose cells have at most ``n_dims`` dimensions.

    Grid and parameter values are text, as the config writes them.
    """
    columns = [
        ("key", pa.string()),
        ("cell", pa.int32()),
        ("trial", pa.int32()),
        ("origin", pa.string()),
        ("state", pa.string()),
        ("error", pa.string()),
        *((name, pa.string()) for name in CHANGE),
        # The fidelity may itself be an axis of the grid or of the search.
        *((name, pa.string()) for name in dict.fromkeys(("fidelity", *grid, *parameters))),
        *((f"bandwidth_{d}_GBps", pa.float64()) for d in range(n_dims)),
        ("time_s", pa.float64()),
        ("time_ps", pa.int64()),
        ("compute_s", pa.float64()),
        ("exposed_s", pa.float64()),
        ("waiting_s", pa.float64()),
        ("cost_usd", pa.float64()),
        ("perf_per_cost", pa.float64()),
        *((name, pa.float64()) for name in MERIT_NEEDS),  # null where they are not known
        *(
            (f"{name}_{d}{unit}", pa.float64())
            for name, unit in (("exposed", "_s"), ("bytes", ""), ("busy", ""), ("utilisation", ""))
            for d in range(n_dims)
        ),
        ("exposed_by_collective_s", pa.map_(pa.string(), pa.float64())),
        # The critical path and its shadow prices; null for trials simulated message by message.
        ("path_compute_s", pa.float64()),
        ("path_memory_s", pa.float64()),
        *((f"path_{name}_{d}_s", pa.float64()) for name in _PARTS for d in range(n_dims)),
        *((f"path_hops_{d}", pa.float64()) for d in range(n_dims)),
        *((f"{name}_{d}", pa.float64()) for name in _SHADOW_PRICES for d in range(n_dims)),
    ]
    return pa.schema(columns)


def complete_rows(
    schema: pa.Schema,
    labels: Mapping[str, Sequence[Any]],
    bandwidth: np.ndarray,
    breakdown: Breakdown,
    tallies: Sequence[str],
) -> pa.RecordBatch:
    """Rows of simulated trials.  ``labels`` holds the columns that name them."""
    second = units.PICOSECONDS
    columns: dict[str, Any] = {
        **labels,
        "state": [COMPLETE] * len(bandwidth),
        "time_s": breakdown.time / second,
        "time_ps": breakdown.time,
        "compute_s": breakdown.compute / second,
        "exposed_s": breakdown.exposed / second,
        "waiting_s": breakdown.exposed_by_dim[:, -1] / second,
        "cost_usd": breakdown.cost,
        "perf_per_cost": breakdown.perf_per_cost,
        **breakdown.merits,
        "exposed_by_collective_s": _maps(tallies, breakdown.exposed_by_tally / second),
    }
    for d in range(bandwidth.shape[1]):
        columns[f"bandwidth_{d}_GBps"] = bandwidth[:, d] / 1e9
        columns[f"exposed_{d}_s"] = breakdown.exposed_by_dim[:, d] / second
        columns[f"bytes_{d}"] = breakdown.bytes_sent[:, d]
        columns[f"busy_{d}"] = breakdown.busy[:, d] / np.maximum(breakdown.time, 1)
        columns[f"utilisation_{d}"] = breakdown.utilisation[:, d]
    columns |= _path_columns(breakdown)
    return _batch(schema, columns, len(bandwidth))


def single_row(config: Config, result: Result) -> dict[str, Any]:
    """The columns of one simulated design that is no trial of a study, those that are known."""
    breakdown, bandwidth = result.breakdown, result.program.bandwidth[None]
    known: dict[str, list[Any]] = {"fidelity": [str(config.fidelity)]}
    schema = row_schema(bandwidth.shape[1], (), ())
    (row,) = complete_rows(
        schema, known, bandwidth, breakdown, result.program.names.tally
    ).to_pylist()
    row["exposed_by_collective_s"] = dict(row["exposed_by_collective_s"])
    return {name: value for name, value in row.items() if value is not None}


def _path_columns(breakdown: Breakdown) -> dict[str, Any]:
    """The critical path and what bandwidth is worth, if they are known."""
    path, columns = breakdown.path, dict[str, Any]()
    if path is None or breakdown.per_bandwidth is None:
        return columns
    columns["path_compute_s"] = path.compute / units.PICOSECONDS
    columns["path_memory_s"] = path.memory / units.PICOSECONDS
    for d in range(path.hops.shape[1]):
        for name in _PARTS:
            columns[f"path_{name}_{d}_s"] = getattr(path, name)[:, d] / units.PICOSECONDS
        columns[f"path_hops_{d}"] = path.hops[:, d]
        columns[f"{_SLOPE}_{d}"] = breakdown.per_bandwidth[:, d] * 1e3 * 1e9
        if breakdown.per_usd is not None:
            free = np.isnan(breakdown.per_usd[:, d])
            columns[f"ms_per_usd_{d}"] = pa.array(breakdown.per_usd[:, d] * 1e3, mask=free)
    return columns


def slope_columns(schema: pa.Schema) -> list[str]:
    """The columns that say how the time changes with each dimension's bandwidth."""
    return [name for name in schema.names if name.startswith(_SLOPE)]


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
        columns[f"bandwidth_{d}_GBps"] = [value / 1e9]
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


def _maps(names: Sequence[str], values: np.ndarray) -> pa.Array:
    n, width = values.shape
    offsets = np.arange(n + 1, dtype=np.int32) * width
    return pa.MapArray.from_arrays(offsets, pa.array(list(names) * n, pa.string()), values.ravel())


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
