"""Faults of object stores, under a ledger; the store is fsspec's own, in memory."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from upath import UPath

from dimsweep import load
from dimsweep.engine import DimsweepError
from dimsweep.sweeper.ledger import lock
from dimsweep.sweeper.ledger.ledger import Ledger
from dimsweep.sweeper.ledger.place import Place, list_folder
from tests.faults.promise import against
from tests.support.ledgers import SCHEMA, STUDY, batch, trials, values
from tests.support.waiting import until

_BEAT = 0.03  # seconds


@contextmanager
def _store(
    scratch: Path, put: Callable[[str, bytes], bytes | None] | None = None
) -> Iterator[Place]:
    """A folder of a store that keeps what ``put`` makes of a file, by its name; ``None``: nothing,
    although it says that it has it."""
    folder = UPath(f"memory://{scratch.name}-{time.monotonic_ns()}/s")
    keep = type(folder.fs).pipe_file

    def pipe(store: Any, path: str, value: bytes, **more: Any) -> None:
        if put is not None:
            changed = put(path.rsplit("/", 1)[-1], value)
            if changed is None:
                return
            value = changed
        keep(store, path, value, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lock, "BEAT", _BEAT)
        patch.setattr(type(folder.fs), "pipe_file", pipe)
        yield folder
    folder.fs.rm(folder.parent.path, recursive=True)


def _dies(ledger: Ledger) -> None:
    """As if its process had been killed."""
    ledger._lock._stop.set()  # type: ignore[attr-defined]
    ledger._lock._thread.join()  # type: ignore[attr-defined]


@against(10)
def a_store_keeps_nothing(scratch: Path) -> None:
    with _store(scratch, lambda name, data: None) as folder:
        with pytest.raises(DimsweepError, match=r"lease-00001\.json was written, and is not there"):
            Ledger(folder, STUDY, SCHEMA)
        (folder / "other").write_bytes(b"")  # or there would be nothing to remove


@against(10)
def a_store_keeps_no_record(scratch: Path) -> None:
    def nothing(name: str, data: bytes) -> bytes | None:
        return None if name == "study.json" else data

    with _store(scratch, nothing) as folder:
        with pytest.raises(DimsweepError, match=r"study\.json was written, and is not there"):
            Ledger(folder, STUDY, SCHEMA)
        names = [file.name for file in list_folder(folder)]
        assert not names, "a sweep that cannot begin leaves nothing, and holds nothing"


@against(10)
def a_store_keeps_the_record_no_longer(scratch: Path) -> None:
    """It has acknowledged the first, and drops the one at the end: the rows are there, and the same
    options go on."""
    lies = False

    def put(name: str, data: bytes) -> bytes | None:
        return None if lies and name == "study.json" else data

    with _store(scratch, put) as folder:
        ledger = Ledger(folder, STUDY, SCHEMA)
        ledger.append(batch(0, 4))
        lies = True
        (folder / "study.json").unlink()
        with pytest.raises(DimsweepError, match="is not there as it was written"):
            ledger.describe(STUDY)
        ledger.close()
        with pytest.raises(DimsweepError, match="no study here"):
            load(folder)
        lies = False
        with Ledger(folder, STUDY, SCHEMA) as ledger:
            assert "is written again" in ledger.notes[-1] and len(ledger.index) == 4
            ledger.append(batch(4, 4))
        assert trials(folder) == list(range(8))


@against(10)
def a_store_keeps_another_byte_of_a_part_or_no_part(scratch: Path) -> None:
    def flipped(name: str, data: bytes) -> bytes | None:
        return data[:50] + bytes([data[50] ^ 1]) + data[51:] if name.startswith("part") else data

    def nothing(name: str, data: bytes) -> bytes | None:
        return None if name.startswith("part") else data

    for put in (flipped, nothing):
        with _store(scratch, put) as folder:
            ledger = Ledger(folder, STUDY, SCHEMA)
            ledger.append(batch(0, 4))
            until(lambda: ledger._n_safe == 4)  # noqa: B023
            with pytest.raises(
                DimsweepError, match=r"differs from the rows that were written|cannot be written"
            ):
                ledger.close()
            put_whole = [file for file in list_folder(folder) if file.name.startswith("log")]
            assert len(put_whole) == 1, "its log is the only place of these rows"


@against(10)
def the_driver_of_a_study_on_a_store_is_killed(scratch: Path) -> None:
    with _store(scratch) as folder:
        killed = Ledger(folder, STUDY, SCHEMA)
        killed.append(batch(0, 4))
        until(lambda: len(load(folder)) == 4)
        _dies(killed)
        killed.append(batch(4, 4))  # in its memory alone
        assert killed._n_safe == 4
        with Ledger(folder, STUDY, SCHEMA) as ledger:
            assert "seems dead" in ledger.notes[0]
            assert list(values(ledger)) == [0, 1, 2, 3]
            ledger.append(batch(4, 4))
        assert trials(folder) == list(range(8))


@against(10)
def a_second_sweep_begins_on_a_store(scratch: Path) -> None:
    with _store(scratch) as folder, Ledger(folder, STUDY, SCHEMA) as ledger:
        with pytest.MonkeyPatch.context() as patient:
            patient.setattr(lock, "PATIENCE", 2000)  # beats come late where a machine is loaded
            with pytest.raises(DimsweepError, match="another sweep is writing"):
                Ledger(folder, STUDY, SCHEMA)
        ledger.append(batch(0, 1))


@against(10)
def a_driver_is_cut_off_until_another_has_its_study(scratch: Path) -> None:
    with _store(scratch) as folder:
        first = Ledger(folder, STUDY, SCHEMA)
        first.append(batch(0, 4))
        until(lambda: len(load(folder)) == 4)
        renew = first._lock._lease.renew  # type: ignore[attr-defined]
        away = True

        def cut_off() -> bool:
            if away:
                raise OSError("no route to host")
            return renew()

        first._lock._lease.renew = cut_off  # type: ignore[attr-defined]
        with Ledger(folder, STUDY, SCHEMA) as second:
            away = False
            until(lambda: not first._lock._thread.is_alive())  # type: ignore[attr-defined]
            with pytest.raises(
                DimsweepError, match="another sweep has taken the study over; the 4"
            ):
                first.append(batch(100, 1))
            first.close()
            second.append(batch(4, 4))
        assert trials(folder) == [*range(8), 100]


@against(10)
def a_store_is_gone_for_longer_than_others_wait(scratch: Path) -> None:
    with _store(scratch) as folder:
        with Ledger(folder, STUDY, SCHEMA) as ledger:
            ledger.append(batch(0, 4))
            until(lambda: len(load(folder)) == 4)
            with pytest.MonkeyPatch.context() as away:
                gone = OSError("no route to host")

                def renew() -> bool:
                    raise gone

                away.setattr(ledger._lock._lease, "renew", renew)  # type: ignore[attr-defined]
                until(lambda: ledger._lock._failures >= lock.PATIENCE)  # type: ignore[attr-defined]
                with pytest.raises(DimsweepError, match="no route to host; the 4 rows before this"):
                    ledger.append(batch(4, 4))
            until(lambda: not ledger._lock._failures)  # type: ignore[attr-defined]
        assert trials(folder) == list(range(8))
