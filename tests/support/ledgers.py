"""A small ledger: its columns, its study, and batches of rows."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa

from dimsweep import load
from dimsweep.sweeper.ledger.ledger import Ledger
from dimsweep.sweeper.ledger.record import StudyRecord
from dimsweep.sweeper.ledger.rows import ROWS_VERSION

SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("cell", pa.int32()),
        ("trial", pa.int32()),
        ("origin", pa.string()),
        ("state", pa.string()),
        ("time_s", pa.float64()),
    ]
)
STUDY = StudyRecord(
    name="s", model=1, rows=ROWS_VERSION, objective=("time",), config={"a": {"b": 1}}
)


def changed(**fields: object) -> StudyRecord:
    """The same study, but for some fields."""
    return STUDY.model_copy(update=fields)


def key(trial: int) -> str:
    """The key of a trial's row."""
    return f"{trial:032x}"


def values(ledger: Ledger) -> dict[int, float | None]:
    """The values that a ledger remembers, by trial."""
    places = ledger.index.places([key(i) for i in range(1000)], 0)
    found = {i: ledger.index.values(places[i])[0] for i in np.flatnonzero(places >= 0).tolist()}
    assert len(found) == len(ledger.index)
    return {i: None if np.isnan(value) else value for i, value in found.items()}


def batch(first: int, n: int, state: str = "complete") -> pa.RecordBatch:
    numbers = list(range(first, first + n))
    keys, times = [key(i) for i in numbers], [i / 7 for i in numbers]
    columns = [keys, [0] * n, numbers, ["tpe"] * n, [state] * n, times]
    return pa.record_batch(
        [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def trials(folder: Path) -> list[int]:
    return load(folder).column("trial").to_pylist()


def dead_writer(folder: Path, batches: Iterable[tuple[int, int]], study: StudyRecord) -> Path:
    """The folder of a ledger whose writer died with ``batches`` in its log."""
    ledger = Ledger(folder, study, SCHEMA)
    for first, n in batches:
        ledger.append(batch(first, n))
    ledger._log.close()
    ledger._lock.release()
    return folder
