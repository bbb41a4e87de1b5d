"""Charts of all kinds of studies: what there is to see of each, and what it says."""

import numpy as np
import pytest
from bokeh.models import ColumnDataSource, LogScale

from sweeper.charts import CHARTS as ALL
from sweeper.charts import front, timeline
from sweeper.charts.points import COMPUTE, Points
from sweeper.report import Report
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


def test_blocks_near_each_other_are_drawn_as_one():
    blocks = [timeline.Block(0, 4, "a"), timeline.Block(4.5, 6, "b"), timeline.Block(9, 10, "c")]
    joined = timeline._joined(blocks[::-1], apart=1.0)
    assert joined == [timeline.Block(0, 6, "a and 1 more"), timeline.Block(9, 10, "c")]
    gaps = timeline._gaps(joined, 12.0)
    assert [gap[:2] for gap in gaps] == [(6, 9), (10, 12.0)]
