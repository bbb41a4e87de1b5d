"""Reports of rows that are read some at a time say the same as those of all rows at once."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
import pytest

from dimsweep.sweeper.charts import points as thinned
from dimsweep.sweeper.charts.points import Points, drawn, limits
from dimsweep.sweeper.questions.findings import build_report, tabulate_cell_details, tabulate_study
from dimsweep.sweeper.questions.what_if.findings import group_changes
from dimsweep.sweeper.report.answers import answers
from dimsweep.sweeper.report.remarks import idle_axes
from dimsweep.sweeper.report.report import Report
from dimsweep.sweeper.report.trials import Rows
from tests.support.reports import (
    again,
    failing,
    grid,
    make_rows,
    make_study,
    search,
    what_if,
    with_baseline,
)


class InPieces(Rows):
    """A table as files of some rows each have it, in another order."""

    def __init__(self, table: pd.DataFrame, size: int) -> None:
        mixed = table.sample(frac=1, random_state=size).reset_index(drop=True)
        self._parts = [mixed.iloc[i : i + size] for i in range(0, len(mixed), size)]
        self._table = mixed

    @property
    def names(self) -> list[str]:
        return list(self._table.columns)

    def pieces(self, columns: Sequence[str], cell: int | None = None) -> Iterator[pd.DataFrame]:
        for part in self._parts:
            own = part if cell is None else part[part["cell"] == cell]
            if len(own):
                yield own[self.existing_columns(columns)]

    def take(self, places: np.ndarray) -> pd.DataFrame:
        return self._table.loc[places]


def plans() -> pd.DataFrame:
    """Trials of few splits and keys, many of them alike in time."""
    rows = make_rows([[100.0 + i % 3, 50.0, 20.0, 10.0] for i in range(60)])
    rows["time_s"] = [1.0 + (i * 7 % 20) / 20 for i in range(60)]
    return rows.assign(**{"collective.chunks": [str(2 ** (i % 5)) for i in range(60)]})


STUDIES = {
    "one cell": (lambda: again(failing(make_rows(search(60))), [0.8, None, 0.9]), {}),
    "front": (
        lambda: what_if(make_rows(search(60)), {"a": 0.5, "b": None}),
        {"objective": ("time", "cost")},
    ),
    "grid": (lambda: failing(grid()), {"grid": ["a.total"], "objective": ("perf_per_cost",)}),
    "plans": (plans, {"parameters": ["collective.chunks"]}),
    "plans on a front": (
        plans,
        {"parameters": ["collective.chunks"], "objective": ("cost", "time")},
    ),
    "two dimensions": (lambda: make_rows(search(30, n_dims=2)), {}),
}


def told(report: Report) -> dict[str, object]:
    tables = [
        *tabulate_study(report),
        *(s for cell in report.found for s in tabulate_cell_details(cell)),
    ]
    return {
        "said": [report.headline, report.effort, report.causes, report.remarks],
        "answers": answers(report),
        "tables": [(s.title, s.columns, list(s.rows)) for s in tables],
        "what_ifs": [[each.name for own in group_changes(c) for each in own] for c in report.found],
        "splits": [(c.trials.n_designs, c.split_varies, c.priced) for c in report.found],
        "points": {k: list(v) for k, v in Points.from_report(report).source.data.items()},
    }


@pytest.mark.long
@pytest.mark.parametrize("name", STUDIES)
def test_a_report_of_pieces_is_that_of_the_whole(name: str) -> None:
    make, options = STUDIES[name]
    rows = make()
    study = make_study(rows, **options)
    whole = told(build_report(rows, study))
    for size in (7, 25):
        assert told(build_report(InPieces(rows, size), study)) == whole


@pytest.mark.parametrize("name", ["one cell", "plans"])
def test_how_far_splits_stray_is_that_of_the_whole(name: str) -> None:
    make, options = STUDIES[name]
    rows = make()
    study = make_study(rows, **options)
    (one,), (other,) = (build_report(r, study).found for r in (rows, InPieces(rows, 7)))
    assert one.trials.widest_dims == other.trials.widest_dims
    assert np.array_equal(one.trials.shares_near(), other.trials.shares_near())
    assert one.trials.near_first() == other.trials.near_first()
    for objective in one.objectives:
        values = np.sort(one.trials.values_of(objective))
        assert (values == np.sort(other.trials.values_of(objective))).all()


def test_a_baseline_is_found_in_whatever_piece() -> None:
    rows = make_rows(search(40))
    rows, study = with_baseline(rows, make_study(rows), {"": 1.5})
    gains = [build_report(each, study).found[0].speedup for each in (rows, InPieces(rows, 9))]
    assert gains[0] == gains[1] is not None


def test_axes_that_make_no_difference_are_found_among_many_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dimsweep.sweeper.report.remarks._FIRST", 10)
    rows = plans().assign(
        same=[str(i % 2) for i in range(60)], other=[str(i % 4) for i in range(60)]
    )
    rows["time_ps"] = [int(k) for k in rows["collective.chunks"]]
    rows["cost_usd"] = 1.0
    study = make_study(rows, parameters=["collective.chunks", "same", "other"])
    rows[["bandwidth_0_GBps"]] = 100.0
    assert idle_axes(InPieces(rows, 7), study) == idle_axes(rows, study)
    last = rows.assign(time_ps=[*rows["time_ps"][:-1], 99])
    assert idle_axes(InPieces(last, 7), study) == idle_axes(last, study)


def test_many_trials_are_thinned_to_those_that_can_be_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(thinned, "_BEST", 5)
    for name in ("_ACROSS", "_DOWN"):
        monkeypatch.setattr(thinned, name, 12)
    rows = make_rows(search(1500))
    report = build_report(InPieces(rows, 200), make_study(rows, objective=("time", "cost")))
    (cell,) = report.found
    every = report.seen.rows.take(np.arange(len(rows)))
    places = drawn(report, 4)
    assert len(places) < 700
    kept = set(places.tolist())
    assert kept >= {*cell.front.index, *cell.trials.steps.index, cell.best.name, cell.equal.name}
    assert kept >= set(every.sort_values(["time_s", "cost_usd", "trial"]).index[:5])
    colour = limits(every, 4)
    low, high = every["time_s"].min(), every["time_s"].max()
    across = np.minimum((every["trial"] / every["trial"].max() * 12).astype(int), 11)
    down = np.minimum(((every["time_s"] - low) / (high - low) * 12).astype(int), 11)
    squares = list(zip(colour, across, down, strict=True))
    assert {squares[i] for i in kept} == set(squares), "each square shows the colours that it had"


def test_a_page_of_many_trials_tells_how_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = make_rows(search(300))
    report = build_report(rows, make_study(rows))
    whole = Points.from_report(report)
    monkeypatch.setattr("dimsweep.sweeper.charts.points.ALL", 100)
    monkeypatch.setattr(thinned, "_ACROSS", 3)
    monkeypatch.setattr(thinned, "_DOWN", 3)
    monkeypatch.setattr(thinned, "_BEST", 10)
    points = Points.from_report(report)
    assert (whole.n, len(whole.rows)) == (300, 300) and len(points.rows) < points.n == 300
    assert points.rows["time_s"].is_monotonic_increasing
    assert points.place(report.found[0].best) == 0
