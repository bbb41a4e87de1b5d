"""The design that there is today: one trial in each combination of the scenarios."""

from pathlib import Path

import pytest

from dimsweep.sweeper.api.study import Study
from dimsweep.sweeper.cli.main import main
from dimsweep.sweeper.ledger.record import read_study
from dimsweep.sweeper.ledger.stored import load
from dimsweep.sweeper.questions import plan as planning
from dimsweep.sweeper.questions.findings import build_report
from dimsweep.sweeper.report.report import Report
from dimsweep.sweeper.run.reproduce import reproduce
from tests.support.studies import SMALL, planned, run

GRID = "grid={workload: [gpt3_libra, msft1t_libra], collective.chunks: [2, 4]}"
# Of three dimensions where the candidates have four, at 600 GB/s where these have 500.
TODAY = "baseline={topology: libra_3d, topology.bandwidth: 200 GB/s}"
WORDS = (*SMALL, GRID, "budget.trials=3")


def rows_of(folder, origin="baseline"):
    rows = load(folder).to_pandas()
    return rows[rows["origin"] == origin]


def read(folder) -> Report:
    return build_report(load(folder).to_pandas(), read_study(folder))


def test_there_is_one_in_each_scenario_and_it_is_no_candidate(tmp_path: Path) -> None:
    plan = planned([*WORDS, TODAY], tmp_path)
    assert plan.n_trials == 4 * 3 + 2
    progress = run(plan)
    assert progress.done == plan.n_trials and len(progress.best) == 4
    rows = rows_of(plan.folder)
    assert list(rows["workload"]) == ["gpt3_libra", "msft1t_libra"]
    assert set(rows["collective.chunks"]) == {"baseline"}
    assert set(rows["bandwidth_0_GBps"]) == {200.0} and rows["bandwidth_3_GBps"].isna().all()
    report = read(plan.folder)
    assert len(report.summaries) == 4
    for summary in report.summaries:
        reference = summary.reference
        assert reference is not None and reference.name == "the baseline"
        assert reference.row["workload"] == summary.cell.coordinates["workload"]
        gain = reference.row["time_s"] / summary.best["time_s"]
        assert summary.speedup == pytest.approx(gain)


def test_it_is_what_the_same_configuration_simulates_by_itself(tmp_path: Path) -> None:
    """As if its keys had been given on the command line."""
    plan = planned([*WORDS, TODAY], tmp_path)
    run(plan)
    alone = planned(
        [
            *SMALL,
            "grid={workload: [gpt3_libra, msft1t_libra]}",
            "topology=libra_3d",
            "topology.bandwidth=200 GB/s",
            "~space.bandwidth.total",
            "~space.bandwidth.constraints",
            "name=alone",
        ],
        tmp_path / "elsewhere",
    )
    run(alone)
    found, expected = rows_of(plan.folder), rows_of(alone.folder, "known")
    assert found["time_ps"].tolist() == expected["time_ps"].tolist()
    assert found["key"].tolist() == expected["key"].tolist()


def test_a_resumed_study_simulates_none_again_and_reproduces_it(tmp_path: Path) -> None:
    run(planned([*WORDS, TODAY], tmp_path))
    plan = planned([*WORDS, TODAY], tmp_path)
    assert run(plan).reused == plan.n_trials
    again = reproduce(plan.folder)
    assert again.rows == plan.n_trials and not again.differ


@pytest.mark.long
def test_a_study_may_get_another_baseline_and_come_back(tmp_path: Path) -> None:
    """Each time the rows of the one that it has are shown, whatever else the ledger has."""
    times = []
    for words in ((), (TODAY,), ("baseline={topology.bandwidth: 50 GB/s}",), (TODAY,)):
        plan = planned([*WORDS, *words], tmp_path)
        run(plan)
        report = read(plan.folder)
        references = [s.reference for s in report.summaries]
        times.append([None if r is None else (r.name, r.row["time_s"]) for r in references])
    assert times[1] == times[3] != times[2]
    assert {one[0] for one in times[0] if one} == {"the equal split"}
    assert {one[0] for one in times[2] if one} == {"the baseline"}
    assert len(rows_of(plan.folder)) == 4 and not reproduce(plan.folder).differ


@pytest.mark.long
def test_large_grids_have_baselines_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(planned([*WORDS, TODAY], tmp_path / "whole"))
    whole = read(tmp_path / "whole" / "libra_gpt3_4d")
    monkeypatch.setattr(planning, "LARGE", 1)
    plan = planned([*WORDS, TODAY], tmp_path)
    assert plan.stream is not None
    run(plan)
    streamed = read(plan.folder)
    gains = [[s.speedup for s in report.summaries] for report in (whole, streamed)]
    assert gains[0] == gains[1]
    assert streamed.headline == whole.headline
    again = planned([*WORDS, TODAY], tmp_path)
    assert run(again).done == again.n_trials == 14
    # Another one takes its place, and the first one's cells are forgotten.
    run(planned([*WORDS, "baseline={topology.bandwidth: 50 GB/s}"], tmp_path))
    other = read(plan.folder)
    assert len(other.study.baselines) == 2 and len(other.summaries) == 4
    assert [s.speedup for s in other.summaries] != gains[0]
    run(planned(WORDS, tmp_path))
    assert read(plan.folder).study.baselines == ()


@pytest.mark.long
def test_one_that_does_not_fit_is_told_and_the_study_goes_on(tmp_path: Path) -> None:
    words = [
        *("workload=gpt3_13b", "topology=dgx_h100", "npu=h100", "cost=dgx_h100", "search=grid"),
        *("topology.shape=Switch(8)_Switch(2)", "name=plans", "objective=mfu"),
        *("workload.model.layers=2", "workload.plan.batch=16", "npu.memory=10 GB"),
        "+space.parameters={workload.parallel.tensor: {values: [4, 8]}}",
    ]
    plan = planned([*words, "baseline={workload.parallel.tensor: 1}"], tmp_path)
    run(plan)
    report = read(plan.folder)
    (note,) = report.notes
    assert note.startswith("the baseline cannot be simulated") and "npu.memory" in note
    assert "\n" not in note and " x " not in report.headline
    assert report.summaries[0].reference is None
    run(planned([*words, "baseline={workload.parallel.tensor: 8}"], tmp_path))
    report = read(plan.folder)
    assert "the baseline" in report.headline and not report.notes
    assert report.summaries[0].reference.row["workload.parallel.tensor"] == "8"


def test_keys_of_the_study_that_hold_for_the_baseline_are_told(tmp_path: Path) -> None:
    shape = "topology.shape=Ring(4)_FullyConnected(8)_Ring(4)_Switch(32)"
    plan = planned([*WORDS, shape, "baseline={topology: libra_4d}"], tmp_path)
    assert plan.study.warnings[0] == (
        "baseline: topology=libra_4d has the study's own topology.shape; the baseline's own keys "
        "would come last"
    )
    own = "baseline={topology: libra_3d, topology.shape: 'Ring(16)_FullyConnected(8)_Switch(32)'}"
    plan = planned([*WORDS, shape, own], tmp_path)
    assert not any("baseline" in text for text in plan.study.warnings)


def test_maxima_alone_have_no_equal_split(tmp_path: Path) -> None:
    """The middle between the bounds was called the equal split, and gains were told over it."""
    words = [*SMALL, "space.bandwidth={total: null, max: [900 GB/s, 100 GB/s, 90 GB/s, 80 GB/s]}"]
    plan = planned([*words, "~space.bandwidth.constraints", "budget.trials=3"], tmp_path)
    run(plan)
    report = read(plan.folder)
    assert not len(rows_of(plan.folder, "equal")) and len(rows_of(plan.folder, "middle"))
    assert "equal" not in report.headline and " than " not in report.headline
    assert report.summaries[0].reference is None


@pytest.mark.long
def test_portfolios_and_two_objectives_have_one(tmp_path: Path) -> None:
    today = "baseline={topology.bandwidth: 100 GB/s}"
    words = ["study=libra_portfolio", "collective.chunks=8", "budget.trials=3"]
    workloads = "portfolio.workloads={gpt3_libra: 2, msft1t_libra: 1}"
    plan = planned([*words, workloads, "~portfolio.workloads", f"+{workloads}", today], tmp_path)
    run(plan)
    report = read(plan.folder)
    assert report.headline.startswith("One network of")
    assert all(s.reference and s.reference.is_common for s in report.summaries)
    plan = planned(
        [*SMALL, "objective=[time,cost]", today, "name=two", "budget.trials=3"], tmp_path
    )
    run(plan)
    (summary,) = read(plan.folder).summaries
    assert summary.gain(summary.objectives[1]) is not None


def test_other_doors_know_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keys = {"study": "libra_gpt3_4d", "collective.chunks": 8, "budget.trials": 3}
    study = Study(
        {**keys, "baseline": {"topology.bandwidth": "100 GB/s"}, "executor": "inline"},
        f"results={tmp_path}",
    ).run()
    assert study.cells["reference"].tolist() == ["the baseline"]
    assert study.cells["gain"][0] == pytest.approx(
        rows_of(study.folder)["time_s"].iloc[0] / study.best["time_s"]
    )
    folder = str(study.folder)
    for words in (
        ["compare", folder, folder],
        ["export", folder, "--csv", str(tmp_path / "rows.csv")],
        ["diff", folder, folder],
    ):
        assert main(words) == 0
    assert "baseline" in (tmp_path / "rows.csv").read_text()
    assert "the baseline" in capsys.readouterr().out
