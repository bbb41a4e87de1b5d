"""The columns of a study's rows: their names, types and units, and what a run says of each.

Rows are written and read by this: a column that is not here is in no row.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dimsweep.engine import MERIT_NEEDS, Breakdown, units
from dimsweep.sweeper.space.trials import Floats

TEXT, NUMBER, COUNT, WHOLE = pa.string(), pa.float64(), pa.int32(), pa.int64()
TIMES = pa.map_(TEXT, NUMBER)
Values = NDArray[Any]  # of rows (P,), or of their dimensions (P, D)


@dataclass(frozen=True)
class Simulated:
    """Trials that were simulated: their ``bandwidth`` (P, D) in bytes/s, what came of them, and
    the names of the collectives that this tells apart."""

    bandwidth: Floats
    breakdown: Breakdown
    tallies: Sequence[str]


@dataclass(frozen=True)
class Column:
    """A column, or one for each dimension if there is a ``D`` in its name.

    ``unit`` is that of its numbers: "1" for shares and other quotients; none for texts and counts.
    ``of`` are its values in rows of simulated trials, (P,) or (P, D), None where they are not
    known; columns without it name the row.
    """

    name: str
    type: pa.DataType
    unit: str = ""
    of: Callable[[Simulated], Values | pa.Array | None] | None = None

    @property
    def of_dims(self) -> bool:
        """Whether each dimension has one."""
        return "_D" in self.name

    def at(self, d: int) -> str:
        """The name of the column of a dimension."""
        return self.name.replace("_D", f"_{d}")

    def names(self, n_dims: int) -> list[str]:
        """Its name, or those of so many dimensions."""
        return [self.at(d) for d in range(n_dims)] if self.of_dims else [self.name]

    def among(self, names: Iterable[str]) -> list[str]:
        """Its name, or those of all dimensions, of those that are among ``names``; in their
        order."""
        return [name for name in names if self._pattern.fullmatch(name)]

    def n_dims(self, names: Iterable[str]) -> int:
        """How many dimensions have one among ``names``."""
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
    """A part of the critical path, where it is known; it is for trials by phases."""

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

# What a run says, in the order of the columns.  Times are those of the class of ranks that
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
OF_PACKETS = (Column("packets_dropped", WHOLE), Column("timeouts", WHOLE))
JOB_TIME, JOB_SLOWDOWN = Column("job_s", TIMES, "s"), Column("job_slowdown", TIMES, "1")
OUTAGE_SLOWDOWN = Column("outage_slowdown", TIMES, "1")
OF_ONE = (*OF_PACKETS, JOB_TIME, JOB_SLOWDOWN, OUTAGE_SLOWDOWN)
COLUMNS = (*NAMING, ERROR, *CHANGES, FIDELITY, *MEASURES, *OF_ONE)


def row_schema(n_dims: int, grid: Sequence[str], parameters: Sequence[str]) -> pa.Schema:
    """The schema of a study whose cells have at most ``n_dims`` dimensions.

    Grid and parameter values are text, as the config writes them.
    """
    own = [(column.name, column.type) for column in (*NAMING, ERROR, *CHANGES)]
    keys = dict.fromkeys((FIDELITY.name, *grid, *parameters))
    told = [(name, column.type) for column in MEASURES for name in column.names(n_dims)]
    of_one = [(column.name, column.type) for column in OF_ONE]
    return pa.schema([*own, *((key, TEXT) for key in keys), *told, *of_one])


def measures(run: Simulated) -> dict[str, Values | pa.Array]:
    """The values of all columns that simulated trials have, by name."""
    found = dict[str, Values | pa.Array]()
    for column in MEASURES:
        assert column.of is not None
        values = column.of(run)
        if values is None:
            continue
        if column.of_dims and isinstance(values, np.ndarray):
            found |= {name: values[:, d] for d, name in enumerate(column.names(values.shape[1]))}
        else:
            found[column.name] = values
    return found
