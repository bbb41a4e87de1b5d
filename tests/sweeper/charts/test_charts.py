"""Charts of all kinds of studies: what there is to see of each, and what it says."""

import numpy as np
import pytest
from bokeh.models import ColumnDataSource, LogScale
from hypothesis import given
from hypothesis import strategies as st

from engine import covered
from sweeper.charts import CHARTS as ALL
from sweeper.charts import best_split, frame, front, timeline
from sweeper.charts.points import COMPUTE, Points
from sweeper.charts.scatter import tooltip
from sweeper.objective import OBJECTIVES
from sweeper.report import Report, words
from tests.support.reports import again, failing, grid, make_rows, make_study, search, what_if

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


@pytest.mark.parametrize("name", STUDIES)
@pytest.mark.filterwarnings("error")
def test_a_chart_is_there_where_it_shows_something(name):
    make, options = STUDIES[name]
    rows = make()
    points = Points.of(Report.of(rows, make_study(rows, **options)))
    drawn = {chart.name: found for chart in ALL if (found := chart.draw(points)) is not None}
    assert set(drawn) == CHARTS[name] | ALWAYS
    assert all(claim and not claim.endswith(".") for claim, _ in drawn.values())


def test_charts_share_the_trials_the_best_first():
    rows = grid()
    points = Points.of(Report.of(rows, make_study(rows, grid=["a.total"])))
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
    points = Points.of(Report.of(rows, make_study(rows)))
    found = dict(zip(points.rows["trial"], points.source.data["bottleneck"], strict=True))
    assert found == {0: "2: Ring(4)", 1: "waiting", 2: COMPUTE, 3: "2: Ring(4)"}
    assert set(points.colours) == set(found.values())


def test_a_front_that_spans_much_has_logarithmic_axes():
    rows = make_rows(search(40))
    rows["cost_usd"] *= np.geomspace(1, 1000, len(rows))
    rows.loc[len(rows) - 1, "time_s"] = 0.5 * rows["time_s"].min()  # the fastest is the dearest
    report = Report.of(rows, make_study(rows, objective=["time", "cost"]))
    _, chart = front.CHART.draw(Points.of(report))
    assert isinstance(chart.y_scale, LogScale) and not isinstance(chart.x_scale, LogScale)


@pytest.mark.parametrize("n", [5, 10_000])
def test_a_timeline_is_as_full_as_what_it_shows(n):
    """A port that is 7.8 % busy in ten thousand short blocks was drawn 89 % busy."""
    end = 10**9
    start = (np.arange(n) * (end / n)).astype(np.int64)
    shown = timeline.track("port", start, start + int(0.078 * end / n), end)
    area = (shown.share * (shown.right - shown.left)).sum()
    assert area / end == pytest.approx(shown.busy) == pytest.approx(0.078, rel=1e-3)
    assert len(shown.left) <= 1500 and (shown.share <= 1).all()
    assert (len(shown.left) == n) == (n < 200), "single blocks, if they are few"


def test_overlapping_spans_count_once():
    start, end = covered(np.array([5, 0, 1, 8]), np.array([6, 3, 2, 9]))
    assert list(zip(start, end, strict=True)) == [(0, 3), (5, 6), (8, 9)]


def test_a_tooltip_is_small_and_the_table_begins_with_the_objectives():
    rows = make_rows(search(20))
    study = make_study(rows, objective=("time", "cost"), parameters=["collective.chunks"])
    points = Points.of(Report.of(rows, study))
    shown = tooltip(points)
    assert shown.count("<div") <= 7 and len(points.columns) > 15
    for part in ("@{time_s}", "@{cost_usd}", "@{b3}", "@{collective.chunks}", "@{trial}"):
        assert part in shown
    assert list(points.columns)[:2] == ["time_s", "cost_usd"]
    assert "&lt;b&gt;" in frame.tip("<b>", "x")


def test_a_dimension_has_one_colour_in_all_charts_and_no_role_has_it():
    rows = make_rows(search(20))
    points = Points.of(Report.of(rows, make_study(rows)))
    colours = {d: frame.dimension_colour(d) for d in range(4)}
    for name in points.colours:
        if name[0].isdigit():
            assert points.colours[name] == colours[int(name[0])]
    _, chart = best_split.CHART.draw(points)
    bars = next(
        s for s in chart.select({"type": ColumnDataSource}) if s.data["x"][0] != s.data["x"][1]
    )
    assert bars.data["colour"] == list(colours.values())
    assert chart.x_range.start == 0.0  # so that bars are as long as what they stand for
    assert not {*frame.PALETTE} & {frame.BLUE, frame.ORANGE, frame.GREEN, frame.GREY}


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
    found = frame.folded(name).split("\n")
    if len(name) > 66 and " " in name:
        assert len(found) == 3 and found[-1].endswith("\N{HORIZONTAL ELLIPSIS}")
    else:
        assert found == lines


@given(st.text(max_size=60))
def test_no_letter_of_a_name_is_lost(name):
    whole = "".join(frame.folded(name, most=99).split())
    assert whole == "".join(name.split())


def test_a_number_of_an_axis_reads_as_people_write_it():
    values = [460_000, 1_536, 2.5e-5, 1_048_576, float("nan"), 99_999.4, -250_000]
    told = ["460 k", "1,536", "0.000025", "1.04858 M", "-", "99,999.4", "-250 k"]
    assert [words.number(value) for value in values] == told
    rows = make_rows(search(9)).assign(tokens_per_s=lambda rows: 3.3e5 / rows["time_s"])
    points = Points.of(Report.of(rows, make_study(rows, objective=("tokens_per_s",))))
    assert points.axis(OBJECTIVES["tokens_per_s"]) == (1e-3, "throughput (k tokens/s)")
