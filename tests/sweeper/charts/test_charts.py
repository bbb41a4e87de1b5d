"""Charts of all kinds of studies: what there is to see of each, and what it says."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from bokeh.core.validation import check_integrity
from bokeh.models import ColumnDataSource, LogScale, Plot, Rect, Scatter
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import merge_spans
from dimsweep.sweeper import charts
from dimsweep.sweeper.charts import CHARTS as ALL
from dimsweep.sweeper.charts import bars, brushed, frame, matrices, timeline
from dimsweep.sweeper.charts.brushed import tooltip
from dimsweep.sweeper.charts.chart import Chart
from dimsweep.sweeper.charts.points import COMPUTE, Points
from dimsweep.sweeper.draw import canvas
from dimsweep.sweeper.draw.page import render_charts
from dimsweep.sweeper.ledger.record import Proof, Regions
from dimsweep.sweeper.objective import OBJECTIVES
from dimsweep.sweeper.questions.findings import build_report
from dimsweep.sweeper.questions.what_if.findings import Design, WhatIf, chart_designs
from dimsweep.sweeper.report import colours as palette
from dimsweep.sweeper.report import naming, words
from dimsweep.sweeper.report.charts import Bars, RowChart
from tests.support.reports import (
    again,
    failing,
    grid,
    make_rows,
    make_study,
    networks,
    one_cell,
    search,
    what_if,
)

STUDIES = {
    "one cell": (lambda: make_rows(search(40)), {}),
    "two objectives": (lambda: failing(make_rows(search(40))), {"objective": ("time", "cost")}),
    "grid": (lambda: failing(grid()), {"grid": ["a.total"], "objective": ("perf_per_cost",)}),
    "two dimensions, no equal split, no prices": (
        lambda: make_rows(search(20, n_dims=2), prices=None).assign(origin="tpe"),
        {},
    ),
    "one dimension": (lambda: make_rows(search(5, n_dims=1)), {}),
    "looked at again": (
        lambda: again(make_rows(search(40)), [0.8, None, 0.9]),
        {"objective": ("time", "cost")},
    ),
    "all failed when looked at again": (lambda: again(make_rows(search(5)), [None]), {}),
    "changed": (lambda: what_if(make_rows(search(5, n_dims=1)), {"a": 0.5, "b": None}), {}),
    "one trial": (lambda: make_rows(search(1)), {"objective": ("time", "cost")}),
    "same split": (
        lambda: make_rows([[480.0, 12.0, 5.0, 3.0]] * 5),
        {"parameters": ["collective.chunks"]},
    ),
}


ALWAYS = {"trials"}
CHARTS = {
    "one cell": {"best_split", "convergence", "parallel", "split_map"},
    "two objectives": {
        "best_split",
        "convergence",
        "front",
        "parallel",
        "split_map",
    },
    "grid": {"cells", "convergence", "parallel", "split_map"},
    "two dimensions, no equal split, no prices": {
        "best_split",
        "convergence",
        "parallel",
        "split_map",
    },
    "one dimension": {"convergence"},
    "looked at again": {
        "best_split",
        "convergence",
        "front",
        "parallel",
        "recheck",
        "split_map",
    },
    "all failed when looked at again": {"best_split", "convergence", "parallel", "split_map"},
    "changed": {"convergence", "what_if"},
    "one trial": {"front"},
    "same split": {"convergence"},
}


@pytest.mark.long
@pytest.mark.parametrize("name", STUDIES)
@pytest.mark.filterwarnings("error")
def test_a_chart_is_there_where_it_shows_something(name):
    make, options = STUDIES[name]
    rows = make()
    points = Points.from_report(build_report(rows, make_study(rows, **options)))
    drawn = {chart.name: found for chart in ALL if (found := chart.draw(points)) is not None}
    assert set(drawn) == CHARTS[name] | ALWAYS
    assert all(claim and not claim.endswith(".") for claim, _ in drawn.values())
    found = check_integrity({each for _, model in drawn.values() for each in model.references()})
    assert found.error == found.warning == []


def test_charts_share_the_trials_the_best_first():
    rows = grid()
    points = Points.from_report(build_report(rows, make_study(rows, grid=["a.total"])))
    times = points.source.data["time_s"]
    assert len(times) == len(rows) and (np.diff(times) >= 0).all()
    assert points.columns["time_s"].title == "iteration time (ms)"
    assert times[0] == pytest.approx(1e3 * rows["time_s"].min())
    for chart in ("convergence", "split_map"):
        _, model = next(each for each in ALL if each.name == chart).draw(points)
        sources = [each for each in model.references() if isinstance(each, ColumnDataSource)]
        assert points.source in sources


def test_the_bottleneck_is_where_most_of_the_exposed_communication_is():
    rows = make_rows(search(4)).assign(exposed_0_s=0.0, exposed_1_s=0.0, exposed_3_s=0.0)
    rows["exposed_2_s"] = [0.5, 0.1, 0.0, 0.1]
    rows["waiting_s"] = [0.1, 0.2, 0.0, 0.05]
    points = Points.from_report(build_report(rows, make_study(rows)))
    found = dict(zip(points.rows["trial"], points.source.data["bottleneck"], strict=True))
    assert found == {0: "2: Ring(4)", 1: "waiting", 2: COMPUTE, 3: "2: Ring(4)"}
    assert set(points.colours) == set(found.values())


def test_a_front_that_spans_much_has_logarithmic_axes():
    rows = make_rows(search(40))
    rows["cost_usd"] *= np.geomspace(1, 1000, len(rows))
    rows.loc[len(rows) - 1, "time_s"] = 0.5 * rows["time_s"].min()  # the fastest is the dearest
    report = build_report(rows, make_study(rows, objective=["time", "cost"]))
    _, chart = brushed.FRONT.draw(Points.from_report(report))
    assert isinstance(chart.y_scale, LogScale) and not isinstance(chart.x_scale, LogScale)


@pytest.mark.parametrize("n", [5, 10_000])
def test_a_timeline_is_as_full_as_what_it_shows(n):
    """A port that is 7.8 % busy in ten thousand short blocks was drawn 89 % busy."""
    end = 10**9
    start = (np.arange(n) * (end / n)).astype(np.int64)
    shown = timeline.make_track("port", start, start + int(0.078 * end / n), end)
    area = (shown.share * (shown.right - shown.left)).sum()
    assert area / end == pytest.approx(shown.busy) == pytest.approx(0.078, rel=1e-3)
    assert len(shown.left) <= 1500 and (shown.share <= 1).all()
    assert (len(shown.left) == n) == (n < 200), "single blocks, if they are few"


def test_overlapping_spans_count_once():
    start, end = merge_spans(np.array([5, 0, 1, 8]), np.array([6, 3, 2, 9]))
    assert list(zip(start, end, strict=True)) == [(0, 3), (5, 6), (8, 9)]


def test_a_tooltip_is_small_and_the_table_begins_with_the_objectives():
    rows = make_rows(search(20))
    study = make_study(rows, objective=("time", "cost"), parameters=["collective.chunks"])
    points = Points.from_report(build_report(rows, study))
    shown = tooltip(points)
    assert shown.count("<div") <= 7 and len(points.columns) > 15
    for part in ("@{time_s}", "@{cost_usd}", "@{b3}", "@{collective.chunks}", "@{trial}"):
        assert part in shown
    assert list(points.columns)[:2] == ["time_s", "cost_usd"]
    assert "&lt;b&gt;" in frame.format_tip("<b>", "x")


def test_a_dimension_has_one_colour_in_all_charts_and_no_role_has_it():
    rows = make_rows(search(20))
    points = Points.from_report(build_report(rows, make_study(rows)))
    colours = {d: palette.dimension_colour(d) for d in range(4)}
    for name in points.colours:
        if name[0].isdigit():
            assert points.colours[name] == colours[int(name[0])]
    _, chart = bars.BEST_SPLIT.draw(points)
    drawn = next(
        s for s in chart.select({"type": ColumnDataSource}) if s.data["x"][0] != s.data["x"][1]
    )
    assert drawn.data["colour"] == list(colours.values())
    assert chart.x_range.start == 0.0  # so that bars are as long as what they stand for
    assert not {*palette.PALETTE} & {palette.BLUE, palette.ORANGE, palette.GREEN, palette.GREY}


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("workload.plan.micro_batch", ["workload.plan.micro_", "batch"]),
        (
            "topology libra_4d, bandwidth total: 500 GB/s",
            ["topology libra_4d,", "bandwidth total:", "500 GB/s"],
        ),
        ("tensor 2, chunks 1, topology libra_4d", ["tensor 2, chunks 1,", "topology libra_4d"]),
        ("a" * 40, ["a" * 40]),
        ("0: FullyConnected(8)", ["0: FullyConnected(8)"]),
        (" ".join(["twelve chars"] * 9), ["twelve chars", "twelve chars", "twelve chars"]),
    ],
)
def test_a_name_breaks_between_its_words_and_never_vanishes(name, lines):
    found = naming.folded(name).split("\n")
    if len(name) > 66 and " " in name:
        assert len(found) == 3 and found[-1].endswith("\N{HORIZONTAL ELLIPSIS}")
    else:
        assert found == lines


def test_names_that_differ_are_not_cut_alike():
    plans = [f"bandwidth 900 GB/s, 100 GB/s, parallel tensor: 2, pipeline: {n}" for n in (2, 4)]
    assert naming.folded(plans[0]) == naming.folded(plans[1])
    first, other = naming.fold_distinctly(plans)
    assert first.endswith("pipeline: 2") and other.endswith("pipeline: 4")
    assert len(naming.fold_distinctly(["ab " * 99 + end for end in "cd"])) == 2


def test_values_that_speak_for_themselves_are_told_without_their_axis():
    cell = {
        "topology.shape": "Switch(8)_Ring(4)",
        "topology.bandwidth": "450 GB/s, 12.5 GB/s",
        "workload.parallel": "tensor: 4, data: rest, sequence: 2",
        "workload.plan.zero": "1",
    }
    told = "Switch(8)_Ring(4), 450/12.5 GB/s, TP4 DP(rest) sequence 2, zero 1"
    assert naming.coordinates_of(cell) == told
    python = {"workload.parallel": "{'pipeline': 2, 'tensor': 16}"}
    assert naming.coordinates_of(python) == "PP2 TP16"
    mixed = {"topology.bandwidth": "450 GB/s, 100 Gb/s", "workload.parallel": "none"}
    assert naming.coordinates_of(mixed) == "bandwidth 450 GB/s, 100 Gb/s, parallel none"
    for broken, told in (
        ("none", "nothing degraded"),
        ("switch: spine 0, down: true", "spine 0 down"),
        (
            "link: NPU 3 -> leaf 0, bandwidth: 50 %; npu: 7, speed: 90%",
            "NPU 3 -> leaf 0 at 50 % bandwidth; NPU 7 at 90% speed",
        ),
        (
            "switch: kind: leaf, draw: 2, down: true",
            "degrade switch: kind: leaf, draw: 2, down: true",
        ),
    ):
        assert naming.coordinates_of({"network.degrade": broken}) == told
    for made in ("kind: zcube, n: 8, k: 2", "zcube(n 8, k 2)"):
        told = naming.coordinates_of({"network.generator": made, "network.routing": "spray"})
        assert told == "zcube(n 8, k 2), routing spray"


def test_cells_are_called_by_what_is_not_the_same_in_all():
    def cell(**coordinates):
        return SimpleNamespace(cell=SimpleNamespace(coordinates=coordinates, workload="GPT-3"))

    assert naming.labels([cell(a="1", b="x"), cell(a="1", b="y")]) == ["b x", "b y"]
    assert naming.labels([cell(a="1", b="x"), cell(a="1", b="x")]) == ["a 1, b x"] * 2
    assert naming.labels([cell(a="1")]) == ["a 1"]
    assert naming.labels([cell()]) == ["GPT-3"]


@given(st.text(max_size=60))
def test_no_letter_of_a_name_is_lost(name):
    whole = "".join(naming.folded(name, most=99).split())
    assert whole == "".join(name.split())


def test_a_number_of_an_axis_reads_as_people_write_it():
    values = [460_000, 1_536, 2.5e-5, 1_048_576, float("nan"), 99_999.4, -250_000]
    told = ["460 k", "1,536", "0.000025", "1.04858 M", "-", "99,999.4", "-250 k"]
    assert [words.number(value) for value in values] == told
    rows = make_rows(search(9)).assign(tokens_per_s=lambda rows: 3.3e5 / rows["time_s"])
    points = Points.from_report(build_report(rows, make_study(rows, objective=("tokens_per_s",))))
    assert points.axis(OBJECTIVES["tokens_per_s"]) == (1e-3, "throughput (k tokens/s)")


TIMES = {("small", "a"): 0.1, ("small", "b"): 0.11, ("big", "a"): 9.0, ("big", "b"): 5.0}


def test_the_timeline_is_that_of_the_answer_and_says_which(monkeypatch):
    """It was that of the cell with the shortest iteration, whatever model ran in it."""
    seen = []
    monkeypatch.setattr(
        timeline, "simulate_again", lambda points, cell, row: seen.append((cell, row))
    )
    report = networks(TIMES)
    timeline.CHART.draw(Points.from_report(report))
    ((cell, row),) = seen
    assert cell.cell.coordinates == {"workload": "small", "network": "b"}
    assert row["trial"] == cell.best["trial"]
    assert report.decisions.first_scenario == "with small, the first of 2 workloads"


def test_trials_are_listed_by_what_they_lose_in_their_own_scenario():
    points = Points.from_report(networks(TIMES))
    found = [(row["workload"], row["network"], row["time_s"]) for _, row in points.rows.iterrows()]
    assert found[:3] == [("small", "a", 0.1), ("big", "b", 5.0), ("small", "b", 0.11)]


def _plots(model):
    return [each for each in model.references() if isinstance(each, Plot)]


def test_factors_of_two_decisions_are_points_of_each_scenario():
    claim, model = matrices.REGRET.draw(Points.from_report(networks(TIMES)))
    assert claim == "network b against a: 0.91 to 1.80x over 2 scenarios"
    (chart,) = _plots(model)
    (marks,) = [each.data_source for each in chart.renderers if isinstance(each.glyph, Scatter)]
    assert sorted(set(marks.data["x"])) == pytest.approx([0.1 / 0.11, 1.8])
    assert chart.x_range.start < 0.1 / 0.11 and chart.x_range.end > 1.8


def test_losses_have_more_rows_than_columns_and_tell_what_does_not_run():
    times = {(f"model_{m}", n): 1.0 + m for m in range(5) for n in "abc" if (m, n) != (3, "c")}
    _, model = matrices.REGRET.draw(Points.from_report(networks(times)))
    (chart,) = _plots(model)
    assert len(chart.y_range.factors) == 5 and len(chart.x_range.factors) == 3
    texts = [text for each in chart.renderers for text in each.data_source.data["text"]]
    assert "does not\nrun" in texts


@pytest.mark.long
def test_a_hundred_cells_fit_a_few_screens_and_their_decisions_are_not_cut_off():
    name = "FullyConnected(4)_FullyConnected(8)_Ring(16)"
    times = {(f"{name}_{m}", n): 1.0 + m for m in range(50) for n in ("even", "steep")}
    claim, model = bars.CELLS.draw(Points.from_report(networks(times)))
    assert "the first 48 of 100 cells" in claim
    for chart in _plots(model):
        assert chart.height < 4000
        names = list(chart.yaxis[0].major_label_overrides.values())
        assert names[1:3] == ["network even", "network steep"] and len(names) == 48 + 24


def test_what_is_asked_of_the_baseline_alone_has_a_bar_too_and_texts_have_room():
    chart = frame.draw_rows(_what_if_of_two())
    names = list(chart.yaxis[0].major_label_overrides.values())
    assert names == ["faster", "slower", "of the baseline"]
    texts = [t for each in chart.renderers for t in each.data_source.data.get("text", ())]
    assert "-" not in texts and "1.500x" in texts
    assert chart.x_range.start == pytest.approx(-52.5), "bars to the left are whole"


def _what_if_of_two():
    def change(name, of, speed):
        row = pd.Series({"state": "complete", "time_s": 1.0 / speed})
        design = Design(of, pd.Series({"time_s": 1.0}))
        return WhatIf(name, {"collective.chunks": 2}, design, row)

    best = [change("faster", "best", 1.25), change("slower", "best", 0.5)]
    own = [change("faster", "baseline", 1.1), change("of the baseline", "baseline", 1.5)]
    _, chart = chart_designs([best, own])
    return chart


def test_a_legend_is_as_wide_as_a_phone_at_most():
    def columns(*names):
        chart = frame.make_row_figure(["a"], "x")
        for name in names:
            chart.scatter([1], [0], legend_label=name)
        return frame.legend_outside(chart).legend[0].ncols

    assert columns("best", "equal split", "proven bound") == 3
    assert columns("0: Ring(4)", "1: FullyConnected(8)", "2: Ring(4)", "3: Switch(32)") == 2
    assert columns("x" * 60, "y" * 60) == 1


def test_what_wins_where_has_a_square_for_each_place():
    rows = make_rows(search(4))
    study = make_study(rows)
    where = {"x": "price of optics", "y": "layers", "xs": (0.5, 1.0, 2.0), "ys": (1.0, 2.0)}
    designs = [{"shape": f"Ring({n})", "zero": "0", "order": "a"} for n in range(9)]
    proof = Proof(cells=9, excluded=(8, 0, 0), bounded=1, simulated=1)

    def drawn(*winners):
        regions = Regions(**where, designs=designs, winners=winners)
        own = proof.model_copy(update={"regions": regions})
        points = Points.from_report(build_report(rows, study.model_copy(update={"proof": own})))
        return matrices.WHAT_WINS.draw(points)

    claim, chart = drawn((0, 0, -1), (1, 0, -1))
    assert claim == (
        "the answer wins at 3 of 6 places, 1 other design at 1, each proven, and at 2 nobody knows"
    )
    squares = [each for each in chart.renderers if isinstance(each.glyph, Rect)]
    places = {
        (x, y): by
        for each in squares
        for x, y, by in zip(*(each.data_source.data[c] for c in ("x", "y", "by")), strict=True)
    }
    assert len(places) == 6
    assert places[0, 1] == "the design with Ring(1) instead"
    assert places[1, 1] == "the answer"
    assert places[2, 0].startswith("not known")
    (here,) = [each for each in chart.renderers if isinstance(each.glyph, Scatter)]
    assert (here.data_source.data["x"], here.data_source.data["y"]) == ([1], [0])
    claim, chart = drawn((0, 1, 2), (3, 4, 8))
    assert claim.endswith("5 other designs at 5, each proven")
    assert not check_integrity(set(chart.references())).error


def test_a_new_chart_is_a_function_and_a_line_of_registration(monkeypatch):
    """What it draws is data, which the page draws with Bokeh and a picture with Matplotlib."""
    described = RowChart(
        ["a row"], "seconds", [Bars(np.array([2.0]), ["2 s"], palette.BLUE, "own")]
    )

    def draw(points):
        return "a finding of its own", frame.draw_rows(described)

    monkeypatch.setattr(charts, "CHARTS", (*charts.CHARTS, Chart("mine", "My own chart", draw)))
    page = render_charts(build_report(one_cell(), make_study(one_cell())), ["mine"])
    assert "My own chart" in page and "a finding of its own." in page
    with canvas.frame("a title", 2.0) as figure:
        canvas.draw_rows(figure.subplots(), described, described.names)
        assert "2 s" in canvas.encoded(figure, "svg").decode()
