"""What `verify clusters` counts of intervals, and writes into the page."""

from pathlib import Path
from typing import cast

import pytest

from dimsweep.sweeper.calibrate.evidence import load_known_errors, load_runs
from dimsweep.sweeper.extensions.verify.clusters.compared import (
    COVERAGE_AIMS,
    Compared,
    Coverage,
    Predicted,
    compute_standard_error,
)
from dimsweep.sweeper.extensions.verify.clusters.report import BEGIN, CALIBRATED, END, write_page
from tests.support.refused import refused


@pytest.fixture(scope="module")
def coverage() -> Coverage:
    return Coverage(load_known_errors().bands, tuple(load_runs()))


@pytest.mark.long
def test_intervals_hold_what_they_are_to_hold(coverage: Coverage) -> None:
    """Of the rows that the model was judged on, with each source left out."""
    assert len(coverage.rows) > 200
    for i, (share, slack) in enumerate(COVERAGE_AIMS.items()):
        inside = [row.inside[i] for row in coverage.rows]
        assert abs(sum(inside) / len(inside) - share) <= slack
    assert not any(row.run.alone for row in coverage.rows)
    assert all(row.inside[1] or not row.inside[0] for row in coverage.rows)


def test_a_share_is_as_sure_as_there_are_sources() -> None:
    """Ten rows that are alike say no more than one of them."""
    one = compute_standard_error([True, False, True, True], ["a", "b", "c", "d"])
    assert one == pytest.approx((0.75 * 0.25 / 3) ** 0.5)  # that of a mean of four
    assert compute_standard_error(
        [True, False, True, True] * 10, ["a", "b", "c", "d"] * 10
    ) == pytest.approx(one)
    assert compute_standard_error([True, False], ["a", "a"]) == 0
    runs = load_runs()
    rounds = {run.origin for run in runs if "mlcommons" in run.source}
    assert rounds == {"mlcommons/training_results"}, "the rounds of MLPerf are one source"


@pytest.mark.long
def test_the_page_is_written_between_its_comments(coverage: Coverage, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write_page(page, {Path("mine.csv"): ["no plan", "no plan", "no GPU"]}, coverage, {})
    text = page.read_text()
    assert text.startswith(f"before\n{BEGIN}\n") and text.endswith(f"{END}\nafter\n")
    assert "| mine | 2 | no plan |" in text and "old" not in text
    assert coverage.list_sentences()[0][1:] in text
    page.write_text("nothing\n")
    with refused("page.md", "missing", BEGIN):
        write_page(page, {}, coverage, {})


@pytest.mark.long
def test_calibrations_have_comments_of_their_own(coverage: Coverage, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"{BEGIN}\n{END}\nbetween\n{CALIBRATED}\nold\n{END}\nafter\n")
    row = cast(Compared, None)  # whose own columns the table has not
    found = {
        "mine": [Predicted(row, 0.1, -0.02, (True, True)), Predicted(row, 0.2, 0, (False, True))]
    }
    write_page(page, {}, coverage, found)
    rest = page.read_text().partition("between")[2]
    assert "| mine | 2 | 15.0% | 1.0% | 50% | 100% |" in rest
    assert "old" not in rest and rest.endswith(f"{END}\nafter\n")
