"""Studies on an object store: one writer, each row once, through kills, and errors in one sentence.

The store is a server of the S3 protocol that the package moto brings, on the loopback interface.
"""

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from dimsweep import load
from dimsweep.engine import DimsweepError
from dimsweep.sweeper.charts import brushed, matrices
from dimsweep.sweeper.cli.main import main
from dimsweep.sweeper.ledger import lock
from dimsweep.sweeper.ledger.ledger import Ledger
from dimsweep.sweeper.ledger.place import Place, list_folder, parse_place
from tests.support.ledgers import SCHEMA, STUDY, batch, changed, trials, values
from tests.support.studies import TINY, planned, run
from tests.support.waiting import until

BEAT = 0.1  # seconds


@pytest.fixture(scope="module")
def store() -> Iterator[Any]:
    """A server, reached as a user would: by what the environment says."""
    s3fs = pytest.importorskip("s3fs", reason="s3fs is not installed (pip install -e '.[dev]')")
    moto = pytest.importorskip("moto.server", reason="moto is not installed")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        environment.setenv("AWS_ACCESS_KEY_ID", "somebody")
        environment.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        environment.setenv("AWS_DEFAULT_REGION", "us-east-1")
        s3fs.S3FileSystem.clear_instance_cache()
        yield s3fs.S3FileSystem()
        s3fs.S3FileSystem.clear_instance_cache()
    server.stop()


@pytest.fixture
def bucket(store: Any, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A bucket of its own for each test."""
    monkeypatch.setattr(lock, "BEAT", BEAT)
    name = f"test{time.monotonic_ns()}"
    store.mkdir(name)
    return parse_place(f"s3://{name}")


def dead(ledger: Ledger) -> None:
    """As if its process had been killed."""
    ledger._lock._stop.set()
    ledger._lock._thread.join()


def names(folder: Place) -> list[str]:
    return [entry.name.partition("-")[0] for entry in list_folder(folder)]


@pytest.mark.long
def test_rows_are_written_and_read(bucket: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dimsweep.sweeper.ledger.ledger.ROWS_PER_PART", 10)
    folder = bucket / "results" / "s"
    with Ledger(folder, STUDY, SCHEMA) as ledger:
        for i in range(4):
            ledger.append(batch(4 * i, 4))
        until(lambda: len(load(folder)) == 16)
        assert names(folder) == ["lease", "log", "part", "study.json"]
    assert names(folder) == ["part", "part", "study.json"]
    assert trials(folder) == list(range(16))


def test_a_second_writer_is_refused(bucket: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "PATIENCE", 2000)  # beats come late where a machine is loaded
    folder = bucket / "s"
    with Ledger(folder, STUDY, SCHEMA) as ledger:
        with pytest.raises(DimsweepError, match="another sweep is writing") as second:
            Ledger(folder, STUDY, SCHEMA)
        assert "is that of process" in second.value.hint
        ledger.append(batch(0, 1))
    assert trials(folder) == [0]


@pytest.mark.long
def test_a_killed_writer_loses_no_row_that_was_saved(bucket: Place) -> None:
    folder = bucket / "s"
    killed = Ledger(folder, STUDY, SCHEMA)
    killed.append(batch(0, 4))
    until(lambda: len(load(folder)) == 4)
    dead(killed)
    killed.append(batch(4, 4))  # in its memory alone
    assert killed._n_safe == 4
    with Ledger(folder, STUDY, SCHEMA) as ledger:
        assert "seems dead" in ledger.notes[0]
        assert list(values(ledger)) == [0, 1, 2, 3]
        ledger.append(batch(4, 4))
        assert list_folder(folder)[0].name == "lease-00002.json"
    assert trials(folder) == list(range(8))


def _taken_from(folder: Place) -> Ledger:
    """A second writer, once the first one's lease has gone; the first may renew it meanwhile."""
    for _ in range(20):
        (folder / "lease-00001.json").unlink()
        with suppress(DimsweepError):
            return Ledger(folder, STUDY, SCHEMA)
    raise AssertionError("the first writer has renewed its lease twenty times")


@pytest.mark.long
def test_a_writer_that_was_taken_for_dead_stops(bucket: Place) -> None:
    folder = bucket / "s"
    first = Ledger(folder, STUDY, SCHEMA)
    first.append(batch(0, 4))
    until(lambda: len(load(folder)) == 4)
    with _taken_from(folder) as second:
        assert len(second.index) == 4
        until(lambda: first._lock._lost)
        with pytest.raises(DimsweepError, match="another sweep has taken the study over; the 4"):
            first.append(batch(100, 1))
        first.close()
        second.append(batch(4, 4))
    assert trials(folder) == [*range(8), 100]


@pytest.mark.long
def test_a_store_that_is_gone_for_long_is_told(
    bucket: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone() -> bool:
        raise OSError("no route to host")

    folder = bucket / "s"
    with Ledger(folder, STUDY, SCHEMA) as ledger:
        ledger.append(batch(0, 4))
        until(lambda: len(load(folder)) == 4)
        with monkeypatch.context() as away:
            away.setattr(ledger._lock._lease, "renew", gone)
            away.setattr(lock, "PATIENCE", 10**9)
            until(lambda: ledger._lock._failures >= 2)
            ledger.append(batch(4, 4))  # it may come back
            away.setattr(lock, "PATIENCE", 3)
            until(lambda: ledger._lock._failures >= 3)
            with pytest.raises(DimsweepError, match="no route to host; the 4 rows before this"):
                ledger.append(batch(8, 4))
        until(lambda: not ledger._lock._failures)
    assert trials(folder) == list(range(12))


@pytest.mark.long
def test_damage_is_named_and_set_aside(bucket: Place) -> None:
    folder = bucket / "s"
    with Ledger(folder, STUDY, SCHEMA) as ledger:
        ledger.append(batch(0, 4))
    (part,) = (entry for entry in list_folder(folder) if entry.name.startswith("part"))
    data = bytearray(part.read_bytes())
    data[100] ^= 1
    part.write_bytes(bytes(data))
    with pytest.raises(DimsweepError, match=part.name):
        load(folder)
    with Ledger(folder, STUDY, SCHEMA) as ledger:
        assert part.name in ledger.notes[0] and not values(ledger)
        ledger.append(batch(0, 4))
    assert (folder / "damaged" / part.name).exists()
    assert trials(folder) == [0, 1, 2, 3]


def test_a_store_that_keeps_nothing_is_told_at_once(
    bucket: Place, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It acknowledges each PUT; a study that it has no record of could not be read."""
    folder, call = bucket / "s", type(store)._call_s3

    async def lie(self: Any, method: str, *rest: Any, **more: Any) -> Any:
        if method == "put_object" and more["Key"].endswith("study.json"):
            return {}
        return await call(self, method, *rest, **more)

    with monkeypatch.context() as lying:
        lying.setattr(type(store), "_call_s3", lie)
        with pytest.raises(DimsweepError, match=r"study\.json was written, and is not there"):
            Ledger(folder, STUDY, SCHEMA)
    with Ledger(folder, STUDY, SCHEMA) as ledger:
        assert not ledger.notes
        ledger.append(batch(0, 4))
    assert trials(folder) == [0, 1, 2, 3]


@pytest.mark.long
def test_rows_whose_record_a_store_has_lost_are_gone_on_with(bucket: Place) -> None:
    folder = bucket / "s"
    with Ledger(folder, STUDY, SCHEMA) as ledger:
        ledger.append(batch(0, 4))
    (folder / "study.json").unlink()
    with pytest.raises(DimsweepError, match="the rows here belong to another study"):
        Ledger(folder, changed(config={"a": {"b": 2}}), SCHEMA)
    assert names(folder) == ["part"], "it is left as it was"
    with Ledger(folder, STUDY, SCHEMA) as ledger:
        (note,) = ledger.notes
        assert "study.json was not there beside the rows, and is written again" in note
        assert list(values(ledger)) == [0, 1, 2, 3]
        ledger.append(batch(4, 4))
    assert trials(folder) == list(range(8))


@pytest.mark.long
def test_a_study_is_swept_resumed_reported_and_compared(
    bucket: Place,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lock, "BEAT", 1.0)
    monkeypatch.setattr(
        "dimsweep.sweeper.charts.CHARTS", (matrices.RECHECK, brushed.TABLE)
    )  # they take their time

    def sweep(results: object, trials: int) -> Place:
        plan = planned([*TINY, f"budget.trials={trials}"], results)
        assert run(plan).done == trials
        return plan.folder

    sweep(f"{bucket}results", 4)
    there, here = sweep(f"{bucket}results", 6), sweep(tmp_path, 6)
    assert str(there) == f"{bucket}results/libra_gpt3_4d"
    assert [entry.name.partition("-")[0] for entry in list_folder(there)] == [
        "part",
        "part",
        "study.json",
    ]
    assert load(str(there)).equals(load(here))
    assert main(["reproduce", str(there), "--sample", "2"]) == 0
    assert main(["diff", str(there), str(here)]) == 0
    assert main(["report", *TINY, f"results={bucket}results"]) == 0
    assert "of those in both 6 are the same" in capsys.readouterr().out
    assert (there / "report" / "report.html").exists()


@pytest.mark.parametrize(
    ("results", "told"),
    [
        ("s3://nothing-of-this-name/results", "The specified bucket does not exist"),
        ("nosuch://bucket/results", "Unsupported filesystem: 'nosuch'"),
    ],
)
def test_what_cannot_be_reached_is_one_sentence(
    results: str, told: str, bucket: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sweep", *TINY, "executor=inline", f"results={results}"]) == 1
    said = capsys.readouterr().err
    assert told in said and "Traceback" not in said
