"""The ledger survives being cut off anywhere, and keeps studies apart."""

import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dimsweep.sweeper.ledger.ledger
from dimsweep import load
from dimsweep.engine import DimsweepError
from dimsweep.sweeper.ledger import files
from dimsweep.sweeper.ledger.ledger import Ledger
from dimsweep.sweeper.ledger.rows import count_keys_once
from tests.support.ledgers import SCHEMA, STUDY, batch, changed, dead_writer, key, trials, values


def test_rows_are_read_back_in_order(tmp_path: Path) -> None:
    with Ledger(tmp_path / "s", STUDY, SCHEMA) as ledger:
        ledger.append(batch(5, 3))
        ledger.append(batch(0, 5))
        assert trials(tmp_path / "s") == list(range(8)), "readable while it is being written"
    assert trials(tmp_path / "s") == list(range(8))
    (part,) = (tmp_path / "s").glob("part-*")
    assert part.name.startswith("part-00000-")
    assert not list((tmp_path / "s").glob("log-*"))


def test_full_logs_become_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dimsweep.sweeper.ledger.ledger, "ROWS_PER_PART", 10)
    with Ledger(tmp_path / "s", STUDY, SCHEMA) as ledger:
        for i in range(5):
            ledger.append(batch(4 * i, 4))
    assert len(list((tmp_path / "s").glob("part-*"))) == 2
    assert trials(tmp_path / "s") == list(range(20))


def test_values_are_remembered_on_resume(tmp_path: Path) -> None:
    with Ledger(tmp_path / "s", STUDY, SCHEMA) as ledger:
        ledger.append(batch(0, 2))
        ledger.append(batch(2, 1, "failed"))
    with Ledger(tmp_path / "s", STUDY, SCHEMA) as ledger:
        assert values(ledger) == {0: 0.0, 1: 1 / 7, 2: None}


@pytest.fixture
def dead(tmp_path: Path) -> Path:
    """The folder of a ledger whose writer died with seven rows in its log."""
    return dead_writer(tmp_path / "s", [(0, 4), (4, 3)], STUDY)


KILLED = """
import os, sys, signal
from collections.abc import Callable
from pathlib import Path
from typing import Any
sys.path.insert(0, {root!r})
from dimsweep.sweeper.ledger import files
from dimsweep.sweeper.ledger.ledger import Ledger
from tests.support.ledgers import SCHEMA, STUDY, batch
ledger = Ledger(Path({folder!r}), STUDY, SCHEMA)
ledger.append(batch(0, 4))
ledger.append(batch(4, 3))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_writer_loses_nothing_appended(tmp_path: Path) -> None:
    killed = tmp_path / "s"
    script = KILLED.format(root=str(Path(__file__).resolve().parents[3]), folder=str(killed))
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -9
    assert trials(killed) == list(range(7))
    with Ledger(killed, STUDY, SCHEMA) as ledger:
        assert len(ledger.index) == 7
        ledger.append(batch(7, 1))
    assert trials(killed) == list(range(8))


@pytest.mark.parametrize("lost", [1, 9, 60, 200])
def test_a_truncated_log_loses_only_its_tail(dead: Path, lost: int) -> None:
    (log,) = dead.glob("log-*")
    log.write_bytes(log.read_bytes()[:-lost])
    assert trials(dead) == list(range(4)), "the second batch is cut, the first is whole"
    with Ledger(dead, STUDY, SCHEMA) as ledger:
        ledger.append(batch(4, 3))
    assert trials(dead) == list(range(7))


def test_an_empty_log_is_no_rows(dead: Path) -> None:
    (log,) = dead.glob("log-*")
    log.write_bytes(b"")
    with Ledger(dead, STUDY, SCHEMA) as ledger:
        assert values(ledger) == {}


def test_a_log_that_became_a_part_is_not_counted_twice(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    with Ledger(folder, STUDY, SCHEMA) as ledger:
        ledger.append(batch(0, 4))
        log = ledger._log.path.read_bytes()
    # As if the writer had died after renaming the part and before removing the log.
    ledger._log.path.write_bytes(log)
    assert trials(folder) == list(range(4))
    with Ledger(folder, STUDY, SCHEMA) as ledger:
        ledger.append(batch(4, 1))
    assert trials(folder) == list(range(5))


@pytest.mark.parametrize("states", list(itertools.permutations(("complete", "failed", "lost"))))
def test_of_rows_of_one_trial_the_most_that_is_known_counts(states: Sequence[str]) -> None:
    """What was simulated before what failed, and this before what was lost, wherever they are."""
    for n in (2, 3):
        own = states[:n]
        rows = pa.Table.from_batches([batch(7, 1, state) for state in own])
        (state,) = count_keys_once(rows)["state"].to_pylist()
        assert state == min(own)  # which is the order of the alphabet


def test_another_study_is_refused_with_the_difference(tmp_path: Path) -> None:
    with Ledger(tmp_path / "s", STUDY, SCHEMA) as ledger:
        ledger.append(batch(0, 1))
    with pytest.raises(DimsweepError, match=r"a\.b: 1 -> 2"):
        Ledger(tmp_path / "s", changed(config={"a": {"b": 2}}), SCHEMA)
    with pytest.raises(DimsweepError, match="model: 1 -> 2"):
        Ledger(tmp_path / "s", changed(model=2), SCHEMA)
    assert trials(tmp_path / "s") == [0]


def test_a_ledger_from_before_rows_had_versions_is_not_mixed(tmp_path: Path) -> None:
    with Ledger(tmp_path / "s", STUDY, SCHEMA) as ledger:
        ledger.append(batch(0, 1))
    (tmp_path / "s" / "study.json").write_bytes(changed(rows=None).to_json())
    with pytest.raises(DimsweepError, match="cannot resume"):
        Ledger(tmp_path / "s", STUDY, SCHEMA)


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    with (
        Ledger(tmp_path / "s", STUDY, SCHEMA),
        pytest.raises(DimsweepError, match="another sweep"),
    ):
        Ledger(tmp_path / "s", STUDY, SCHEMA)


def test_a_folder_that_is_no_study(tmp_path: Path) -> None:
    with pytest.raises(DimsweepError, match="no study here"):
        load(tmp_path)
    (tmp_path / "study.json").write_text("[1")
    with pytest.raises(DimsweepError, match="cannot be read"):
        load(tmp_path)


def test_an_unwritable_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DimsweepError, match="cannot be written"):
        Ledger(tmp_path / "file" / "s", STUDY, SCHEMA)


def test_study_json_is_plain(tmp_path: Path) -> None:
    with Ledger(tmp_path / "s", STUDY, SCHEMA):
        pass
    assert json.loads((tmp_path / "s" / "study.json").read_text()) == json.loads(STUDY.to_json())


@pytest.mark.parametrize("moment", range(4))
def test_no_load_misses_rows_while_a_sweep_writes(
    moment: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log is sealed, and the next one begun, between any two steps of a load."""
    folder = tmp_path / "s"
    with Ledger(folder, STUDY, SCHEMA) as ledger:
        ledger.append(batch(0, 1))
        monkeypatch.setattr(dimsweep.sweeper.ledger.ledger, "ROWS_PER_PART", 2)
        ledger.append(batch(1, 1))
        ledger.append(batch(2, 1))
        steps = iter(range(100))

        def after(step: Callable[..., Any]) -> Callable[..., Any]:
            def stepped(*arguments: Any) -> Any:
                result = step(*arguments)
                if next(steps) == moment:
                    ledger.append(batch(3, 1))  # seals the log
                return result

            return stepped

        for name in ("logs", "parts", "read_log", "read_part"):
            monkeypatch.setattr(files, name, after(getattr(files, name)))
        rows = load(folder).column("trial").to_pylist()
        monkeypatch.undo()
    assert rows[:3] == [0, 1, 2]
    assert trials(folder) == [0, 1, 2, 3]


def test_trials_that_came_out_of_order_are_found_by_their_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dimsweep.sweeper.ledger.ledger, "ROWS_PER_PART", 3)
    with Ledger(tmp_path / "s", STUDY, SCHEMA) as ledger:
        ledger.append(batch(3, 3))
        ledger.append(batch(0, 3))
    with Ledger(tmp_path / "s", STUDY, SCHEMA) as again:
        own = again.index.places([key(i) for i in range(6)], 0).tolist()
        assert own == [3, 4, 5, 0, 1, 2]
        assert again.trials(0, 5).tolist() == own[:5]
        assert again.trials(1, 5).tolist() == []
