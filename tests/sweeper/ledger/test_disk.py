"""A disk that fails ends in one sentence, which says that the rows are safe."""

import os
import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dimsweep import load
from dimsweep.engine import DimsweepError
from dimsweep.sweeper.ledger.ledger import Ledger
from tests.support.ledgers import SCHEMA, STUDY, batch, trials


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """No file grows beyond ``size`` bytes: what reaches it is written, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_keeps_the_rows_before(tmp_path: Path) -> None:
    told = "File too large; the 4 rows before this are safe"

    def sweep() -> None:
        with Ledger(tmp_path, STUDY, SCHEMA) as ledger:
            ledger.append(batch(0, 4))
            (log,) = tmp_path.glob("log-*")
            with largest_file(log.stat().st_size + 100):
                ledger.append(batch(4, 4))

    with pytest.raises(DimsweepError, match=told):
        sweep()
    assert trials(tmp_path) == [0, 1, 2, 3]
    with Ledger(tmp_path, STUDY, SCHEMA) as ledger:
        assert len(ledger.index) == 4
        ledger.append(batch(4, 4))
    assert trials(tmp_path) == list(range(8))


def test_a_full_disk_at_the_end_keeps_the_log(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, STUDY, SCHEMA)
    ledger.append(batch(0, 4))
    with largest_file(100), pytest.raises(DimsweepError, match="the 4 rows before this are safe"):
        ledger.close()
    assert trials(tmp_path) == [0, 1, 2, 3]


def test_a_deleted_folder_is_told_at_the_end_too(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "s", STUDY, SCHEMA)
    ledger.append(batch(0, 4))
    shutil.rmtree(tmp_path / "s")
    with pytest.raises(DimsweepError, match="the results folder was deleted"):
        ledger.close()


def test_a_read_only_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(*_: object, **__: object) -> int:
        raise OSError(30, os.strerror(30))

    monkeypatch.setattr(os, "open", read_only)
    with pytest.raises(DimsweepError, match="cannot be written: Read-only file system"):
        Ledger(tmp_path, STUDY, SCHEMA)


def test_no_rows_are_a_table_with_all_columns(tmp_path: Path) -> None:
    with Ledger(tmp_path, STUDY, SCHEMA):
        pass
    rows = load(tmp_path)
    assert len(rows) == 0 and {"key", "state", "time_s"} <= set(rows.column_names)
