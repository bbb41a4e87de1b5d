"""Files that are not what a sweep wrote are never read as rows: they are named and set aside."""

import random
import shutil
from pathlib import Path

import pytest

from dimsweep import load
from dimsweep.engine import DimsweepError
from dimsweep.sweeper.ledger.ledger import SET_ASIDE, Ledger
from tests.support.examples import times
from tests.support.ledgers import SCHEMA, STUDY, batch, changed, dead_writer, trials, values


@pytest.fixture
def logged(tmp_path: Path) -> Path:
    """A folder with sixteen rows in the log of a dead writer, in four batches."""
    return dead_writer(tmp_path / "s", [(0, 4), (4, 4), (8, 4), (12, 4)], STUDY)


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    """A folder with eight rows in each of two parts."""
    for first in (0, 8):
        with Ledger(tmp_path / "s", STUDY, SCHEMA) as ledger:
            if not first:
                ledger.append(batch(0, 8))
            else:
                ledger.append(batch(8, 8))
    return tmp_path / "s"


def flip(file: Path, bit: int) -> None:
    data = bytearray(file.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    file.write_bytes(data)


def resume(folder: Path) -> Ledger:
    """Go on with a study as a sweep would: evaluate what is not known."""
    with Ledger(folder, STUDY, SCHEMA) as ledger:
        for i in set(range(16)) - set(values(ledger)):
            ledger.append(batch(i, 1))
    return ledger


@pytest.mark.long
@pytest.mark.parametrize("kind", ["log", "part"])
def test_a_flipped_bit_is_never_read_as_data(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    folder: Path = request.getfixturevalue("logged" if kind == "log" else "sealed")
    whole, draw = load(folder), random.Random(kind)
    for i in range(times(80)):
        copy = tmp_path / f"{kind}{i}"
        shutil.copytree(folder, copy)
        file = sorted(copy.glob(f"{kind}-*"))[0]
        flip(file, draw.randrange(8 * file.stat().st_size))
        try:
            seen = load(copy)  # padding was hit, or the last batch looks like one in flight
        except DimsweepError as error:
            assert file.name in str(error)
        else:
            assert seen.equals(whole.slice(0, len(seen)))
            assert len(seen) == 16 or (kind == "log" and len(seen) == 12)
        notes = resume(copy).notes
        assert load(copy).equals(whole), "its trials were evaluated again"
        if kind == "part":
            assert file.name in "".join(notes)
            assert [each.name for each in (copy / SET_ASIDE).iterdir()] == [file.name]


def test_a_damaged_log_keeps_the_batches_before_the_damage(logged: Path) -> None:
    (log,) = logged.glob("log-*")
    data = log.read_bytes()
    flip(log, 8 * (len(data) // 2))
    with pytest.raises(DimsweepError, match=log.name):
        load(logged)
    with Ledger(logged, STUDY, SCHEMA) as ledger:
        assert 0 < len(ledger.index) < 16
        assert log.name in ledger.notes[0]
    assert (logged / SET_ASIDE / log.name).exists()
    assert trials(logged) == sorted(values(ledger))


def test_a_log_whose_tail_is_cut_says_so_when_it_is_resumed(logged: Path) -> None:
    (log,) = logged.glob("log-*")
    log.write_bytes(log.read_bytes()[:-9])
    assert trials(logged) == list(range(12))
    with Ledger(logged, STUDY, SCHEMA) as ledger:
        assert "ends within a row" in ledger.notes[0]


def test_a_synced_copy_is_not_counted_and_is_named(sealed: Path) -> None:
    part = sorted(sealed.glob("part-*"))[0]
    copy = part.with_name(f"{part.stem} (1).parquet")
    shutil.copy(part, copy)
    with pytest.raises(DimsweepError, match=r"\(1\)\.parquet: no sweep gives a part this name"):
        load(sealed)
    assert copy.name in resume(sealed).notes[0]
    assert trials(sealed) == list(range(16))


@pytest.mark.parametrize("name", ["study (1).json", "search-00000 (1).json"])
def test_a_copy_of_a_record_is_named(name: str, sealed: Path) -> None:
    shutil.copy(sealed / "study.json", sealed / name)
    assert trials(sealed) == list(range(16))
    assert f"{name} is damaged (no sweep gives a file this name)" in resume(sealed).notes[0]
    assert (sealed / SET_ASIDE / name).exists()
    assert not resume(sealed).notes


def test_a_damaged_bookmark_is_named(sealed: Path) -> None:
    with Ledger(sealed, STUDY, SCHEMA) as ledger:
        ledger.write_bookmark(0, {"told": 8})
    assert not resume(sealed).notes
    bookmark = sealed / "search-00000.json"
    bookmark.write_text(bookmark.read_text().replace('"told": 8', '"told": 9'))
    (note,) = resume(sealed).notes
    assert "search-00000.json is damaged (its checksum is wrong)" in note
    assert "its search starts anew" in note
    assert (sealed / SET_ASIDE / bookmark.name).exists()


def test_what_a_killed_writer_left_is_removed(sealed: Path) -> None:
    (sealed / "new-4711-study.json").write_text("half")
    assert not resume(sealed).notes
    assert not list(sealed.glob("new-*")) and trials(sealed) == list(range(16))


@pytest.mark.parametrize("kind", ["part", "log"])
def test_files_of_another_study_are_not_counted_and_are_named(
    kind: str, sealed: Path, tmp_path: Path
) -> None:
    other = changed(config={"a": {"b": 2}})
    if kind == "part":
        with Ledger(tmp_path / "other", other, SCHEMA) as ledger:
            ledger.append(batch(100, 4))
    else:
        dead_writer(tmp_path / "other", [(100, 4)], other)
    (foreign,) = (tmp_path / "other").glob(f"{kind}-*")
    shutil.copy(foreign, sealed)
    with pytest.raises(DimsweepError, match=f"{foreign.name}: it is of another study"):
        load(sealed)
    assert foreign.name in resume(sealed).notes[0]
    assert trials(sealed) == list(range(16))


def test_a_damaged_study_json_is_named_and_written_again(sealed: Path) -> None:
    file = sealed / "study.json"
    file.write_text(file.read_text().replace('"b": 1', '"b": 3'))
    with pytest.raises(DimsweepError, match="its checksum is wrong"):
        load(sealed)
    assert "study.json" in resume(sealed).notes[0]
    assert trials(sealed) == list(range(16))
    assert len(list(sealed.glob("part-*"))) == 2, "its parts are the study's own still"


def test_a_study_json_whose_checksum_has_another_name_is_damaged(sealed: Path) -> None:
    """It looked like one of another version, and the folder was to be removed."""
    file = sealed / "study.json"
    file.write_text(file.read_text().replace('"checksum"', '"chmcksum"'))
    with pytest.raises(DimsweepError, match="its checksum has another name"):
        load(sealed)
    assert "study.json" in resume(sealed).notes[0]
    assert trials(sealed) == list(range(16))


def test_damage_is_set_aside_twice(sealed: Path) -> None:
    for _ in range(2):
        part = sorted(sealed.glob("part-*"))[0]
        data = part.read_bytes()
        flip(part, 80)
        resume(sealed)
        assert trials(sealed) == list(range(16))
        assert any(p.read_bytes() == data for p in sealed.glob("part-*")), "sealed to equal bytes"
    assert len(list((sealed / SET_ASIDE).iterdir())) == 2
