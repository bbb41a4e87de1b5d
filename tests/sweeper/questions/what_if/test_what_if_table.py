"""The table of what-ifs: what it says, in which order, of which designs."""

import json

import pytest
from bokeh.models import ColumnDataSource

from dimsweep.sweeper.charts.bars import WHAT_IF
from dimsweep.sweeper.charts.points import Points
from dimsweep.sweeper.questions.findings import build_report, tabulate_cell_report, tabulate_study
from dimsweep.sweeper.questions.what_if.findings import claim, group_changes
from dimsweep.sweeper.report.summary import summarise
from tests.support.reports import (
    grid,
    make_rows,
    make_study,
    only,
    search,
    text_of,
    what_if,
    with_baseline,
)


def changed(rows, times=None, **columns):
    best = rows["time_s"].min()
    given = {"slow": 2 * best, "same": best, "fast": 0.8 * best, "fat": None}
    return what_if(rows, times or given, **columns)


def table_of(summary):
    return next(
        sheet for sheet in tabulate_cell_report(summary) if sheet.title.startswith("What if")
    )


def test_the_largest_effect_is_first_and_what_cannot_be_is_last():
    rows = changed(make_rows(search(10)))
    (changes,) = group_changes(only(rows))
    assert [each.name for each in changes] == ["slow", "fast", "same", "fat"]
    assert [each.speed for each in changes[:3]] == pytest.approx([0.5, 1.25, 1])
    table = table_of(only(rows))
    assert [row[0] for row in table.rows] == ["slow", "fast", "same", "fat"]
    assert table.rows[1][2:] == ("1.250x", "same", "1.250x")
    assert table.rows[3][1] == "does not fit: 96 GB of 85.9 GB"
    assert "not searched again" in table.title and "from " in table.columns[1]
    assert claim(changes).startswith("of 3 changes, each alone, fast helps the best design most")


def test_a_design_that_is_no_longer_the_best_is_not_told_of():
    rows = make_rows(search(10))
    assert group_changes(only(changed(rows, of=rows["key"][0]))) == []


def test_another_batch_is_told_in_tokens_and_a_price_in_dollars():
    rows = make_rows(search(10))
    best = rows["time_s"].min()
    rows["tokens_per_s"] = 1e6 / rows["time_s"]
    rows["samples_per_s"] = 1e3 / rows["time_s"]
    cost = rows.loc[rows["time_s"].idxmin(), "cost_usd"]
    rows = what_if(
        rows,
        {"batch x2": 1.6 * best, "prices x2": best},
        changes=[json.dumps({"workload.plan.batch": 8}), json.dumps({"cost.npu": "1 USD"})],
        tokens_per_s=[2e6 / (1.6 * best), 1e6 / best],
        samples_per_s=[2e3 / (1.6 * best), 1e3 / best],
        cost_usd=[cost, 2 * cost],
    )
    table = table_of(only(rows))
    (batch, prices) = table.rows
    assert batch[0] == "batch x2" and batch[1].endswith("tokens/s") and " -> " in batch[1]
    assert batch[2] == "1.250x" and batch[4] == "1.250x"
    assert prices[1] == "same" and prices[2] == "1.000x" and prices[4] == "0.500x"


def test_the_baseline_stands_beside_the_best():
    rows = changed(make_rows(search(10)))
    rows, study = with_baseline(rows, make_study(rows), {"": 3.0})
    rows = what_if(rows, {"fast": 1.5}, cell=100)
    (summary,) = summarise(rows, study)
    best, baseline = group_changes(summary)
    assert [each.of.name for each in (*best, *baseline)] == ["best"] * 4 + ["baseline"]
    table = table_of(summary)
    assert table.columns[1].startswith("best: time") and "baseline: time" in table.columns[4]
    assert dict(zip(["a", "b"], [row[5] for row in table.rows], strict=False)) == {
        "a": "",
        "b": "2.000x",
    }


def test_the_cells_of_a_grid_are_compared_by_their_factors():
    rows = grid()
    for cell in (0, 2):
        best = rows[(rows["cell"] == cell) & (rows["origin"] != "what_if")]["time_s"].min()
        rows = what_if(rows, {"fast": 0.5 * best, "fat": None}, cell=cell)
    report = build_report(rows, make_study(rows, grid=["a.total"]))
    table = next(sheet for sheet in tabulate_study(report) if sheet.title.startswith("What if"))
    assert table.rows == [
        ("fast", "2.000x", "2.000x"),
        ("fat", *["does not fit: 96 GB of 85.9 GB"] * 2),
    ]
    text, chart = WHAT_IF.draw(Points.from_report(report))
    assert "2 cells" in text
    marks = [each for each in chart.references() if isinstance(each, ColumnDataSource)]
    assert [list(each.data["x"]) for each in marks if len(each.data["x"]) == 1] == [[100], [100]]
    assert "What if" in text_of(rows, make_study(rows, grid=["a.total"]))
