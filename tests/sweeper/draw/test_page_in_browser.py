"""The page as a reader has it: it is opened, looked at, brushed, filtered and sorted."""

from pathlib import Path

import pandas as pd
import pytest

from dimsweep.sweeper.charts.frame import NUMBER
from dimsweep.sweeper.draw.page import write_report
from dimsweep.sweeper.questions.findings import build_report
from dimsweep.sweeper.report.words import number
from tests.support.browser import Browser, browser, needs_browser
from tests.support.reports import fail, make_rows, make_study, search, what_if

TRIALS = 120


def listed(page: Browser) -> str:
    """How many trials the table says that it lists."""
    return next(text for text in page.texts("label") if "trials" in text)


def first_row(page: Browser) -> str:
    """What the table's first row begins with, which is the objective."""
    rows = page.all(".slick-row")
    return min(rows, key=lambda row: row.location["y"]).text.split()[0]


@pytest.mark.long
@needs_browser
def test_a_reader_looks_into_a_page(tmp_path: Path) -> None:
    rows = make_rows(search(TRIALS))
    path = write_report(build_report(rows, make_study(rows)), tmp_path)
    with browser(dark=True) as page:
        page.open(path.as_uri())
        assert page.complaints() == []
        charts = ("#best_split", "#parallel", "#split_map", "#convergence")
        assert all(page.inked(chart) > 500 for chart in charts)
        paper = page.run("return getComputedStyle(document.body).backgroundColor")
        assert paper == "rgb(22, 25, 29)"

        assert listed(page) == f"{TRIALS} of {TRIALS} trials"
        best = rows.loc[rows["time_s"].idxmin()]
        assert float(first_row(page)) == pytest.approx(1e3 * best["time_s"], abs=1e-4)

        page.drag("#convergence", (-200, -60), (0, 120))
        page.until(lambda: "brushed" in listed(page))
        assert int(listed(page).split()[0]) < TRIALS
        page.drag("#convergence", (-380, -30), (-376, -26))  # where there is nothing
        page.until(lambda: "brushed" not in listed(page))
        page.write("#trials input, input[placeholder]", "trial < 10, origin = tpe")
        page.until(lambda: listed(page) == f"9 of {TRIALS} trials")
        header = next(h for h in page.all(".slick-header-column") if h.text.startswith("trial"))
        header.click()
        second = 1e3 * rows["time_s"][1]  # trial 0, the equal split, is filtered out
        page.until(lambda: abs(float(first_row(page)) - second) < 1e-4)
        assert page.complaints() == []


# What of the charts is cut off, goes over its neighbour, or leaves no chart on the screen.
UNREADABLE = """
const ink = document.createElement("canvas").getContext("2d");
const wide = (text, font) => { ink.font = font;
  return Math.max(...text.split("\\n").map((line) => ink.measureText(line).width)); };
const views = [...Bokeh.index.all_views()], found = [];
for (const chart of views.filter((view) => view.model.type == "Figure")) {
  const {width, height} = chart.bbox, frame = chart.frame.bbox;
  if (frame.top > 150) found.push(["pushed away", frame.top]);
  for (const legend of views.filter((v) => v.model.type == "Legend" && v.parent === chart)) {
    const {left, right, top, bottom} = legend.bbox;
    if (left < 0 || right > width || top < 0 || bottom > height + 1)
      found.push(["legend", left, right, top, bottom, width, height]);
  }
  const middle = frame.left + frame.width / 2;
  for (const axis of chart.model.below)
    if (wide(axis.axis_label ?? "", "13px sans-serif") > 2 * Math.min(middle, width - middle))
      found.push(["title", axis.axis_label]);
  const across = chart.model.x_range.factors ?? [];
  for (const name of across)
    if (wide(name, "11px sans-serif") > frame.width / across.length) found.push(["name", name]);
  const low = chart.model.x_range.start, per = frame.width / (chart.model.x_range.end - low);
  for (const [end, pixels] of chart.model.tags.find(Array.isArray) ?? [])
    if ((end - low) * per + pixels > frame.width + 1) found.push(["text", end, pixels]);
}
return found;
"""


@pytest.mark.long
@needs_browser
def test_long_names_leave_charts_readable_on_a_phone(tmp_path: Path) -> None:
    """Names of legends, of columns and of axes, and texts behind points."""
    shapes = [f"Torus2D(4,{i})_FullyConnected(8)_Switch(2)_Switch(16)" for i in range(4)]
    models = [f"workload_{i}_with_oversubscription" for i in range(4)]
    rows = pd.concat(
        [
            what_if(
                make_rows(search(3, seed=i), i, workload=models[i % 4], shape=shapes[i // 4]),
                {"npu.flops x2": 0.6 + 0.01 * i, "latency x2": 0.7},
                i,
            )
            for i in range(16)
        ],
        ignore_index=True,
    )
    path = write_report(build_report(rows, make_study(rows, grid=("workload", "shape"))), tmp_path)
    with browser() as page:
        for width in (390, 1280):
            size = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 400}
            page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            page.open(path.as_uri())
            assert page.run("return document.documentElement.scrollWidth") <= width
            assert page.inked("#regret") > 500 and page.inked("#what_if") > 100
            page.until(lambda: page.run(UNREADABLE) == [])


NUMBERS = [0, 1, 7.5, 722.4118, 1536, 99_999, 460_000, 1_048_576, 2.5e9, 3e13, 2.5e-5, -460_000]


@pytest.mark.long
@needs_browser
def test_a_page_fits_a_phone_and_reads_as_people_do(tmp_path: Path) -> None:
    long = "mixtral_8x22b_with_a_name_that_goes_on"
    parts = [
        make_rows(search(12), cell, **{"workload.plan.kind": long + "x" * cell}) for cell in (0, 1)
    ]
    rows = pd.concat(parts, ignore_index=True)
    rows["collective.chunks"] = rows["trial"] % 4
    rows = fail(rows, [5], "npu.memory: must hold 90 GB of " + "a_word_without_an_end" * 9)
    keys = {"grid": ["workload.plan.kind"], "parameters": ["collective.chunks"]}
    path = write_report(
        build_report(rows, make_study(rows, objective=("time", "cost"), **keys)), tmp_path
    )
    with browser() as page:
        for dark in (False, True):
            scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
            page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
            size = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
            page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            page.open(path.as_uri())
            assert page.complaints() == []
            assert page.run("return document.documentElement.scrollWidth") == 390
            wide = "return [...document.querySelectorAll('h1, h2, p, dd, figure, .chart, footer')]"
            wide += ".filter((e) => e.getBoundingClientRect().right > 390).map((e) => e.outerHTML)"
            assert page.run(wide) == []
            ink = page.run("return getComputedStyle(document.querySelector('h1')).color")
            assert ink == ("rgb(228, 231, 235)" if dark else "rgb(27, 31, 36)")
        write = "const f = new Function('tick', arguments[0]); return arguments[1].map(f)"
        assert page.run(write, NUMBER, NUMBERS) == [number(float(each)) for each in NUMBERS]
