"""Commands around a study: begin one, compare, export and ask its rows, and look at the machine."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console

from dimsweep import load
from dimsweep.engine import MODEL_VERSION
from dimsweep.sweeper.cli import sweep
from dimsweep.sweeper.cli.main import main
from dimsweep.sweeper.config.compose import compose


@pytest.fixture
def studies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two small studies in results/ of the current folder."""
    monkeypatch.chdir(tmp_path)
    words = ["study=libra_gpt3_4d", "executor=inline", "budget.trials=4", "collective.chunks=4"]
    words += ["search=random", "what_if=null"]
    monkeypatch.setattr(sweep, "_report", lambda *_, **__: None)  # its page takes seconds
    for name, seed in (("one", 0), ("two", 1)):
        plan = compose([*words, f"name={name}", f"search.seed={seed}"])
        assert sweep.sweep_study(plan, Console(quiet=True)) == 0
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    capsys.readouterr()
    assert main(words) == code
    captured = capsys.readouterr()
    return captured.out if code == 0 else captured.err


def test_rows_are_compared_exported_and_asked(
    studies: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = said(capsys, "compare", "one", "results/two").splitlines()
    assert table[0].split()[:2] == ["study", "time"] and "over best" in table[0]
    assert [line.split()[0] for line in table[1:]] == ["one", "two"]
    assert any("1.00x" in line.split() for line in table)

    files = ["--csv", "r.csv", "--parquet", "r.pq", "--optuna", "r.journal"]
    assert "wrote r.csv" in said(capsys, "export", "one", *files)
    rows = pd.read_csv("r.csv")
    assert rows["time_s"].to_list() == pd.read_parquet("r.pq")["time_s"].to_list()
    assert json.loads(rows["exposed_by_collective_s"][0]).keys() >= {"all_reduce tensor"}
    assert "r.journal" in said(capsys, "export", "two", "--optuna", "r.journal")

    query = "SELECT count(*) AS n, min(rows.time_s) AS best FROM rows JOIN two USING (trial)"
    answer = said(capsys, "sql", query, "one", "two", "--csv").split()
    assert answer == ["n,best", f"4,{rows['time_s'].min()}"]
    assert "all_reduce" not in said(capsys, "sql", "SELECT trial FROM rows", "one")
    Path("results/one").rename("results/an 'odd' [a-z]*")  # no pattern, and no end of a text
    assert said(capsys, "sql", query, "an 'odd' [a-z]*", "two", "--csv").split() == answer
    Path("results/an 'odd' [a-z]*").rename("results/one")


def test_a_design_is_the_row_that_a_study_has_of_it(
    studies: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = pd.DataFrame(load("results/one").to_pandas()).iloc[0]
    split = ",".join(f"{float(row[f'bandwidth_{d}_GBps'])!r} GB/s" for d in range(4))
    words = ["study=libra_gpt3_4d", "collective.chunks=4", f"topology.bandwidth=[{split}]"]
    shown = json.loads(said(capsys, "simulate", "--json", *words))
    assert shown.pop("model") == MODEL_VERSION
    own = shown.pop("path_by_compute_s"), shown.pop("path_by_collective_s"), shown.pop("classes")
    along = sum(own[0].values()) + sum(sum(by_dim.values()) for by_dim in own[1].values())
    assert along == pytest.approx(row["time_s"], rel=1e-12)
    assert own[0]["compute"] == row["path_compute_s"]
    assert [cls["compute_s"] for cls in own[2]] == [row["compute_s"]], "the last rank's, and all's"
    assert shown["exposed_by_collective_s"] == dict(row["exposed_by_collective_s"])
    assert shown.pop("evidence")["runs"] == 0  # of which a row knows nothing
    named = {"key", "cell", "trial", "origin", "exposed_by_collective_s"}
    known = {name for name in row.index if row[name] is not None and row[name] == row[name]}
    assert shown.keys() - named == known - named
    assert all(shown[name] == row[name] for name in known - named)


def test_questions_that_cannot_be_answered(
    studies: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "tables: rows, one" in said(capsys, "sql", "SELECT nope FROM rows", "one", code=1)
    told = said(capsys, "sql", "COPY rows TO 'x.csv'", "one", code=1)
    assert "query: Permission" in told, "a query reads and writes no files"
    assert "query" in said(capsys, "sql", " ", "one", code=1)
    assert "say what to write" in said(capsys, "export", "one", code=1)
    assert "no study here" in said(capsys, "compare", "one", "three", code=1)


@pytest.mark.parametrize("question", ["network", "split", "shape", "plan", "price"])
def test_a_new_study_composes_as_it_is(
    question: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "dimsweep sweep mine runs it" in said(capsys, "new", "mine", "--question", question)
    file = tmp_path / "studies" / "mine.yaml"
    assert "dimsweep sweep mine " in file.read_text()
    config = compose(["study=mine"]).config
    assert config.space.bandwidth.is_searched == (question not in ("network", "plan"))
    for again in ("mine", "mine.yaml"):
        assert "studies/mine.yaml" in said(capsys, "new", again, code=1)
    assert "cannot name a file" in said(capsys, "new", "../up", code=1)


def test_the_doctor_knows_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = said(capsys, "doctor")
    for part in ("dimsweep ", "numba ", "cores", "GB free", "kernel: ", "nothing is wrong"):
        assert part in text
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 5})())
    assert main(["doctor"]) == 1
    assert "has less than 1 GiB free" in capsys.readouterr().out


LLAMA = ("simulate", "--full", "workload=llama3_70b", "cluster=dgx_h100", "nodes=512")


def test_simulate_says_what_interruptions_leave(capsys: pytest.CaptureFixture[str]) -> None:
    shown = said(capsys, *LLAMA, "reliability=llama3")
    for name, value in (
        ("one in the mean every", "12 h"),
        ("a checkpoint holds", "987.752 GB"),
        (r"time for training \(ETTR\)", "98.2%"),
    ):
        assert re.search(f"{name} +{value}", shown)
    assert "twice as many interruptions would leave 96.7% for training, half as many 99.0%" in shown

    found = json.loads(said(capsys, "simulate", "--json", *LLAMA[1:], "reliability=llama3"))
    assert found["between_interruptions_s"] == pytest.approx(2112 * 86400 / 4096)
    assert found["checkpoint_bytes"] == pytest.approx(14 * 70.55e9, rel=1e-3)
    assert found["effective_time_s"] == pytest.approx(found["time_s"] / found["ettr"])
    plain = json.loads(said(capsys, "simulate", "--json", *LLAMA[1:]))
    assert plain.keys() == found.keys() - {
        *("between_interruptions_s", "checkpoint_bytes", "checkpoint_interval_s"),
        *("checkpoint_stall_s", "outages", "effective_time_s", "ettr", "waiting_for_repair"),
    }
    assert plain["time_ps"] == found["time_ps"]


def test_simulate_says_how_many_spares_pay(capsys: pytest.CaptureFixture[str]) -> None:
    repair = "reliability.repair.time=24 hour"
    shown = said(capsys, *LLAMA, "reliability=llama3", "reliability.spares=4", repair)
    assert re.search(r"nodes in repair in the mean +1\.33", shown)
    assert re.search(r"time for training \(ETTR\) +97\.3%", shown)
    assert re.search(r"waiting for a repair +0\.9%", shown)
    _, below = shown.split("per paid node, vs best")
    rows = [line.split("  ")[0].split() for line in below.strip().splitlines()[:3]]
    assert [row[0] for row in rows] == ["3", "4", "5"]
    assert re.search(r"\n 4 \(as now\) +0\.9% +97\.3% +99\.5%", below)
    assert re.search(r"\n 5 +0\.2% +98\.0% +100\.0%", below)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["reliability.npu_time=9 day"], "reliability.restart"),
        (["reliability=rsc1", "reliability.checkpoint.bandwidth=null"], "duration of a checkpoint"),
        (["reliability=rsc1", "reliability.npu_time=2000"], "no unit"),
        (["reliability=rsc1", "reliability.npu_time=1 hour"], "leaves no time"),
        (["reliability=rsc"], "did you mean 'rsc"),
    ],
)
def test_what_is_wrong_with_it_is_a_sentence(
    capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    assert told in said(capsys, *LLAMA, *words, code=1)
