"""Results of every earlier version are read, and never written to."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.compute as pc
import pytest

import dimsweep
from dimsweep.engine import DimsweepError
from dimsweep.sweeper.cli.main import main
from dimsweep.sweeper.ledger.ledger import Ledger
from dimsweep.sweeper.ledger.place import STUDY
from dimsweep.sweeper.ledger.record import read_record
from dimsweep.sweeper.ledger.rows import ROWS_VERSION
from dimsweep.sweeper.run.loop import StudyPlan

LEDGERS = Path(__file__).parents[2] / "golden" / "ledgers"
RECORDED = sorted(LEDGERS.glob("*/*"), key=lambda folder: (int(folder.parent.name), folder.name))
SPLITS = [folder for folder in RECORDED if folder.name == "split"]
ROWS = {"split": (8, 18), "network": (18, 18), "portfolio": (10, 33)}  # before what-ifs, and after
FASTEST = {2: 1_523_000_000, 5: 1_537_000_000}  # ps, from each version on, to a microsecond


def _name(folder: Path) -> str:
    return f"{folder.parent.name}-{folder.name}"


@pytest.fixture
def copy_of(tmp_path: Path) -> Callable[[Path], Path]:
    """Makes a copy of a recorded study, which may be written to."""
    return lambda folder: Path(shutil.copytree(folder, tmp_path / folder.name))


@pytest.mark.parametrize("folder", RECORDED, ids=_name)
def test_rows_of_every_version_are_read(folder: Path) -> None:
    version, rows = int(folder.parent.name), dimsweep.load(folder)
    assert read_record(folder).rows == version
    assert len(rows) == ROWS[folder.name][version >= 7]
    assert set(rows["state"].to_pylist()) <= {"complete", "infeasible", "failed"}
    assert rows["outage_slowdown"].null_count == len(rows)  # no earlier version has this column
    if folder.name == "split":
        own = pc.less(rows["trial"], 6)  # what-ifs come after them
        fastest = pc.min(rows.filter(own)["time_ps"]).as_py()
        known = FASTEST[max(first for first in FASTEST if first <= version)]
        assert fastest == pytest.approx(known, abs=1_000_000)


@pytest.mark.long
@pytest.mark.parametrize("folder", RECORDED, ids=_name)
def test_every_reader_reads_every_version(
    folder: Path, copy_of: Callable[[Path], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    own = copy_of(folder)
    other, out = str(SPLITS[-1]), str(own.parent / "rows")
    commands = [
        ["report", str(own)],
        ["compare", str(own), str(own)],
        ["diff", str(own), other],
        ["export", str(own), "--csv", f"{out}.csv", "--parquet", f"{out}.parquet"],
        ["sql", "SELECT count(time_s) FROM rows", str(own)],
    ]
    for command in commands:
        assert main(command) == 0, capsys.readouterr().err
    assert len(dimsweep.Results(own).cells) >= 1


@pytest.mark.parametrize("folder", [SPLITS[0], RECORDED[-1]], ids=_name)
def test_an_earlier_version_is_not_resumed_and_stays_as_it_is(
    folder: Path, copy_of: Callable[[Path], Path], small: Callable[..., StudyPlan]
) -> None:
    own, plan = copy_of(folder), small()
    (own / "study-copy.json").write_text("{}")  # a sweep would set it aside
    before = {file: file.read_bytes() for file in own.iterdir()}
    with pytest.raises(DimsweepError, match=r"cannot resume them\n.*name=") as refused:
        Ledger(own, plan.study, plan.schema)
    assert refused.value.where == str(own)
    after = {file: file.read_bytes() for file in own.iterdir() if file.name != "lock"}
    assert before == after


def test_a_later_version_is_refused_with_what_wrote_it(copy_of: Callable[[Path], Path]) -> None:
    own = copy_of(SPLITS[-1])
    node = json.loads((own / STUDY).read_text())
    del node["checksum"]
    node |= {"rows": ROWS_VERSION + 1, "a_new_key": 1}
    node["provenance"][-1]["version"] = "9.1.0"
    (own / STUDY).write_text(json.dumps(node))
    with pytest.raises(DimsweepError, match=f"format {ROWS_VERSION + 1}.*9.1.0") as refused:
        dimsweep.load(own)
    assert refused.value.where == str(own / STUDY)


def test_a_damaged_part_of_an_earlier_version_is_named(copy_of: Callable[[Path], Path]) -> None:
    own = copy_of(SPLITS[0])  # whose files have no checksums
    (part,) = own.glob("part-*")
    part.write_bytes(part.read_bytes()[:-100])
    with pytest.raises(DimsweepError, match=f"{part.name}.*\n.*move them out"):
        dimsweep.load(own)
