"""The page of a report: whole, self-contained, and without surprises in its markup."""

import html
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from dimsweep.sweeper.draw.page import _classify_width, render, render_charts, write_report
from dimsweep.sweeper.ledger.record import Provenance
from dimsweep.sweeper.questions.findings import build_report
from dimsweep.sweeper.report.answers import answers
from dimsweep.sweeper.report.charts import RELATIVE_AXIS, chart_values, needs_separate_scales
from dimsweep.sweeper.report.runners_up import tabulate_runners_up
from dimsweep.sweeper.table import Table
from tests.support.refused import refused
from tests.support.reports import (
    bounded,
    failing,
    grid,
    make_rows,
    make_study,
    search,
    text_of,
    with_cells,
)


class Page(HTMLParser):
    """What a page loads, and whether its tags match."""

    def __init__(self, text):
        super().__init__()
        self.links, self.open, self.tags = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        values = dict(attributes)
        if "src" in values or "href" in values:
            self.links.append(values)
        if tag not in ("img", "meta", "wbr"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


STUDIES = {
    "one cell": (lambda: make_rows(search(40)), {}),
    "grid": (lambda: failing(grid()), {"grid": ["a.total"], "objective": ("time", "cost")}),
}


@pytest.mark.long
@pytest.mark.parametrize("name", STUDIES)
@pytest.mark.filterwarnings("error")
def test_a_page_is_complete(name, tmp_path):
    make, options = STUDIES[name]
    rows = make().replace({"a.total": {"500 GB/s": "500 </script><b>GB/s"}})
    study = make_study(rows, **options)
    study.config["note"] = "<b>bold</b>"
    path = write_report(build_report(rows, study), tmp_path)
    assert sorted(tmp_path.iterdir()) == [path]  # nothing temporary stays
    text = path.read_text()
    page = Page(text)
    assert page.open == [] and page.links == []
    assert page.tags.isdisjoint({"b", "link", "img", "iframe"})
    assert page.tags >= {"details", "script", "dl"}
    assert "&lt;b&gt;bold" in text
    for error in rows["error"].dropna().unique():
        assert error in html.unescape(text)


@pytest.mark.long
def test_a_note_is_told_on_the_page_and_in_the_terminal():
    rows = make_rows(search(10))
    study = make_study(rows).model_copy(update={"note": "these are 512 GPUs < 2,048"})
    assert "Note: these are 512 GPUs &lt; 2,048" in render(build_report(rows, study))
    assert "note: these are 512 GPUs < 2,048" in text_of(rows, study)


def test_a_chart_that_a_study_does_not_have_is_named():
    rows = make_rows(search(5))
    with refused("", "unknown-name", "front", "convergence"):
        render_charts(build_report(rows, make_study(rows)), ["front"])


def test_a_page_has_the_answer_and_a_picture_then_charts_then_tables_then_where_it_is_from():
    rows = failing(make_rows(search(20)))
    wrote = Provenance(
        version="1.2.3",
        git="f" * 40 + "+",
        python="3",
        packages={},
        machine="a box",
        date="2031-05-04",
    )
    study = make_study(rows).model_copy(update={"provenance": (wrote,), "model": 14})
    text = render(build_report(rows, study))
    parts = ["<h1>", "<svg", "4 x 8 x 4 x 32 = 4,096 NPUs", '<dl class="answers"', "<h2>Runners-up"]
    parts += ["<h2>Evidence", 'id="convergence"', "<summary>All trials", "<summary>Time and cost"]
    parts += ["<summary>Failed trials", "<summary>Configuration", "<footer>"]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    foot = text[places[-1] :]
    assert f"dimsweep 1.2.3, commit {'f' * 12}+, model 14, 2031-05-04, a box" in foot


@pytest.mark.long
def test_a_page_of_plans_begins_with_all_designs():
    rows = make_rows(search(20)).assign(**{"workload.plan.zero": [0, 1] * 10})
    text = render(build_report(rows, make_study(rows, parameters=["workload.plan.zero"])))
    assert text.index('id="parallel"') < text.index('id="best_split"')
    assert "zero <strong>" in text
    text = render(build_report(rows, make_study(rows)))
    assert text.index('id="best_split"') < text.index('id="parallel"')


@pytest.mark.long
@pytest.mark.parametrize(
    ("prices", "caption"),
    [
        (None, "What the next GB/s is worth"),
        ((8e3, 16e3, 16e3, 235e3), "Where the next dollar should go"),
    ],
)
def test_a_chart_of_money_is_one_of_prices(prices, caption):
    rows = make_rows(search(20), prices=prices)
    study = with_cells(make_study(rows), ms_per_GBps=[-0.08] * 4, usd_per_GBps=prices)
    text = render(build_report(rows, bounded(study, rows["time_s"].min())))
    drawn = text[text.index('<details class="evidence" id="next_bandwidth">') :]
    summary = drawn.splitlines()[1]
    assert summary.startswith(f"<summary>{caption}<")
    assert ("next 1,000 USD" if prices else "next GB/s") in summary


def test_runners_up_have_full_names_and_their_distance():
    rows = make_rows(search(20))
    table = tabulate_runners_up(build_report(rows, make_study(rows)))
    assert table.columns[:3] == ("design", "against the answer", "time")
    answer, equal = table.rows
    assert answer[1] == "the answer" and answer[0].endswith("GB/s")
    assert equal[0] == "the equal split, 125, 125, 125, 125 GB/s"
    assert equal[1].endswith("% behind")


def test_scenarios_with_very_different_values_are_drawn_relative_to_the_best_of_each():
    cells = [make_rows(search(4, seed=i), i, workload=name) for i, name in enumerate("ab")]
    even = pd.concat(cells, ignore_index=True)
    slow = even.assign(time_s=even["time_s"] * np.where(even["cell"] == 1, 100, 1))
    for rows, is_relative in ((even, False), (slow, True)):
        found = build_report(rows, make_study(rows, grid=["workload"])).found
        axis = 1e3, "iteration time (ms)"
        chart = chart_values("ab", found, axis, lambda c: c.best, lambda c: "", "best")
        assert needs_separate_scales(found) == is_relative
        assert chart.axis == (RELATIVE_AXIS if is_relative else axis[1])
        if is_relative:
            assert chart.bars[0].values.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("20 MUSD", "14.59 M USD of the 20.00 M USD that it may cost are left"),
        ("5.41 MUSD", "all of the 5.410 M USD that it may cost"),
        (None, ""),
    ],
)
def test_what_is_left_of_a_budget_is_said(asked, said):
    rows = make_rows([[100.0, 50.0, 5.0, 3.0]]).assign(cost_usd=5.409e6)
    study = make_study(rows)
    study.config["space"] = {"bandwidth": {"cost": asked}}
    (cost,) = (a for a in answers(build_report(rows, study)) if a.question == "What it costs")
    assert said in cost.rest and ("may cost" in cost.rest) == bool(said)


def test_a_table_is_classified_by_its_longest_words():
    short = Table("", ("name", "value"), [("all reduce", "1 ms"), ("", "")])
    assert _classify_width(short) == "narrow"
    assert _classify_width(replace(short, columns=("name", "x" * 60))) == "medium"
    assert _classify_width(replace(short, rows=[("a", "x" * 100)])) == "wide"
