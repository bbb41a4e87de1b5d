"""Studies in Python: the same rows, ledger and resume as the command line's."""

from pathlib import Path

import pandas as pd
import pytest

import sweeper
from engine import DimsweepError
from sweeper.cli.main import main
from sweeper.run.driver import Progress
from tests.support.studies import TINY

KEYS = {
    "name": "mine",
    "workload": "gpt3_libra",
    "workload.layers": 1,
    "workload.parallel": {"tensor": 4, "data": "rest"},
    "topology": "libra_4d",
    "topology.shape": "Ring(4)_Switch(2)",
    "topology.latency": "500 ns",
    "topology.tiers": [],
    "collective.chunks": 2,
    "search": "random",
    "executor": "inline",
    "space": {"bandwidth": {"total": "200 GB/s"}},
    "budget.trials": 6,
    "what_if": None,
}
WORDS = [*TINY, "executor=inline"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("here")
def test_python_and_the_command_line_write_the_same_rows() -> None:
    study = sweeper.Study.load("libra_gpt3_4d", *WORDS[1:], "name=python").run()
    assert main(["sweep", *WORDS, "name=shell", "search.enqueue=true"]) == 0
    pd.testing.assert_frame_equal(
        study.to_pandas(), sweeper.load("results/shell").to_pandas(), check_exact=True
    )


@pytest.mark.usefixtures("here")
def test_a_study_built_in_code_is_run_once_and_continued() -> None:
    seen: list[Progress] = []
    study = sweeper.Study(KEYS).run()
    rows = study.to_pandas()
    assert len(rows) == 6
    sweeper.Study(KEYS, "budget.trials=8").run(seen.append)
    assert seen[-1].done == 8 and seen[-1].reused == 6
    pd.testing.assert_frame_equal(study.to_pandas().head(6), rows)


@pytest.mark.usefixtures("here")
def test_what_a_study_found() -> None:
    study = sweeper.Study({**KEYS, "grid": {"collective.chunks": [1, 2]}}).run()
    rows = study.to_pandas()
    assert study.best["time_s"] == rows["time_s"].min()
    assert study.bound is None or study.bound <= study.best["time_s"]
    assert list(study.cells["collective.chunks"]) == ["1", "2"]
    assert list(study.front["time_s"]) == list(rows.groupby("cell")["time_s"].min())
    assert study.headline.endswith(".")


@pytest.mark.usefixtures("here")
def test_what_one_change_does_is_a_table() -> None:
    asked = {"twice, [so]": {"collective.chunks": "x2"}, "fast": {"topology.bandwidth[1]": "x2"}}
    study = sweeper.Study({**KEYS, "what_if": asked}).run()
    found = study.what_if.set_index("change")
    assert set(found.index) == set(asked) and (found["design"] == "best").all()
    assert (found["time_before_s"] == study.best["time_s"]).all()
    assert found.loc["twice, [so]", "sets"] == {"collective.chunks": 4}
    assert found.loc["fast", "times_as_fast"] > 1 and found["error"].isna().all()
    assert len(study.to_pandas()) == 8


@pytest.mark.usefixtures("here")
def test_studies_are_compared_cell_by_cell() -> None:
    small = sweeper.Study({**KEYS, "name": "small"}).run()
    large = sweeper.Study(
        {**KEYS, "name": "large", "space": {"bandwidth": {"total": "400 GB/s"}}}
    ).run()
    found = sweeper.compare(small, "results/large").set_index("study")
    assert found.loc["large", "over_best"] == 1
    expected = small.best["time_s"] / large.best["time_s"]
    assert found.loc["small", "over_best"] == pytest.approx(expected)
    with pytest.raises(DimsweepError, match="nothing to compare"):
        sweeper.compare()


def test_polars_is_asked_for(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "polars", None)
    with pytest.raises(DimsweepError, match="pip install polars"):
        sweeper.Results(here).to_polars()


@pytest.mark.parametrize(
    ("keys", "what"),
    [
        ({"workload.no_such_key": 1}, "no_such_key"),
        ({"topology": "no_such_network"}, "no_such_network"),
        ({"name": None}, "no study is named"),
    ],
)
def test_a_wrong_key_is_named(keys: dict[str, object], what: str) -> None:
    with pytest.raises(DimsweepError, match=what):
        sweeper.Study({**KEYS, **keys})
