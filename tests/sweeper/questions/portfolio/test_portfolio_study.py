"""Studies of one split for several workloads."""

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import dimsweep.sweeper.draw.found as found_picture
from dimsweep import load
from dimsweep.engine import DimsweepError
from dimsweep.engine.bound import Measure, Weighing
from dimsweep.sweeper.api.results import Results
from dimsweep.sweeper.charts import CHARTS, matrices
from dimsweep.sweeper.charts.points import Points
from dimsweep.sweeper.draw.found import draw_found
from dimsweep.sweeper.draw.terminal import print_report
from dimsweep.sweeper.ledger.record import StudyRecord, read_study
from dimsweep.sweeper.objective import TIME
from dimsweep.sweeper.questions.findings import build_report, tabulate_study
from dimsweep.sweeper.questions.portfolio.findings import PortfolioSummary, summarise_portfolios
from dimsweep.sweeper.questions.portfolio.portfolio import SharedMeasure
from dimsweep.sweeper.report import words
from dimsweep.sweeper.report.answers import answers
from dimsweep.sweeper.report.summary import summarise
from dimsweep.sweeper.run.loop import StudyPlan
from dimsweep.sweeper.run.reproduce import reproduce
from tests.support.studies import run

Small = Callable[..., StudyPlan]
TWO = "+portfolio.workloads={gpt3_libra: 2, msft1t_libra: 1}"
FAST = ("search=descent", "budget.trials=12")


def searched(plan: StudyPlan) -> tuple[PortfolioSummary, StudyRecord]:
    study, rows = read_study(plan.folder), load(plan.folder).to_pandas()
    (found,) = summarise_portfolios(summarise(rows, study), study)
    return found, study


@pytest.mark.long
@pytest.mark.parametrize("objective", ["time", "perf_per_cost"])
@pytest.mark.parametrize("measure", list(Measure))
def test_its_measure_is_close_to_the_proven_bound(
    small: Small, objective: str, measure: Measure
) -> None:
    plan = small(TWO, *FAST, f"objective={objective}", f"portfolio.measure={measure}")
    run(plan)
    found, study = searched(plan)
    (entry,) = study.portfolios
    best = found.measured[found.best_index]
    regrets = found.losses[found.best_index] / entry.own - 1
    share = np.array([2, 1]) / 3
    if measure is Measure.WEIGHTED_TIME:
        assert best == pytest.approx(share @ found.losses[found.best_index])
        assert entry.bound <= best <= 1.03 * entry.bound
    else:
        # CVaR at 0.9 gives the worst workload, whose weight is more than a tenth, all there is.
        assert best == pytest.approx(regrets.max())
        assert entry.bound <= best <= entry.bound + 0.03
    assert (found.measured >= entry.bound - 1e-12).all()


def test_the_answer_is_the_one_network_and_what_it_costs(small: Small) -> None:
    """It had the range of what networks for each workload alone cost."""
    plan = small(TWO, *FAST)
    run(plan)
    report = build_report(load(plan.folder).to_pandas(), read_study(plan.folder))
    (one,) = report.portfolios
    rows = [row for _, row in report.chosen]
    assert [row["time_s"] for row in rows] == list(one.losses[one.best_index])
    build, search, model, cost = answers(report)
    split = one.cells[0].split(one.designs.iloc[one.best_index])
    assert build.short == f"{', '.join(map(words.gbps, split))} GB/s"
    assert search.short == one.finding() and model.question == "How sure is the model"
    assert cost.short == words.usd(rows[0]["cost_usd"]) == words.usd(rows[1]["cost_usd"])


def test_own_optima_come_first_and_every_split_is_simulated_for_all(small: Small) -> None:
    plan = small(TWO, *FAST)
    run(plan)
    rows, (entry,) = load(plan.folder).to_pandas(), read_study(plan.folder).portfolios
    own = rows[rows.origin != "portfolio"]
    assert own.groupby("cell").time_s.min().tolist() == list(entry.own)
    assert own.groupby("cell").trial.max().tolist() == [11, 11]
    split = [f"bandwidth_{d}_GBps" for d in range(4)]
    shared = rows[rows.origin == "portfolio"]
    assert shared.trial.min() >= 12
    cells = rows.groupby(split).cell.apply(set)
    assert all(cells[tuple(row)] == {0, 1} for row in shared[split].to_numpy())
    assert not rows.duplicated(["cell", *split]).any()


@pytest.mark.long
@pytest.mark.parametrize("sampler", ["random", "tpe", "descent"])
def test_it_resumes_where_it_stopped(
    small: Small, sampler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger loses its last rows, as if it had been killed before them: the same in the end."""
    whole = small(TWO, f"search={sampler}", "budget.trials=12", results="whole")
    run(whole)
    part = small(TWO, f"search={sampler}", "budget.trials=12", results="part")

    class KilledError(Exception):
        pass

    from dimsweep.sweeper.ledger.ledger import Ledger

    append, seen = Ledger.append, 0

    def dying(self: Ledger, batch: Any) -> None:
        nonlocal seen
        seen += len(batch)
        if seen > 28:
            raise KilledError
        append(self, batch)

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "append", dying)
        try:
            run(part)
        except KilledError:
            assert read_study(part.folder).portfolios[0].own is None
    run(part)
    assert load(part.folder).equals(load(whole.folder))
    assert read_study(part.folder).portfolios == read_study(whole.folder).portfolios


@pytest.mark.long
def test_a_grid_has_a_portfolio_for_each_of_its_cells(small: Small) -> None:
    plan = small(TWO, *FAST, "+grid={profile: [libra, native]}")
    run(plan)
    study, rows = read_study(plan.folder), load(plan.folder).to_pandas()
    assert [list(entry.cells) for entry in study.portfolios] == [[0, 1], [2, 3]]
    text = io.StringIO()
    print_report(build_report(rows, study), Console(file=text, width=100))
    assert "One split for all (profile native)" in text.getvalue()
    assert matrices.REGRET in CHARTS and matrices.REGRET.draw(
        Points.from_report(build_report(rows, study))
    )


def test_one_workload_loses_nothing(small: Small) -> None:
    plan = small("+portfolio.workloads={gpt3_libra: 1}", *FAST)
    run(plan)
    found, _ = searched(plan)
    assert found.measured[found.best_index] <= 1e-4
    assert load(plan.folder).to_pandas().groupby("trial").size().max() == 1


def test_other_keys_are_searched_for_all_workloads(small: Small) -> None:
    plan = small(
        TWO,
        "search=random",
        "budget.trials=8",
        "+space.parameters={collective.chunks: {values: [4, 16]}}",
    )
    run(plan)
    found, study = searched(plan)
    assert study.portfolios[0].bound is None
    assert len(found.designs) >= 8


@pytest.mark.parametrize(
    ("words", "where"),
    [
        (["objective=cost"], "objective"),
        (["objective=[time,cost]", "search=nsga2"], "objective"),
        (["recheck.top=1"], "recheck.top"),
        (["portfolio.measure=best"], "portfolio.measure"),
        (["portfolio.level=1.0"], "portfolio.level"),
        (["+portfolio.workloads={gpt3_libra: -1}"], "portfolio.workloads.gpt3_libra"),
        (["+grid={workload: [gpt3_libra]}"], "grid.workload"),
    ],
)
def test_what_a_portfolio_cannot_be(small: Small, words: list[str], where: str) -> None:
    with pytest.raises(DimsweepError) as caught:
        small(TWO, *FAST, *words)
    assert caught.value.where.startswith(where)


def test_combined_slopes_are_those_of_the_combined_value() -> None:
    """Two times a / b: the measure's slope by finite differences."""
    work = np.array([[3.0, 1.0], [1.0, 4.0]])

    def times(b: np.ndarray) -> np.ndarray:
        return np.asarray((work / b).sum(axis=1))

    together = SharedMeasure(Weighing.build([1.0, 2.0], "cvar", 0.5), np.array([2.0, 3.0]), TIME)
    b = np.array([1.3, 0.8])
    value, slopes = together.combine([(t,) for t in times(b)], (-work / b**2).tolist())
    assert value is not None
    assert slopes is not None
    for d in range(2):
        near = b + 1e-7 * np.eye(2)[d]
        other, _ = together.combine([(t,) for t in times(near)], [None, None])
        assert other is not None
        assert (other[0] - value[0]) / 1e-7 == pytest.approx(slopes[d], rel=1e-5)
    assert together.combine([(1.0,), None], [None, None]) == (None, None)


@pytest.mark.long
def test_the_one_split_is_changed_in_each_workload(small: Small) -> None:
    """Nothing was asked of a portfolio, and its own keys were refused."""
    asked = "what_if={peak: {workload.flops: x2}, first: {topology.bandwidth.0: x2}}"
    plan = small(TWO, *FAST, asked, "+baseline={collective.chunks: 3}")
    assert run(plan).what_ifs == 8
    results = Results(plan.folder)
    (one,), told = results.report.portfolios, results.what_if
    assert (
        told["design"].tolist()
        == ["shared"] * 2 + ["baseline"] * 2 + ["shared"] * 2 + ["baseline"] * 2
    )
    for cell, row in zip(one.cells, one.best_rows(), strict=True):
        own = told[(told["cell"] == cell.cell.cell) & (told["design"] == "shared")]
        assert own["time_before_s"].tolist() == [row["time_s"]] * 2
        assert cell.named["key"] == row["key"]
    assert reproduce(plan.folder).differ == {}
    assert run(plan).engine_seconds == 0
    # Gains are against the baseline of each workload, of the one split.
    for cell in one.cells:
        own = [max(-cell.named[f"ms_per_GBps_{d}"] / 1e3, 0) for d in range(len(cell.dims))]
        assert cell.saved() == pytest.approx(own)
    assert any("saves at the one split for all" in s.title for s in tabulate_study(results.report))
    gains = [c.gain(c.objective, c.named) for c in one.cells]
    assert f"; it is {words.format_gain(gains, TIME, 'the baseline')}" in results.headline
    titles = [sheet.title for sheet in tabulate_study(results.report)]
    assert any(title.startswith("What if") for title in titles)


def test_the_default_questions_are_asked_of_a_portfolio(small: Small) -> None:
    plan = small(TWO, *FAST, "what_if=default")
    run(plan)
    found = Results(plan.folder).what_if
    assert set(found["design"]) == {"shared"} and found["cell"].nunique() == 2
    assert "NPU peak x1.25" in set(found["change"])


def test_the_picture_of_a_portfolio_is_of_its_one_network(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its bars were those of a network for each model."""
    plan = small(TWO, *FAST, "what_if=null")
    run(plan)
    report = Results(plan.folder).report
    drawn = []
    monkeypatch.setattr(
        found_picture, "draw_rows", lambda ax, chart, names: drawn.append(chart.bars)
    )
    draw_found(report)
    ((bars,),) = drawn
    assert bars.label == "one network for all"
    times = report.portfolios[0].losses[report.portfolios[0].best_index]
    assert bars.values / bars.values[0] == pytest.approx(times / times[0])
