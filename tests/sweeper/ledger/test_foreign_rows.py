"""Rows that another version wrote, or somebody by hand: whole files with other columns."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dimsweep import load
from dimsweep.engine import DimsweepError
from dimsweep.sweeper.ledger.files import encode_part
from dimsweep.sweeper.ledger.ledger import Ledger
from tests.support.ledgers import SCHEMA, STUDY, batch, trials

Change = Callable[[pa.Table], pa.Table]


def sealed(folder: Path) -> Path:
    """A study of one part of eight rows."""
    with Ledger(folder, STUDY, SCHEMA) as ledger:
        ledger.append(batch(0, 8))
    return folder


def rewrite(folder: Path, change: Change) -> None:
    """Change the rows of the part, which is then as whole as before."""
    (part,) = folder.glob("part-*")
    rows = change(pq.read_table(part).replace_schema_metadata(None))
    part.unlink()
    name, data = encode_part(rows, 1, STUDY.identity)
    (folder / name).write_bytes(data)


def with_column(name: str, values: list[object], kind: pa.DataType | None = None) -> Change:
    return lambda t: t.set_column(t.column_names.index(name), name, pa.array(values, kind))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda t: t.drop_columns("cell"), "it has no column 'cell'"),
        (lambda t: t.drop_columns("key"), "it has no column 'key'"),
        (with_column("key", ["x"] * 8), "its column 'key' has an invalid key"),
        (with_column("key", [1] * 8), "its column 'key' has an invalid key"),
        (with_column("trial", ["one"] * 8), "its column 'trial' holds string, not int32"),
        (with_column("trial", [-1] * 8), "its column 'trial' has -1"),
        (with_column("state", [None] * 8, pa.string()), "'state' has no value in some rows"),
        (with_column("time_s", ["fast"] * 8), "its column 'time_s' holds string, not double"),
        (with_column("time_s", [None] * 8, pa.float64()), "are complete and have no time"),
        (lambda t: t.append_column("cell", t["cell"]), "it has two columns 'cell'"),
    ],
)
def test_rows_that_are_none_are_told_and_set_aside(
    tmp_path: Path, change: Change, told: str
) -> None:
    folder = sealed(tmp_path / "s")
    rewrite(folder, change)
    with pytest.raises(DimsweepError, match="not what a sweep wrote") as error:
        load(folder)
    assert told in error.value.problem
    with Ledger(folder, STUDY, SCHEMA) as ledger:  # going on with the study mends it
        assert len(ledger.index) == 0
        ledger.append(batch(0, 8))
    assert trials(folder) == list(range(8))


def test_columns_that_an_older_version_did_not_write_have_no_values(tmp_path: Path) -> None:
    folder = sealed(tmp_path / "s")
    rewrite(folder, lambda t: t.append_column("newer", pa.array([1] * 8)))
    rows = load(folder)
    assert rows["newer"].to_pylist() == [1] * 8
    assert rows["cost_usd"].null_count == 8 and rows["cost_usd"].type == pa.float64()
    assert rows["time_s"].to_pylist() == batch(0, 8)["time_s"].to_pylist()


def test_numbers_of_another_width_are_read(tmp_path: Path) -> None:
    folder = sealed(tmp_path / "s")
    rewrite(folder, with_column("trial", list(range(8)), pa.int64()))
    assert load(folder)["trial"].type == pa.int32() and trials(folder) == list(range(8))
