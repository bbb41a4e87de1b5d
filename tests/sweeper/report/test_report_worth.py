"""What the report says of bounds on a front, and of where money should go."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine.bound import Frontier
from dimsweep.sweeper.charts import bars as next_bandwidth_chart
from dimsweep.sweeper.charts.points import Points
from dimsweep.sweeper.draw.page import render
from dimsweep.sweeper.questions.findings import build_report, tabulate_study
from dimsweep.sweeper.report import sections
from dimsweep.sweeper.report.summary import summarise
from tests.support.examples import examples
from tests.support.reports import (
    again,
    bounded,
    make_rows,
    make_study,
    only,
    search,
    text_of,
    with_cells,
)

# T = 0.5 + 1e6 / cost, known at three amounts.
COSTS = np.array([5e6, 7e6, 20e6])
FRONT = {
    "cost": COSTS.tolist(),
    "bound": (0.5 + 1e6 / COSTS).tolist(),
    "value": (0.5 + 1e6 / COSTS).tolist(),
    "bandwidth": [[1.0] * 4] * 3,
}
PRICES = [8e3, 16e3, 16e3, 235e3]


def test_the_front_has_gaps_to_its_bound():
    rows = make_rows(search(40))
    study = with_cells(make_study(rows, objective=["time", "cost"]), front=FRONT)
    (summary,) = summarise(rows, study)
    gaps = summary.front_gaps(summary.front)
    least = Frontier(**{k: np.array(v) for k, v in FRONT.items()}).minimum_time(
        summary.front["cost_usd"].to_numpy()
    )
    assert (least <= 0.5 + 1e6 / summary.front["cost_usd"] + 1e-12).all()
    assert gaps == pytest.approx(summary.front["time_s"] / least - 1)
    assert sections.tabulate_full_front(summary)[0].columns[-1].startswith("gap")
    assert "gap in time" in text_of(rows, study)
    assert only(rows, objective=["time", "cost"]).front_gaps(rows) is None


def test_where_the_next_dollar_should_go():
    rows = make_rows(search(20)).assign(**{f"ms_per_GBps_{d}": -0.8 * (d == 0) for d in range(4)})
    study = with_cells(make_study(rows), ms_per_GBps=[-0.08] * 4, usd_per_GBps=PRICES)
    study = bounded(study, rows["time_s"].min())
    (summary,) = summarise(rows, study)
    (sheet,) = sections.tabulate_next_bandwidth(summary)
    assert [row[1] for row in sheet.rows] == ["80.00 us"] * 4
    assert [row[2] for row in sheet.rows] == ["10.00 us", "5.000 us", "5.000 us", "340.4 ns"]
    assert [row[3] for row in sheet.rows] == ["800.0 us", "0 s", "0 s", "0 s"]
    assert (
        sections.claim_next_bandwidth(summary, "GB/s")
        == "the next GB/s saves 80.00 us wherever it goes"
    )
    assert "saves most in dim\xa00\xa0Ring(4)" in sections.claim_next_bandwidth(
        summary, "1,000 USD"
    )


def test_what_a_fortune_would_buy_is_not_told():
    """Where 1,000 USD buy more than a tenth of what there is, as of links that are in the price of
    a rack, a slope says nothing; where that is so of all, bandwidth is compared."""
    rows = make_rows(search(20))
    for free, unit in ((1, "1,000 USD"), (4, "GB/s")):
        prices = [1e-3 if d < free else price for d, price in enumerate(PRICES)]
        study = with_cells(make_study(rows), ms_per_GBps=[-0.08] * 4, usd_per_GBps=prices)
        (summary,) = summarise(rows, bounded(study, rows["time_s"].min()))
        assert sections.common_unit([summary]) == unit
        (sheet,) = sections.tabulate_next_bandwidth(summary)
        told = [row[2:3] for row in sheet.rows]
        assert told[:free] == [("-",) if free < 4 else ()] * free
        assert "dim\xa00" not in sections.claim_next_bandwidth(summary, unit)


def test_the_next_bandwidth_has_one_worth():
    """The bound's where the best is near it, else that of the best trial's own path; dimensions
    that are alike are named together, and a proven split is not called badly provisioned."""
    columns = {f"ms_per_GBps_{d}": [-0.5, -0.5, -0.1, 0.0][d] for d in range(4)}
    rows = make_rows(search(20)).assign(**columns)
    best = rows["time_s"].min()
    pair = {"group": "data", "inner": 0, "outer": 3, "balance": 1e9}
    study = with_cells(make_study(rows), ms_per_GBps=[-0.08] * 4, pairs=[pair])
    near, far = (summarise(rows, bounded(study, best * share))[0] for share in (0.995, 0.9))
    for summary, worth in ((near, [80e-6] * 4), (far, [0.5e-3, 0.5e-3, 0.1e-3, 0.0])):
        assert summary.saved() == pytest.approx(worth)
        assert len(sections.tabulate_provisioned(summary)) == (summary is far)
    told = sections.claim_next_bandwidth(far, "GB/s").replace("\xa0", " ")
    assert told == (
        "the next GB/s saves most in dim 0 Ring(4) or in dim 1 FullyConnected(8): 500.0 us"
    )
    titles = [sheet.title for sheet in tabulate_study(build_report(rows, study))]
    saves = [title for title in titles if "saves" in title]
    assert saves == ["How much time more bandwidth, or more money for it, saves"]


@pytest.mark.parametrize("prices", [None, (8e3, 0.0, 16e3, 235e3)])
def test_without_prices_bandwidth_is_compared(prices):
    """Nor is a dollar, where some dimension costs nothing."""
    parts = [make_rows(search(20), cell, None, **{"a.total": f"{cell}"}) for cell in range(2)]
    rows = pd.concat(parts, ignore_index=True)
    worth = {"ms_per_GBps": [-0.08, -0.04, 0.0, 0.0], "usd_per_GBps": prices}
    worth["bound"] = rows["time_s"].min()
    report = build_report(rows, with_cells(make_study(rows, grid=["a.total"]), **worth))
    (sheet,) = sections.tabulate_next_bandwidth(report.summaries[0])
    assert [len(row) for row in sheet.rows] == [2] * 4
    (cells,) = sections.tabulate_next_bandwidth_of_cells(report)
    assert cells.rows == [(str(i), "80.00 us", "40.00 us", "0 s", "0 s") for i in range(2)]


def test_nothing_is_said_where_no_bound_is_known():
    rows = pd.concat([again(make_rows(search(5), cell), [1.0], cell) for cell in range(2)])
    report = build_report(rows, make_study(rows))
    assert [sections.tabulate_next_bandwidth(summary) for summary in report.summaries] == [[], []]
    assert sections.tabulate_next_bandwidth_of_cells(report) == []


WORTHS = [1e-30, 1e-15, 1e-9, 1.0, 1e30, 0.0, -1e-12, math.nan, math.inf, -math.inf]


@pytest.mark.parametrize("worth_ms", WORTHS)
@pytest.mark.filterwarnings("error")
def test_no_worth_ends_a_report(worth_ms):
    """A Chakra trace's worth of about 1e-12 once did."""
    columns = {f"ms_per_GBps_{d}": -worth_ms * d for d in range(4)}
    rows = make_rows(search(5)).assign(**columns)
    worth = [-worth_ms, -1e-9, 0.0, 0.0]
    study = with_cells(make_study(rows), ms_per_GBps=worth, bound=rows["time_s"].min())
    assert text_of(rows, study)
    report = build_report(rows, study)
    assert next_bandwidth_chart.NEXT_BANDWIDTH.draw(Points.from_report(report))


MAGNITUDES = st.floats(-30, 30).map(lambda exponent: 10.0**exponent)
ANY = MAGNITUDES | MAGNITUDES.map(lambda x: -x) | st.sampled_from([0.0, math.nan, math.inf])


@examples(30)
@given(time=MAGNITUDES, cost=MAGNITUDES, other=ANY, worths=st.lists(ANY, min_size=4, max_size=4))
def test_no_number_ends_the_tables(time, cost, other, worths):
    rows = make_rows(search(5)).assign(**{f"ms_per_GBps_{d}": worths[d] for d in range(4)})
    for column in ("exposed_s", "compute_s", "waiting_s", "exposed_0_s", "utilisation_1"):
        rows[column] = other
    rows["time_s"] *= time
    rows["cost_usd"] *= cost
    rows["perf_per_cost"] = 1 / (rows["time_s"] * rows["cost_usd"])
    study = with_cells(make_study(rows), ms_per_GBps=worths, usd_per_GBps=PRICES, bound=other)
    text = text_of(rows, study)
    assert "nan" not in text
    assert "-0 " not in text


@pytest.mark.long
@pytest.mark.parametrize("factor", [1e-30, 1e30])
@pytest.mark.filterwarnings("error")
def test_no_time_and_no_cost_ends_the_page(factor):
    rows = make_rows(search(20))
    for column in ("time_s", "cost_usd"):
        rows[column] *= factor
    assert render(build_report(rows, make_study(rows, objective=["time", "cost"])))
