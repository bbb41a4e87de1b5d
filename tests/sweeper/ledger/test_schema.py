"""The columns of rows: what each says of a run, its unit, and that the documentation knows it."""

import hashlib
import itertools
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dimsweep.engine import Breakdown
from dimsweep.engine import Path as Critical
from dimsweep.sweeper.ledger.rows import (
    BANDWIDTH,
    COLUMNS,
    MEASURES,
    ROWS_VERSION,
    SLOPE,
    complete_rows,
    numbers,
    row_schema,
    slope_columns,
    slopes,
)
from dimsweep.sweeper.objective import OBJECTIVES

P, D = 2, 3
SUFFIXES = {"s": "s", "ps": "ps", "usd": "USD", "GBps": "GB/s", "w": "W", "j": "J"}


_numbers = itertools.count(1)


def numbered(*shape: int) -> np.ndarray:
    """No two of these numbers are equal, in whatever array they are."""
    return np.array([next(_numbers) for _ in range(int(np.prod(shape)))]).reshape(shape)


@pytest.fixture
def run() -> Breakdown:
    path = Critical(
        compute=numbered(P),
        memory=numbered(P),
        transfer=numbered(P, D),
        latency=numbered(P, D),
        endpoint=numbered(P, D),
        demand=numbered(P, D),
        hops=numbered(P, D),
    )
    per_usd = numbered(P, D).astype(float)
    per_usd[0, 1] = np.nan
    return Breakdown(
        time=numbered(P),
        compute=numbered(P),
        exposed=numbered(P),
        exposed_by_dim=numbered(P, D + 1),
        exposed_by_tally=numbered(P, 2).astype(float),
        busy=numbered(P, D),
        bytes_sent=numbered(P, D).astype(float),
        utilisation=numbered(P, D).astype(float),
        cost=numbered(P).astype(float),
        perf_per_cost=numbered(P).astype(float),
        path=path,
        per_bandwidth=numbered(P, D).astype(float),
        per_latency=None,
        per_usd=per_usd,
        merits={"mfu": numbered(P).astype(float), "power_w": numbered(P).astype(float)},
    )


def rows_of(run: Breakdown, n_dims: int = D) -> list[dict[str, object]]:
    schema = row_schema(n_dims, ["a.b"], ["c"])
    labels = {"key": ["x"] * P, "cell": [4] * P, "a.b": ["v"] * P}
    bandwidth = 1e9 * (1 + np.arange(P * D).reshape(P, D))
    return complete_rows(schema, labels, bandwidth, run, ["tensor", "data"]).to_pylist()


def test_each_column_has_what_its_name_says(run: Breakdown) -> None:
    second, path = 1e12, run.path
    assert path is not None and run.per_bandwidth is not None and run.per_usd is not None
    for p, row in enumerate(rows_of(run)):
        time = run.time[p]
        expected: dict[str, object] = {
            **{"key": "x", "cell": 4, "trial": None, "origin": None, "state": "complete"},
            **{"error": None, "change": None, "change_of": None, "changes": None},
            **{"fidelity": None, "a.b": "v", "c": None},
            **{"packets_dropped": None, "timeouts": None, "job_s": None, "job_slowdown": None},
            "outage_slowdown": None,
            **{"time_s": time / second, "time_ps": time},
            "compute_s": run.compute[p] / second,
            "exposed_s": run.exposed[p] / second,
            "waiting_s": run.exposed_by_dim[p, D] / second,
            **{"cost_usd": run.cost[p], "perf_per_cost": run.perf_per_cost[p]},  # type: ignore[index]
            **{
                "memory_bytes": None,
                "memory_reserved_bytes": None,
                "samples_per_s": None,
                "tokens_per_s": None,
            },
            **{"accuracy": None, "energy_j": None, "perf_per_watt": None, "usd_per_token": None},
            **{"ettr": None, "effective_time_s": None},
            **{name: values[p] for name, values in run.merits.items()},
            "exposed_by_collective_s": [
                ("tensor", run.exposed_by_tally[p, 0] / second),
                ("data", run.exposed_by_tally[p, 1] / second),
            ],
            "path_compute_s": path.compute[p] / second,
            "path_memory_s": path.memory[p] / second,
        }
        for d in range(D):
            expected |= {
                f"bandwidth_{d}_GBps": 1.0 + p * D + d,
                f"exposed_{d}_s": run.exposed_by_dim[p, d] / second,
                f"bytes_{d}": run.bytes_sent[p, d],
                f"busy_{d}": run.busy[p, d] / time,
                f"utilisation_{d}": run.utilisation[p, d],
                f"path_transfer_{d}_s": path.transfer[p, d] / second,
                f"path_latency_{d}_s": path.latency[p, d] / second,
                f"path_endpoint_{d}_s": path.endpoint[p, d] / second,
                f"path_hops_{d}": path.hops[p, d],
                f"ms_per_GBps_{d}": run.per_bandwidth[p, d] * 1e3 * 1e9,
                f"ms_per_usd_{d}": None if (p, d) == (0, 1) else run.per_usd[p, d] * 1e3,
            }
        assert row == expected


def test_what_is_not_known_is_null(run: Breakdown) -> None:
    """Trials by messages have no critical path, clusters without prices no cost, and rows of a
    study with more dimensions none of those."""
    by_messages = replace(
        run, path=None, per_bandwidth=None, per_usd=None, cost=None, perf_per_cost=None, merits={}
    )
    row = rows_of(by_messages, n_dims=D + 1)[0]
    for name, value in row.items():
        of_path = name.startswith(("path_", "ms_per_"))
        unknown = of_path or name in ("cost_usd", "perf_per_cost", "mfu", "power_w")
        assert (value is None) or not (unknown or re.search(rf"_{D}\b|_{D}_", name)), name
    assert row["time_s"] and row["bandwidth_2_GBps"] and row["busy_2"]


def test_a_unit_is_what_the_name_ends_with() -> None:
    for column in COLUMNS:
        words = column.name.replace("_D", "").split("_")
        if "per" in words:
            assert "/" in column.unit or column.name == "usd_per_token"
        elif words[-1] in SUFFIXES:
            assert column.unit == SUFFIXES[words[-1]]
        elif "bytes" in words:
            assert column.unit == "B"
        else:
            is_number = column.type in (pa.float64(), pa.map_(pa.string(), pa.float64()))
            assert column.unit == ("1" if is_number else ""), column.name
    assert {each.column for each in OBJECTIVES.values()} <= {each.name for each in MEASURES}


def test_the_documentation_has_every_column_and_no_other() -> None:
    text = Path("docs/results.md").read_text().partition("## Columns")[2].partition("\n## ")[0]
    heads = re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
    told = [name for head in heads for name in re.findall(r"`(\w+)`", head)]
    assert sorted(told) == sorted(column.name for column in COLUMNS)


def test_who_changes_a_column_raises_the_version() -> None:
    """Rows of different columns do not mix in a ledger, but for columns that older rows lack."""
    told = "; ".join(f"{column.name} {column.type} {column.unit}" for column in COLUMNS)
    digest = hashlib.blake2b(told.encode(), digest_size=4).hexdigest()
    assert (ROWS_VERSION, digest) == (11, "dd43a686"), told


def test_columns_of_dimensions_are_found_among_others() -> None:
    schema = row_schema(11, ["bandwidth_x_GBps"], ["ms_per_GBps"])
    assert BANDWIDTH.names(11) == BANDWIDTH.among(schema.names)
    assert BANDWIDTH.n_dims(schema.names) == 11 and BANDWIDTH.n_dims(["time_s"]) == 0
    assert slope_columns(schema) == [f"ms_per_GBps_{d}" for d in range(11)]
    assert len(set(schema.names)) == len(schema.names)


def test_slopes_are_read_as_the_search_needs_them(run: Breakdown) -> None:
    schema = row_schema(D + 1, (), ())
    bandwidth = np.ones((P, D))
    batch = complete_rows(schema, {}, bandwidth, run, ["tensor", "data"])
    found = slopes(batch, SLOPE.names(D + 1))
    assert found[:, :D] == pytest.approx(run.per_bandwidth)
    assert np.isnan(found[:, D]).all()
    assert numbers(batch, ["time_ps"])[:, 0].tolist() == run.time.tolist()
