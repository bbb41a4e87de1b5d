"""The sections of a report, each in a file of its own and one line here, in reading order."""

from dimsweep.sweeper.report.report import Report
from dimsweep.sweeper.report.sections import (
    best_of_cells,
    critical_path,
    dimensions,
    factors,
    front,
    jobs,
    messages,
    next_bandwidth,
    outages,
    portfolio,
    proof,
    provisioned,
    regrets,
    scenarios,
    time_and_cost,
    what_if,
)
from dimsweep.sweeper.report.sheet import Section, Sheet
from dimsweep.sweeper.report.summary import CellSummary

SECTIONS: tuple[Section, ...] = (
    proof.SECTION,
    portfolio.SECTION,
    scenarios.SECTION,
    regrets.SECTION,
    factors.SECTION,
    best_of_cells.SECTION,
    jobs.SECTION,
    outages.SECTION,
    time_and_cost.SECTION,
    dimensions.SECTION,
    critical_path.SECTION,
    next_bandwidth.SECTION,
    what_if.SECTION,
    provisioned.SECTION,
    front.SECTION,
    messages.SECTION,
)


def sheets(report: Report) -> list[Sheet]:
    """The tables of the study, and those of its cell if it has only one."""
    tables = [sheet for section in SECTIONS for sheet in section.of_study(report)]
    return tables + (cell_sheets(report.summaries[0]) if len(report.summaries) == 1 else [])


def cell_sheets(summary: CellSummary) -> list[Sheet]:
    """The tables of one cell."""
    return [sheet for section in SECTIONS for sheet in section.of_cell(summary)]


def detail_sheets(summary: CellSummary) -> list[Sheet]:
    """The tables of one cell that only the page has room for."""
    return [sheet for section in SECTIONS for sheet in section.details(summary)]
