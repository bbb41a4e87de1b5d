"""The rows of a study: their columns, the states of trials, and which rows are counted.

Rows are written and read by these columns only.
"""

import itertools
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dimsweep.engine import MERIT_NEEDS, Breakdown, DimsweepError, Result, units
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.ledger.index import Halves, may_repeat, mix_with_cells, parse_key_column
from dimsweep.sweeper.space.trials import MARK, Floats, Trials

TEXT, NUMBER, COUNT, WHOLE = pa.string(), pa.float64(), pa.int32(), pa.int64()
TIMES = pa.map_(TEXT, NUMBER)
Values = NDArray[Any]  # of rows (P,), or of their dimensions (P, D)


@dataclass(frozen=True)
class Simulated:
    """P simulated trials: ``bandwidth`` (P, D) in bytes/s, results, and times of collectives."""

    bandwidth: Floats
    breakdown: Breakdown
    tallies: Sequence[str]


@dataclass(frozen=True)
class Column:
    """A column of rows; a ``D`` in its name stands for one column per dimension.

    ``unit`` is that of its numbers: "1" for shares and other quotients; none for texts and counts.
    ``of`` returns its values for rows of simulated trials, (P,) or (P, D), None where they are
    unknown. Columns without it identify the row.
    """

    name: str
    type: pa.DataType
    unit: str = ""
    of: Callable[[Simulated], Values | pa.Array | None] | None = None

    @property
    def is_per_dimension(self) -> bool:
        """True if there is one column per network dimension."""
        return "_D" in self.name

    def at(self, d: int) -> str:
        """Return the name of the column of a dimension."""
        return self.name.replace("_D", f"_{d}")

    def names(self, n_dims: int) -> list[str]:
        """Return the column's name, or the names for ``n_dims`` dimensions."""
        return [self.at(d) for d in range(n_dims)] if self.is_per_dimension else [self.name]

    def among(self, names: Iterable[str]) -> list[str]:
        """Return the column's names (one, or one per dimension) that occur in ``names``."""
        return [name for name in names if self._pattern.fullmatch(name)]

    def n_dims(self, names: Iterable[str]) -> int:
        """Return the number of dimensions with a column among ``names``."""
        found = [self._pattern.fullmatch(name) for name in names]
        return max((1 + int(match[1]) for match in found if match), default=0)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(self.name.replace("_D", r"_(\d{1,3})"))


def _seconds(picoseconds: Values) -> Values:
    return picoseconds / units.PICOSECONDS


def _busy(run: Simulated) -> Floats:
    return np.asarray(run.breakdown.busy / np.maximum(run.breakdown.time, 1)[:, None])


def _by_collective(run: Simulated) -> pa.Array:
    values = _seconds(run.breakdown.exposed_by_tally)
    n, width = values.shape
    offsets = np.arange(n + 1, dtype=np.int32) * width
    names = pa.array(list(run.tallies) * n, TEXT)
    return pa.MapArray.from_arrays(offsets, names, values.ravel())


def _path(part: str, take: Callable[[Values], Values]) -> Callable[[Simulated], Values | None]:
    """Return a function that takes a component of the critical path.

    It is None for trials without phases.
    """

    def of(run: Simulated) -> Values | None:
        path = run.breakdown.path
        known = path is not None and run.breakdown.per_bandwidth is not None
        return take(getattr(path, part)) if known else None

    return of


def _slopes(run: Simulated) -> Floats | None:
    slopes = run.breakdown.per_bandwidth
    return None if run.breakdown.path is None or slopes is None else slopes * 1e3 * 1e9


def _per_usd(run: Simulated) -> Values | None:
    slopes = run.breakdown.per_usd
    if run.breakdown.path is None or run.breakdown.per_bandwidth is None or slopes is None:
        return None
    return np.ma.masked_array(slopes * 1e3, np.isnan(slopes))  # a dimension that is free has none


_MERIT_UNITS = {
    "memory_bytes": "B",
    "memory_reserved_bytes": "B",
    "samples_per_s": "1/s",
    "tokens_per_s": "1/s",
    "mfu": "1",
    "accuracy": "1",
    "power_w": "W",
    "energy_j": "J",
    "perf_per_watt": "1/(s W)",
    "ettr": "1",
    "effective_time_s": "s",
    "usd_per_token": "USD",
}


def _merit(name: str) -> Column:
    return Column(name, NUMBER, _MERIT_UNITS[name], lambda run: run.breakdown.merits.get(name))


# Without these a row says nothing.
NAMING = (
    Column("key", TEXT),
    Column("cell", COUNT),
    Column("trial", COUNT),
    Column("origin", TEXT),
    Column("state", TEXT),
)
ERROR = Column("error", TEXT)
# Of a what-if: its name, the key of the row whose design it changes, and what it sets, as JSON.
CHANGES = (Column("change", TEXT), Column("change_of", TEXT), Column("changes", TEXT))
FIDELITY = Column("fidelity", TEXT)  # may itself be an axis of the grid or of the search
BANDWIDTH = Column("bandwidth_D_GBps", NUMBER, "GB/s", lambda run: run.bandwidth / 1e9)
EXPOSED = Column(
    "exposed_D_s", NUMBER, "s", lambda run: _seconds(run.breakdown.exposed_by_dim[:, :-1])
)
WAITED = Column("waiting_s", NUMBER, "s", lambda run: _seconds(run.breakdown.exposed_by_dim[:, -1]))
BY_COLLECTIVE = Column("exposed_by_collective_s", TIMES, "s", _by_collective)
UTILISATION = Column("utilisation_D", NUMBER, "1", lambda run: run.breakdown.utilisation)
PATH = {
    part: Column(f"path_{part}_s", NUMBER, "s", _path(part, _seconds))
    for part in ("compute", "memory")
}
PATH_PARTS = {
    part: Column(f"path_{part}_D_s", NUMBER, "s", _path(part, _seconds))
    for part in ("transfer", "latency", "endpoint")
}
SLOPE = Column("ms_per_GBps_D", NUMBER, "ms/(GB/s)", _slopes)

# Results of a run, in the order of the columns.  Times are those of the class of ranks that
# finishes last; the critical path and its slopes are null for trials by messages.
MEASURES = (
    BANDWIDTH,
    Column("time_s", NUMBER, "s", lambda run: _seconds(run.breakdown.time)),
    Column("time_ps", WHOLE, "ps", lambda run: run.breakdown.time),
    Column("compute_s", NUMBER, "s", lambda run: _seconds(run.breakdown.compute)),
    Column("exposed_s", NUMBER, "s", lambda run: _seconds(run.breakdown.exposed)),
    WAITED,
    Column("cost_usd", NUMBER, "USD", lambda run: run.breakdown.cost),
    Column("perf_per_cost", NUMBER, "1/(s USD)", lambda run: run.breakdown.perf_per_cost),
    *map(_merit, MERIT_NEEDS),
    EXPOSED,
    Column("bytes_D", NUMBER, "B", lambda run: run.breakdown.bytes_sent),
    Column("busy_D", NUMBER, "1", _busy),
    UTILISATION,
    BY_COLLECTIVE,
    *PATH.values(),
    *PATH_PARTS.values(),
    Column("path_hops_D", NUMBER, "1", _path("hops", lambda hops: hops)),
    SLOPE,
    Column("ms_per_usd_D", NUMBER, "ms/USD", _per_usd),
)
# What only the run of a single trial says: what packets did, which no other fidelity knows; how
# long each of several jobs took, and how many times as long as alone; and how many times as long an
# iteration takes while something is down.
PACKET_COLUMNS = (Column("packets_dropped", WHOLE), Column("timeouts", WHOLE))
JOB_TIME, JOB_SLOWDOWN = Column("job_s", TIMES, "s"), Column("job_slowdown", TIMES, "1")
OUTAGE_SLOWDOWN = Column("outage_slowdown", TIMES, "1")
SINGLE_RUN_COLUMNS = (*PACKET_COLUMNS, JOB_TIME, JOB_SLOWDOWN, OUTAGE_SLOWDOWN)
COLUMNS = (*NAMING, ERROR, *CHANGES, FIDELITY, *MEASURES, *SINGLE_RUN_COLUMNS)


def row_schema(n_dims: int, grid: Sequence[str], parameters: Sequence[str]) -> pa.Schema:
    """Return the schema of a study whose cells have at most ``n_dims`` dimensions.

    Values of the grid and of parameters are text, as the config writes them.
    """
    own = [(column.name, column.type) for column in (*NAMING, ERROR, *CHANGES)]
    keys = dict.fromkeys((FIDELITY.name, *grid, *parameters))
    measured = [(name, column.type) for column in MEASURES for name in column.names(n_dims)]
    of_one = [(column.name, column.type) for column in SINGLE_RUN_COLUMNS]
    return pa.schema([*own, *((key, TEXT) for key in keys), *measured, *of_one])


def measures(run: Simulated) -> dict[str, Values | pa.Array]:
    """Return the values of all columns for simulated trials, by name."""
    found = dict[str, Values | pa.Array]()
    for column in MEASURES:
        assert column.of is not None
        values = column.of(run)
        if values is None:
            continue
        if column.is_per_dimension and isinstance(values, np.ndarray):
            found |= {name: values[:, d] for d, name in enumerate(column.names(values.shape[1]))}
        else:
            found[column.name] = values
    return found


COMPLETE, FAILED = "complete", "failed"
LOST = "lost"  # to a fault of the environment, not of the trial; the next run tries again
INFEASIBLE = "infeasible"  # a design that cannot be, which was not simulated
RECHECK = "recheck"  # the origin of a design that is looked at again, message by message
PORTFOLIO = "portfolio"  # the origin of a split that is tried for all workloads of a portfolio
BASELINE = "baseline"  # the origin of the existing design
WHAT_IF = "what_if"  # the origin of a design with one change, the rest of it as it was
EXTRA_ORIGINS = (
    RECHECK,
    PORTFOLIO,
    BASELINE,
    WHAT_IF,
)  # of rows that are no trials of a cell's search
# How the origin of a design begins that somebody asked for from Python: what follows is whose idea
# it was.  It is a trial of its cell's search, but its number is measured by no sampler.
ASKED = "ask:"
CHANGE = tuple(column.name for column in CHANGES)
# Raise it when the columns or the files change: rows of different columns do not mix in a ledger.
ROWS_VERSION = 11


@dataclass(frozen=True)
class Cell:
    """One cell of a study's grid: its resolved configuration and its axis values."""

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
    """Return rows of simulated trials. ``labels`` has the columns that identify them."""
    measured = measures(Simulated(bandwidth, breakdown, tallies))
    columns: dict[str, Any] = {**labels, "state": [COMPLETE] * len(bandwidth), **measured}
    return _batch(schema, columns, len(bandwidth))


def single_row(config: Config, result: Result) -> dict[str, Any]:
    """Return the columns of one simulated design that is not a trial of a study."""
    breakdown, bandwidth = result.breakdown, result.program.bandwidth[None]
    known: dict[str, list[Any]] = {FIDELITY.name: [str(config.fidelity)]}
    schema = row_schema(bandwidth.shape[1], (), ())
    (row,) = complete_rows(
        schema, known, bandwidth, breakdown, result.program.names.tally
    ).to_pylist()
    row[BY_COLLECTIVE.name] = dict(row[BY_COLLECTIVE.name])
    return {name: value for name, value in row.items() if value is not None}


def is_requested(origins: pa.ChunkedArray) -> np.ndarray:
    """Return a mask of the rows, by their ``origin``, whose designs were requested from Python."""
    return np.asarray(pc.starts_with(origins, ASKED).fill_null(False).to_numpy())


def parse_changes(measured: object) -> dict[str, Any]:
    """Return the keys and values in a row's column ``changes``.

    Raises :class:`DimsweepError` if that is not JSON.
    """
    try:
        found = json.loads(measured) if isinstance(measured, str) else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise DimsweepError(f"a row of a what-if does not say what it changes, but {measured!r}")
    return found


def slope_columns(schema: pa.Schema) -> list[str]:
    """Return the columns with the derivative of the time by each dimension's bandwidth."""
    return SLOPE.among(schema.names)


def numbers(rows: pa.RecordBatch, columns: Sequence[str]) -> np.ndarray:
    """Return the values of some columns as floats (N, C), NaN where missing."""
    found = np.empty((len(rows), len(columns)))
    for i, name in enumerate(columns):
        found[:, i] = rows.column(name).to_numpy(zero_copy_only=False)
    return found


def slopes(rows: pa.RecordBatch, columns: Sequence[str]) -> np.ndarray:
    """Return the slopes dT/db (N, D) of rows, in seconds per byte/s, from :func:`slope_columns`.

    NaN where a slope is unknown, and beyond the dimensions of the row's cell.
    """
    return numbers(rows, columns) * (1e-3 / 1e9)


def failed_row(
    schema: pa.Schema,
    labels: Mapping[str, Any],
    bandwidth: Sequence[float] | None,
    error: str,
    state: str = FAILED,
) -> pa.RecordBatch:
    """Return the row of one trial that could not be simulated."""
    columns: dict[str, Any] = {name: [value] for name, value in labels.items()}
    columns |= {"state": [state], "error": [error]}
    for d, value in enumerate(bandwidth or ()):
        columns[BANDWIDTH.at(d)] = [value / 1e9]
    return _batch(schema, columns, 1)


def labels(cell: Cell, trials: Trials, keys: Sequence[str]) -> dict[str, Sequence[Any]]:
    """Return the columns that identify ``trials`` of a cell."""
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


def relabel_rows(
    rows: pa.Table, schema: pa.Schema, named: Mapping[str, Sequence[Any]]
) -> pa.RecordBatch:
    """Return rows of another cell or study with the columns ``named`` replaced, in ``schema``."""
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


def in_order(table: pa.Table) -> pa.Table:
    """Return the rows sorted by cell and trial; only rows out of order are moved."""
    if not len(table):
        return table
    order = np.lexsort((table["trial"].to_numpy(), table["cell"].to_numpy()))
    moved = order != np.arange(len(order))
    ends = [0, *(np.flatnonzero(np.diff(moved)) + 1).tolist(), len(order)]
    return pa.concat_tables(
        table.take(pa.array(order[start:stop]))
        if moved[start]
        else table.slice(start, stop - start)
        for start, stop in itertools.pairwise(ends)
        if start < stop
    )


def count_once(table: pa.Table) -> pa.Table:
    """Return the rows of files in their order, each trial once.

    A key occurs twice where a log has become a part, where a lost lock let two sweeps evaluate a
    trial, or where a trial was tried again: a simulated row wins. A trial's number occurs twice
    where an earlier trial was tried again, and the search, which knew more then, proposed another
    one: the later row wins.
    """
    table = count_keys_once(table)
    return _keep_first(table, trial_numbers(table)[:, None], _latest)


def trial_numbers(table: pa.Table, first: int = 0) -> NDArray[np.uint64]:
    """Return identities of trials, from the columns ``key``, ``cell``, ``trial`` and ``origin``.

    ``first`` is the place of the table's first row among all rows.
    """
    kind = (
        pc.index_in(table["origin"], pa.array(EXTRA_ORIGINS))
        .fill_null(len(EXTRA_ORIGINS))
        .to_numpy()
    )
    cell, trial = (table[name].to_numpy().astype(np.uint64) for name in ("cell", "trial"))
    # Each baseline that a study has had is a trial of its own: which one it has now, its key says.
    baselines = np.flatnonzero(kind == EXTRA_ORIGINS.index(BASELINE))
    trial[baselines] = first + baselines
    # The bits of a cell, of a kind and of a trial.
    number = cell << np.uint64(35) | kind.astype(np.uint64) << np.uint64(32) | trial
    # A what-if is a change of a design: it stays true when the search has found another design.
    # Nor does the search know of what somebody asked for.
    own = np.flatnonzero((kind == EXTRA_ORIGINS.index(WHAT_IF)) | is_requested(table["origin"]))
    if len(own):
        number[own] = identity(table.take(pa.array(own)))[:, 0] | np.uint64(1 << 63)
    return number


def repeated(pieces: Sequence[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    """Return the values that occur more than once, sorted."""
    values = np.concatenate([np.empty(0, np.uint64), *pieces])
    values.sort()
    return np.unique(values[1:][values[1:] == values[:-1]])


def count_keys_once(table: pa.Table) -> pa.Table:
    """Return the rows, each key of a cell once.

    A simulated row is preferred to a failed one, and a failed one to a lost one.
    """
    return _keep_first(table, identity(table), _by_state)


def identity(table: pa.Table) -> Halves:
    """Return identities of rows (N, 2), from their columns ``key`` and ``cell``."""
    return mix_with_cells(parse_key_column(table["key"]), table["cell"].to_numpy())


def _by_state(table: pa.Table) -> NDArray[np.integer]:
    failed, lost = (pc.equal(table["state"], state).to_numpy() for state in (FAILED, LOST))
    return np.asarray(failed + 2 * lost)


def _latest(table: pa.Table) -> NDArray[np.integer]:
    return np.arange(len(table), 0, -1)


def _keep_first(
    table: pa.Table, identity: Halves, order: Callable[[pa.Table], NDArray[np.integer]]
) -> pa.Table:
    """Return the first row of each ``identity`` (N, C), by ``order`` and place, in table order."""
    if not may_repeat(identity):
        return table
    by = np.lexsort((order(table), *identity.T))
    first = np.append(True, (identity[by[1:]] != identity[by[:-1]]).any(axis=1))
    return table.take(pa.array(np.sort(by[first])))
