"""One sweep writes; should the lock fail, no writer destroys what another wrote."""

import errno
import fcntl
import shutil
from pathlib import Path

import pytest

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.ledger.ledger import Ledger
from tests.support.ledgers import SCHEMA, STUDY, batch, trials


def test_a_second_writer_after_a_lost_lock_erases_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    first = Ledger(folder, STUDY, SCHEMA)
    first.append(batch(0, 4))
    (folder / "lock").unlink()
    second = Ledger(folder, STUDY, SCHEMA)
    assert len(second.index) == 4
    second.append(batch(4, 4))
    with pytest.raises(DimsweepError, match="another sweep has taken the study over; the 5 rows"):
        first.append(batch(100, 1))
    first.close()
    second.append(batch(8, 1))
    second.close()
    assert trials(folder) == [*range(9), 100]


def test_both_writers_rows_count_once(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    first = Ledger(folder, STUDY, SCHEMA)
    first.append(batch(0, 4))
    (folder / "lock").unlink()
    second = Ledger(folder, STUDY, SCHEMA)
    second.append(batch(4, 4))
    first.close()
    second.close()
    with Ledger(folder, STUDY, SCHEMA) as third:
        third.append(batch(8, 1))
    assert trials(folder) == list(range(9))


def test_a_deleted_folder_is_told(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "s", STUDY, SCHEMA)
    ledger.append(batch(0, 4))
    shutil.rmtree(tmp_path / "s")
    with pytest.raises(DimsweepError, match="the results folder was deleted"):
        ledger.append(batch(4, 4))


@pytest.mark.parametrize("answer", [errno.ENOSYS, errno.EOPNOTSUPP, 524])
def test_without_flock_a_file_is_the_lock_and_is_said(
    answer: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_flock(*_: object) -> None:
        raise OSError(answer, "this file system has none")

    monkeypatch.setattr(fcntl, "flock", no_flock)
    with Ledger(tmp_path / "s", STUDY, SCHEMA) as ledger:
        assert "has no locks (flock)" in ledger.notes[0]
        ledger.append(batch(0, 2))
        with pytest.raises(DimsweepError, match="another sweep is writing") as second:
            Ledger(tmp_path / "s", STUDY, SCHEMA)
        assert "remove this file if no sweep is running" in second.value.hint
    with Ledger(tmp_path / "s", STUDY, SCHEMA) as ledger:
        assert len(ledger.index) == 2
