"""The page as a reader has it: it is opened, looked at, brushed, filtered and sorted."""

from pathlib import Path

import pandas as pd
import pytest

from sweeper.charts.frame import NUMBER
from sweeper.draw.show.page import write_report
from sweeper.report.words import number
from tests.support.browser import Browser, browser, needs_browser
from tests.support.reports import fail, make_rows, make_study, search

TRIALS = 120


def listed(page: Browser) -> str:
    """How many trials the table says that it lists."""
    return next(text for text in page.texts("label") if "trials" in text)


def first_row(page: Browser) -> str:
    """What the table's first row begins with, which is the objective."""
    rows = page.all(".slick-row")
    return min(rows, key=lambda row: row.location["y"]).text.split()[0]


@needs_browser
def test_a_reader_looks_into_a_page(tmp_path: Path) -> None:
    rows = make_rows(search(TRIALS))
    path = write_report(rows, make_study(rows), tmp_path)
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


NUMBERS = [0, 1, 7.5, 722.4118, 1536, 99_999, 460_000, 1_048_576, 2.5e9, 3e13, 2.5e-5, -460_000]


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
    path = write_report(rows, make_study(rows, objective=("time", "cost"), **keys), tmp_path)
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
