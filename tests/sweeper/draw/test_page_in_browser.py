"""The page as a reader has it: it is opened, looked at, brushed, filtered and sorted."""

from pathlib import Path

from sweeper.draw.show.page import write_report
from tests.support.browser import Browser, browser, needs_browser
from tests.support.reports import make_rows, make_study, search

TRIALS = 120


def listed(page: Browser) -> str:
    """How many trials the table says that it lists."""
    return next(text for text in page.texts("label") if "trials" in text)


def first_row(page: Browser) -> str:
    """What the table's first row begins with."""
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
        assert first_row(page) == str(best["trial"])

        page.drag("#convergence", (-200, -60), (0, 120))
        page.until(lambda: "brushed" in listed(page))
        assert int(listed(page).split()[0]) < TRIALS
        page.drag("#convergence", (-380, -30), (-376, -26))  # where there is nothing
        page.until(lambda: "brushed" not in listed(page))
        page.write("#trials input, input[placeholder]", "trial < 10, origin = tpe")
        page.until(lambda: listed(page) == f"9 of {TRIALS} trials")
        header = next(h for h in page.all(".slick-header-column") if h.text.startswith("trial"))
        header.click()
        page.until(lambda: first_row(page) == "1")
        assert page.complaints() == []
