"""Faults of processes, machines, disks and other people, under a ledger in a folder."""

import contextlib
import errno
import fcntl
import os
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dimsweep.sweeper.ledger.ledger
from dimsweep import load
from dimsweep.engine import DimsweepError
from dimsweep.sweeper.ledger import files
from dimsweep.sweeper.ledger.ledger import SET_ASIDE, Ledger
from dimsweep.sweeper.run.loop import StudyPlan
from dimsweep.sweeper.run.session import run_in_ledger
from tests.faults.promise import against
from tests.support.disks import Disk, Fault, disk, failing_at
from tests.support.ledgers import SCHEMA, STUDY, batch, changed, dead_writer, trials, values
from tests.support.studies import TINY, planned

N, STEP, PER_PART = 20, 2, 6  # rows of a small ledger, in a batch, and in a part
WHOLE = list(range(N))


def _fill(folder: Path, acknowledged: Callable[[int], None] = lambda n: None) -> Ledger:
    """Write what is not there of the small ledger's rows, and bookmarks: several parts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dimsweep.sweeper.ledger.ledger, "ROWS_PER_PART", PER_PART)
        with Ledger(folder, STUDY, SCHEMA) as ledger:
            known = values(ledger)
            for first in range(0, N, STEP):
                if first not in known:
                    ledger.append(batch(first, STEP))
                acknowledged(first + STEP)
                if first % 8 == 0:
                    ledger.write_bookmark(0, {"told": first})
    return ledger


def _is_whole(folder: Path) -> bool:
    rows = load(folder)
    return rows["trial"].to_pylist() == WHOLE and rows["time_s"].to_pylist() == [
        i / 7 for i in WHOLE
    ]


# --- 1. processes ------------------------------------------------------------------------------


@against(1)
def the_driver_is_killed_between_any_two_things_that_it_writes(scratch: Path) -> int:
    folder, states, done = scratch / "s", list[tuple[Path, int]](), 0

    def acknowledged(n: int) -> None:
        nonlocal done
        done = n

    def keep(kind: str, file: Path) -> None:
        states.append((scratch / f"killed{len(states)}", done))
        shutil.copytree(folder, states[-1][0])

    with disk(folder, keep):
        _fill(folder, acknowledged)
    assert len(states) > 30
    for state, n in states:
        if (state / "study.json").exists():
            seen = trials(state)
            assert seen[:n] == WHOLE[:n] and len(seen) <= n + STEP, (state, n, seen)
        assert not _fill(state).notes
        assert _is_whole(state)
    return len(states)


@against(1)
def the_driver_is_killed_within_a_row(scratch: Path) -> None:
    for cut in (1, 9, 60, 200):
        folder = dead_writer(scratch / f"s{cut}", [(0, 4), (4, 4)], STUDY)
        (log,) = folder.glob("log-*")
        log.write_bytes(log.read_bytes()[:-cut])
        assert trials(folder) == WHOLE[:4]
        assert "ends within a row" in _fill(folder).notes[0] and _is_whole(folder)


# --- 2. machines -------------------------------------------------------------------------------


class _Off(BaseException):
    """The machine's current is gone."""


@against(2)
def the_machine_dies_between_any_two_writes_and_loses_what_was_not_synced(scratch: Path) -> int:
    ended = place = 0
    while not ended:
        folder, promised, left = scratch / f"off{place}", 0, iter(range(place))

        def off(kind: str, file: Path) -> None:
            nonlocal promised
            if next(left, None) is None:  # noqa: B023
                raise _Off
            if kind == "remove" and file.name.startswith("log-"):
                promised += PER_PART  # its rows are in a part

        with disk(folder, off) as machine:
            try:
                _fill(folder)
                ended = 1
            except _Off:
                pass
            machine.crash()
        seen = trials(folder) if (folder / "study.json").exists() else []
        assert seen[:promised] == WHOLE[:promised], (place, seen)
        assert not promised or not list(folder.glob("damaged/*"))
        notes = _fill(folder).notes
        assert not any("damaged" in note for note in notes), notes
        assert _is_whole(folder)
        place += 1
    assert place > 30
    return place


@against(2)
def a_machine_dies_before_it_has_kept_a_name(scratch: Path) -> None:
    """A file system keeps no name that its folder was not synced with."""
    with disk(scratch / "s") as machine:
        _fill(scratch / "s")
        parts = [file for kind, file in machine.steps if kind == "rename" and "part" in file.name]
        machine.crash()
    assert len(parts) == 4 and all(part.exists() for part in parts)
    assert _is_whole(scratch / "s")


# --- 3. disks that lie ---------------------------------------------------------------------------


def _lying(change: Callable[[bytes], bytes | None]) -> Callable[[Path, Any], None]:
    write = dimsweep.sweeper.ledger.ledger.write

    def lie(file: Path, data: Any) -> None:
        if not file.name.startswith("part-"):
            write(file, data)
        elif (kept := change(bytes(data))) is not None:
            write(file, kept)

    return lie


def _is_told(scratch: Path, change: Callable[[bytes], bytes | None]) -> None:
    for recovers in (False, True):
        folder = scratch / f"s{recovers}"
        if recovers:  # what a dead driver's log holds becomes a part
            dead_writer(folder, [(0, 4)], STUDY)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(dimsweep.sweeper.ledger.ledger, "write", _lying(change))
            with pytest.raises(
                DimsweepError, match=r"differs from the rows that were written|cannot be written"
            ):
                _fill(folder)
        assert any(files.read_log(log, STUDY.identity).batches for log in folder.glob("log-*"))
        _fill(folder)
        assert _is_whole(folder)


@against(3)
def a_disk_keeps_another_byte_of_a_part(scratch: Path) -> None:
    _is_told(scratch, lambda data: data[:50] + bytes([data[50] ^ 1]) + data[51:])


@against(3)
def a_disk_keeps_half_a_part(scratch: Path) -> None:
    _is_told(scratch, lambda data: data[: len(data) // 2])


@against(3)
def a_disk_keeps_no_part_at_all(scratch: Path) -> None:
    _is_told(scratch, lambda data: None)


@against(3)
def an_encoder_writes_other_rows_than_it_was_given(scratch: Path) -> None:
    """The checksum in the name is then right, and only the rows tell."""
    encode = files.encode_part

    def wrong(rows: pa.Table, *rest: Any) -> tuple[str, pa.Buffer]:
        times = pa.array([1.0] * len(rows))
        return encode(rows.set_column(rows.column_names.index("time_s"), "time_s", times), *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "encode_part", wrong)
        with pytest.raises(DimsweepError, match="differs from the rows that were written"):
            _fill(scratch / "s")
    assert list((scratch / "s").glob("log-*"))


# --- 4. damage ------------------------------------------------------------------------------------


def _flip(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def _damaged(scratch: Path, pattern: str, times: int) -> int:
    """Flip a bit of a file as often as that, each in a copy."""
    folder = dead_writer(scratch / "dead", [(6, 4), (10, 4), (14, 4), (18, 2)], STUDY)
    with contextlib.suppress(StopIteration):
        _fill_first(folder)
    before, draw = load(folder), random.Random(pattern)
    for i in range(times):
        copy = scratch / f"copy{i}"
        shutil.copytree(folder, copy)
        file = draw.choice(sorted(copy.glob(pattern)))
        data = file.read_bytes()
        file.write_bytes(_flip(data, draw.randrange(8 * len(data))))
        told = False
        try:
            seen = load(copy)
            assert seen.equals(before.filter(pa.compute.is_in(before["trial"], seen["trial"])))
        except DimsweepError as error:
            told = file.name in str(error)
            assert told, error
        notes = _fill(copy).notes
        assert not told or any(file.name in note for note in notes), notes
        assert not told or (copy / SET_ASIDE).exists()
        assert _is_whole(copy)
    return times


def _fill_first(folder: Path) -> None:
    """A part of rows beside the dead writer's log, under a number that comes before it."""
    table = pa.Table.from_batches([batch(0, 6)])
    name, data = files.encode_part(table, 0, STUDY.identity)
    log = next(folder.glob("log-00000-*"))
    log.rename(folder / log.name.replace("00000", "00001", 1))
    (folder / name).write_bytes(data.to_pybytes())


@against(4)
def bits_of_logs_flip(scratch: Path) -> int:
    return _damaged(scratch, "log-*", 25)


@against(4)
def bits_of_parts_flip(scratch: Path) -> int:
    return _damaged(scratch, "part-*", 25)


@against(4)
def bits_of_the_record_flip(scratch: Path) -> int:
    return _damaged(scratch, "study.json", 25)


@against(4)
def a_log_is_damaged_amid_its_rows(scratch: Path) -> None:
    """What comes before the damage is kept, and the file is."""
    folder = dead_writer(scratch / "s", [(i, 2) for i in range(0, N, 2)], STUDY)
    (log,) = folder.glob("log-*")
    data = log.read_bytes()
    log.write_bytes(_flip(data, 8 * (len(data) // 2)))
    with Ledger(folder, STUDY, SCHEMA) as ledger:
        assert 4 <= len(ledger.index) < N and log.name in ledger.notes[0]
    assert (folder / SET_ASIDE / log.name).read_bytes() != data
    _fill(folder)
    assert _is_whole(folder)


@against(4)
def files_of_another_study_and_copies_lie_in_the_folder(scratch: Path) -> None:
    other = changed(config={"a": {"b": 2}})
    with Ledger(scratch / "part", other, SCHEMA) as ledger:
        ledger.append(batch(100, 4))
    dead_writer(scratch / "log", [(100, 4)], other)
    _fill(scratch / "s")
    part = sorted((scratch / "s").glob("part-*"))[0]
    strange = [*(scratch / "part").glob("part-*"), *(scratch / "log").glob("log-*"), part]
    for i, file in enumerate(strange):
        copy = scratch / f"s{i}"
        shutil.copytree(scratch / "s", copy)
        name = f"{file.stem} (1){file.suffix}" if file is part else file.name
        shutil.copy(file, copy / name)
        with pytest.raises(DimsweepError, match=re.escape(name)):
            load(copy)
        assert name in _fill(copy).notes[0] and (copy / SET_ASIDE / name).exists()
        assert _is_whole(copy)


@against(4)
def the_record_is_gone(scratch: Path) -> None:
    """The same options go on; others are refused, and touch nothing."""
    _fill(scratch / "s")
    (scratch / "s" / "study.json").unlink()
    other = changed(config={"a": {"b": 2}})
    with pytest.raises(DimsweepError, match="the rows here belong to another study"):
        Ledger(scratch / "s", other, SCHEMA)
    assert not (scratch / "s" / SET_ASIDE).exists() and len(list(scratch.glob("s/part-*"))) == 4
    (note,) = _fill(scratch / "s").notes
    assert "study.json was not there" in note and _is_whole(scratch / "s")


# --- 5. once ------------------------------------------------------------------------------------


@against(5)
def a_trial_failed_or_was_lost_before_it_was_simulated(scratch: Path) -> None:
    for first, then in (("lost", "complete"), ("failed", "complete"), ("lost", "failed")):
        for order in (1, -1):  # of two writers, of whom one had lost its lock
            folder = scratch / f"{first}{then}{order}"
            for state in (first, then)[::order]:
                with Ledger(folder, STUDY, SCHEMA) as ledger:
                    ledger.append(batch(0, 4, state))
            assert load(folder)["state"].to_pylist() == [then] * 4
            with Ledger(folder, STUDY, SCHEMA) as ledger:
                assert len(ledger.index) == 4
                assert values(ledger)[1] == (None if then == "failed" else 1 / 7)


@against(5)
def two_sweeps_wrote_the_same_trials(scratch: Path) -> None:
    folder = scratch / "s"
    first = Ledger(folder, STUDY, SCHEMA)
    first.append(batch(0, 8))
    (folder / "lock").unlink(missing_ok=True)
    second = Ledger(folder, STUDY, SCHEMA)
    second.append(batch(4, 8))
    assert trials(folder) == WHOLE[:12]
    first.close()
    second.close()
    assert trials(folder) == WHOLE[:12]
    _fill(folder)
    assert _is_whole(folder)


@against(5)
def a_log_becomes_a_part_between_any_two_steps_of_a_load(scratch: Path) -> None:
    for moment in range(4):
        folder, steps = scratch / f"s{moment}", iter(range(100))
        with pytest.MonkeyPatch.context() as patch, Ledger(folder, STUDY, SCHEMA) as ledger:
            patch.setattr(dimsweep.sweeper.ledger.ledger, "ROWS_PER_PART", 2)
            for i in range(3):
                ledger.append(batch(i, 1))
            sealing = _sealing(ledger, moment, steps)
            for name in ("logs", "parts", "read_log", "read_part"):
                patch.setattr(files, name, sealing(getattr(files, name)))
            assert load(folder)["trial"].to_pylist()[:3] == [0, 1, 2]


def _sealing(ledger: Ledger, moment: int, steps: Any) -> Callable[[Any], Any]:
    def after(step: Callable[..., Any]) -> Callable[..., Any]:
        def stepped(*arguments: Any) -> Any:
            result = step(*arguments)
            if next(steps) == moment:
                ledger.append(batch(3, 1))  # seals the log
            return result

        return stepped

    return after


# --- 6. one writer ------------------------------------------------------------------------------


@against(6)
def a_second_sweep_begins(scratch: Path) -> None:
    with Ledger(scratch / "s", STUDY, SCHEMA) as ledger:
        with pytest.raises(DimsweepError, match="another sweep is writing"):
            Ledger(scratch / "s", STUDY, SCHEMA)
        ledger.append(batch(0, 1))
    assert trials(scratch / "s") == [0]
    _fill(scratch / "s")  # the lock is free again


@against(6)
def a_second_sweep_begins_where_there_is_no_flock(scratch: Path) -> None:
    def no_flock(*_: object) -> None:
        raise OSError(errno.ENOSYS, "this file system has none")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fcntl, "flock", no_flock)
        a_second_sweep_begins(scratch)


@against(6)
def the_lock_is_removed_and_another_sweep_takes_over(scratch: Path) -> None:
    folder = scratch / "s"
    first = Ledger(folder, STUDY, SCHEMA)
    first.append(batch(0, 4))
    (folder / "lock").unlink(missing_ok=True)
    second = Ledger(folder, STUDY, SCHEMA)
    assert len(second.index) == 4
    with pytest.raises(DimsweepError, match="another sweep has taken the study over; the 5 rows"):
        first.append(batch(100, 1))
    first.close()
    second.append(batch(4, 4))
    second.close()
    assert trials(folder) == [*range(8), 100]


@against(6)
def two_sweeps_without_a_lock_number_their_logs_alike(scratch: Path) -> None:
    """Neither writes to, nor takes away, what the other writes."""
    folder = scratch / "s"
    first = Ledger(folder, STUDY, SCHEMA)
    (folder / "lock").unlink(missing_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "logs", lambda *_: [])  # it has looked before the first one's log was
        second = Ledger(folder, STUDY, SCHEMA)
    assert first._log.number == second._log.number
    first.append(batch(0, 4))
    second.append(batch(4, 4))
    assert trials(folder) == WHOLE[:8]
    second.close()
    first.close()
    assert trials(folder) == WHOLE[:8]


# --- 9. full and read-only disks -----------------------------------------------------------------


def _swept(plan: StudyPlan) -> None:
    with Ledger(plan.folder, plan.study, plan.schema) as ledger:
        run_in_ledger(ledger, plan, watch=lambda progress: None, notify=lambda text: None)


def _only(kinds: set[str], fault: Fault) -> Fault:
    def some(kind: str, file: Path) -> None:
        if kind in kinds:
            fault(kind, file)

    return some


def _each_write_fails(scratch: Path, number: int, said: str, kinds: set[str]) -> int:
    """A small sweep, of which the first write fails and all after it, then the second, ..."""
    words = [*TINY, "executor=inline", "search.batch=2"]
    whole = planned(words, scratch / "whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dimsweep.sweeper.ledger.ledger, "ROWS_PER_PART", 3)
        patch.setattr(os, "fsync", lambda descriptor: None)  # it takes its time
        _swept(whole)
        expected, place, told = load(whole.folder), 0, 0
        while True:
            plan = planned(words, scratch / f"full{place}")
            try:
                with disk(
                    scratch / f"full{place}", _only(kinds, failing_at(place, number))
                ) as full:
                    _swept(plan)
                if place >= sum(kind in kinds for kind, _ in full.steps):
                    break  # no write was left to fail
            except DimsweepError as error:
                told += 1
                assert f"the results folder cannot be written: {said}" in str(error), error
                _is_safe(plan.folder, str(error), full)
            _swept(plan)
            assert load(plan.folder).equals(expected), place
            place += 1
        assert told > 20
        return place


def _is_safe(folder: Path, said: str, full: Disk) -> None:
    """As many rows are there as were said to be, and none that came from nowhere."""
    found = re.search(r"the (\d+) rows before this are safe", said)
    n = int(found[1]) if found else 0
    there = load(folder).num_rows if (folder / "study.json").exists() else 0
    assert n <= there <= n + 2, (n, there, full.steps[-1])


@against(9)
def the_disk_fills_up_at_each_write_in_turn(scratch: Path) -> int:
    kinds = {"open", "write", "sync", "make"}  # what needs space
    return _each_write_fails(scratch, errno.ENOSPC, "No space left on device", kinds)


@against(9)
def the_disk_turns_read_only_at_each_write_in_turn(scratch: Path) -> int:
    kinds = {"open", "write", "sync", "make", "rename", "remove"}
    return _each_write_fails(scratch, errno.EROFS, "Read-only file system", kinds)
