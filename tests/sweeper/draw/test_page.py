"""The page of a report: whole, self-contained, and without surprises in its markup."""

import html
from html.parser import HTMLParser

import pytest

from engine import DimsweepError
from sweeper.draw.show.page import render_charts, write_report
from sweeper.report import Report
from tests.support.reports import failing, grid, make_rows, make_study, search


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
        if tag not in ("img", "meta"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


STUDIES = {
    "one cell": (lambda: make_rows(search(40)), {}),
    "grid": (lambda: failing(grid()), {"grid": ["a.total"], "objective": ("time", "cost")}),
}


@pytest.mark.parametrize("name", STUDIES)
@pytest.mark.filterwarnings("error")
def test_a_page_is_complete(name, tmp_path):
    make, options = STUDIES[name]
    rows = make().replace({"a.total": {"500 GB/s": "500 </script><b>GB/s"}})
    study = make_study(rows, **options)
    study.config["note"] = "<b>bold</b>"
    path = write_report(rows, study, tmp_path)
    assert sorted(tmp_path.iterdir()) == [path]  # nothing temporary stays
    text = path.read_text()
    page = Page(text)
    assert page.open == [] and page.links == []
    assert page.tags.isdisjoint({"b", "link", "img", "iframe"})
    assert page.tags >= {"section", "script", "dl"}
    assert "&lt;b&gt;bold" in text
    for error in rows["error"].dropna().unique():
        assert error in html.unescape(text)


def test_a_chart_that_a_study_does_not_have_is_named():
    rows = make_rows(search(5))
    with pytest.raises(DimsweepError, match="no chart 'front'") as error:
        render_charts(Report.of(rows, make_study(rows)), ["front"])
    assert "convergence" in error.value.hint
