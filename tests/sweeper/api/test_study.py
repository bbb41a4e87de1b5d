"""Studies in Python: the same rows, ledger and resume as the command line's."""

from pathlib import Path

import pandas as pd
import pytest

import dimsweep
from dimsweep.engine import DimsweepError
from dimsweep.sweeper.cli.main import main
from dimsweep.sweeper.report.answers import answers
from dimsweep.sweeper.report.naming import short_keys
from dimsweep.sweeper.report.words import usd
from dimsweep.sweeper.run.loop import Progress
from tests.support.refused import refused
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
    study = dimsweep.Study.load("libra_gpt3_4d", *WORDS[1:], "name=python").run()
    assert main(["sweep", *WORDS, "name=shell", "search.enqueue=true"]) == 0
    pd.testing.assert_frame_equal(
        study.to_pandas(), dimsweep.load("results/shell").to_pandas(), check_exact=True
    )


@pytest.mark.usefixtures("here")
def test_a_study_built_in_code_is_run_once_and_continued() -> None:
    seen: list[Progress] = []
    study = dimsweep.Study(KEYS).run()
    rows = study.to_pandas()
    assert len(rows) == 6
    dimsweep.Study(KEYS, "budget.trials=8").run(seen.append)
    assert seen[-1].done == 8 and seen[-1].reused == 6
    pd.testing.assert_frame_equal(study.to_pandas().head(6), rows)


@pytest.mark.usefixtures("here")
def test_what_a_study_found() -> None:
    study = dimsweep.Study({**KEYS, "grid": {"collective.chunks": [1, 2]}}).run()
    rows = study.to_pandas()
    assert study.best["time_s"] == rows["time_s"].min()
    assert study.bound is None or study.bound <= study.best["time_s"]
    assert list(study.cells["collective.chunks"]) == ["1", "2"]
    assert list(study.front["time_s"]) == list(rows.groupby("cell")["time_s"].min())
    assert study.headline.endswith(".")


@pytest.mark.usefixtures("here")
def test_what_one_change_does_is_a_table() -> None:
    asked = {"twice, [so]": {"collective.chunks": "x2"}, "fast": {"topology.bandwidth[1]": "x2"}}
    study = dimsweep.Study({**KEYS, "what_if": asked}).run()
    found = study.what_if.set_index("change")
    assert set(found.index) == set(asked) and (found["design"] == "best").all()
    assert set(found["label"]) == {"GPT-3"}
    assert (found["time_before_s"] == study.best["time_s"]).all()
    assert found.loc["twice, [so]", "sets"] == {"collective.chunks": 4}
    assert found.loc["fast", "times_as_fast"] > 1 and found["error"].isna().all()
    assert len(study.to_pandas()) == 8


@pytest.mark.usefixtures("here")
def test_one_network_for_all_costs_what_it_costs() -> None:
    """It was told to cost what each workload's own network does, and without its bandwidths."""
    portfolio = {"workloads": {"gpt3_libra": 1, "resnet50_libra": 1}, "measure": "worst_regret"}
    keys = {k: v for k, v in KEYS.items() if not k.startswith("workload")}
    keys |= {"cost": "illustrative", "topology.tiers": ["node", "pod"], "search": "auto"}
    keys["topology.shape"] = "Ring(4)_Switch(8)"
    space = {"bandwidth": {"total": "100 GB/s", "min": "10 GB/s", "step": "10 GB/s"}}
    study = dimsweep.Study({**keys, "portfolio": portfolio, "space": space}).run()
    (one,) = study.report.portfolios
    found = {each.question: each for each in answers(study.report)}
    (cost,) = {float(row["cost_usd"]) for row in one.best_rows()}
    assert found["What it costs"].short == usd(cost)
    assert "How sure is the model" in found
    built = found["What to build"].short
    assert built in study.headline and "against each one's own best split" in study.headline


@pytest.mark.long
@pytest.mark.usefixtures("here")
def test_a_picture_is_of_the_kind_that_the_file_names() -> None:
    study = dimsweep.Study(KEYS).run()
    assert study.write_picture("found.svg").read_text().startswith("<?xml")
    assert study.write_picture("found.png").read_bytes().startswith(b"\x89PNG")
    with refused("", "unknown-name", ".svg"):
        study.write_picture("found.gif")
    with pytest.raises(DimsweepError, match="cannot be written"):
        study.write_picture("no/found.png")


@pytest.mark.usefixtures("here")
def test_studies_are_compared_cell_by_cell() -> None:
    small = dimsweep.Study({**KEYS, "name": "small"}).run()
    large = dimsweep.Study(
        {**KEYS, "name": "large", "space": {"bandwidth": {"total": "400 GB/s"}}}
    ).run()
    found = dimsweep.compare(small, "results/large").set_index("study")
    assert found.loc["large", "over_best"] == 1
    expected = small.best["time_s"] / large.best["time_s"]
    assert found.loc["small", "over_best"] == pytest.approx(expected)
    with refused("", "missing"):
        dimsweep.compare()


def test_polars_is_asked_for(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "polars", None)
    with refused("", "inaccessible", "pip install polars"):
        dimsweep.Results(here).to_polars()


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
        dimsweep.Study({**KEYS, **keys})


def test_a_place_in_a_list_has_the_lists_name() -> None:
    """Axes such as topology.bandwidth.1 were called "1"."""
    assert short_keys(["topology.bandwidth.1", "network.fabric.1.oversubscription"]) == [
        "bandwidth[1]",
        "oversubscription",
    ]
