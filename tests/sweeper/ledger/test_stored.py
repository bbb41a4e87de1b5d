"""Rows a file and some columns at a time are the same rows."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dimsweep.sweeper.ledger.ledger
from dimsweep import load
from dimsweep.engine import DimsweepError
from dimsweep.sweeper.cli.sql import sql_command as sql
from dimsweep.sweeper.ledger.files import encode_part
from dimsweep.sweeper.ledger.ledger import Ledger
from dimsweep.sweeper.ledger.pieces import conform_rows
from dimsweep.sweeper.ledger.stored import Stored
from tests.support.ledgers import SCHEMA, STUDY, batch


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Parts of some rows each, of which others have some, too, and a log."""
    monkeypatch.setattr(dimsweep.sweeper.ledger.ledger, "ROWS_PER_PART", 4)
    first = Ledger(tmp_path / "s", STUDY, SCHEMA)
    for i in range(0, 12, 2):
        first.append(batch(i, 2))
    (tmp_path / "s" / "lock").unlink(missing_ok=True)
    second = Ledger(tmp_path / "s", STUDY, SCHEMA)
    second.append(batch(10, 4))
    second.append(batch(14, 2))
    for part in sorted((tmp_path / "s").glob("part-*"))[-1:]:
        rows = pq.read_table(part).replace_schema_metadata(None)
        name, data = encode_part(rows.slice(1), 99, STUDY.identity)
        (tmp_path / "s" / name).write_bytes(data)
    second.append(batch(16, 1))
    return tmp_path / "s"


@pytest.mark.parametrize("room", [0, 10**9])
def test_pieces_are_the_whole(folder: Path, room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dimsweep.sweeper.ledger.stored._ROOM", room)
    whole, stored = load(folder), Stored(folder)
    assert whole["trial"].to_pylist() == list(range(17)) and stored.n_rows == 17
    for columns in (["trial", "time_s"], ["key"], SCHEMA.names, SCHEMA.names):
        found = list(stored.pieces(columns))
        assert len(found) > 3
        places = np.concatenate([own for own, _ in found])
        assert places.tolist() == list(range(17))
        rows = pa.concat_tables([table for _, table in found])
        assert rows.equals(stored.take(places).select(columns))
        assert stored.table(columns).equals(whole.select(columns))
        assert load(folder, columns).equals(whole.select(columns))


def test_rows_are_taken_in_the_order_of_their_places(folder: Path) -> None:
    stored = Stored(folder)
    of = np.concatenate([table["trial"].to_numpy() for _, table in stored.pieces(["trial"])])
    places = np.array([16, 0, 9, 9, 3])
    assert stored.take(places)["trial"].to_pylist() == of[places].tolist()
    assert stored.take(places[:0]).schema == stored.schema


def test_whole_parts_are_read_where_they_are_and_all_else_is_in_memory(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (lacking,) = Stored(folder).sources()
    assert isinstance(lacking, pa.Table), "the parts have not all columns of this version"
    assert lacking["trial"].to_pylist() == list(range(17))
    whole, schema = folder.parent / "whole", lacking.schema
    assert [each.num_rows for each in Stored(folder).sources()] == [17]

    def append(ledger: Ledger, first: int, n: int) -> None:
        rows = conform_rows(pa.Table.from_batches([batch(first, n)]), schema)
        ledger.append(rows.combine_chunks().to_batches()[0])

    with Ledger(whole, STUDY, schema) as ledger:
        assert [each.num_rows for each in Stored(whole).sources()] == [0]
        for first in range(0, 12, 2):
            append(ledger, first, 2)
    parts = sorted(whole.glob("part-*"))
    assert list(Stored(whole).sources()) == [parts] and len(parts) == 3
    ledger = Ledger(whole, STUDY, schema)
    append(ledger, 10, 4)  # two of them are in a part
    append(ledger, 14, 1)
    before, rest = Stored(whole).sources()
    assert before == parts and rest["trial"].to_pylist() == [12, 13, 14]
    sql.callback("SELECT trial FROM rows", [str(whole)], as_csv=True)  # type: ignore[misc]
    assert capsys.readouterr().out.split() == ["trial", *map(str, range(15))]
    ledger.close()


def test_a_column_that_is_none_is_named(folder: Path) -> None:
    with pytest.raises(DimsweepError, match="unknown column 'tim_s'"):
        load(folder, ["tim_s"])
