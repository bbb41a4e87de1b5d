"""Reports of studies: build the report of a question, and list its tables in reading order.

The HTML page, the terminal, pictures, the board and notebooks render the tables.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import pandas as pd

from dimsweep.sweeper.ledger.place import Place
from dimsweep.sweeper.ledger.record import StudyRecord
from dimsweep.sweeper.ledger.stored import Stored
from dimsweep.sweeper.questions.networks.findings import NetworksReport
from dimsweep.sweeper.questions.portfolio.findings import SharedNetworksReport, SplitPortfolioReport
from dimsweep.sweeper.questions.what_if import findings as what_if
from dimsweep.sweeper.report import recheck, sections
from dimsweep.sweeper.report.report import Report
from dimsweep.sweeper.report.summary import CellSummary
from dimsweep.sweeper.report.trials import Rows
from dimsweep.sweeper.table import Table

_Subject = TypeVar("_Subject")

#: The first one whose ``asks`` is true reports a study, of any version: it looks at the record.
REPORTS: Sequence[type[Report]] = (
    SharedNetworksReport,
    NetworksReport,
    SplitPortfolioReport,
    Report,
)


def build_report(rows: pd.DataFrame | Stored | Rows, study: StudyRecord) -> Report:
    """Return the report of a study.

    Parameters
    ----------
    rows
        The rows of the study's ledger: a table of all of them, or files that are read in pieces.
    study
        The study's record.

    Raises
    ------
    DimsweepError
        If no trial is complete.
    """
    return next(each for each in REPORTS if each.asks(study)).from_rows(rows, study)


def read_report(folder: Place) -> Report:
    """Return the report of the study in ``folder``.

    Raises
    ------
    DimsweepError
        If ``folder`` has no study, if files are damaged, or if no trial is complete.
    """
    stored = Stored(folder)
    return build_report(stored, stored.study)


@dataclass(frozen=True)
class Section(Generic[_Subject]):
    """A section of a report: its name and the function that returns its tables.

    ``dimsweep report --section NAME`` prints it. A section without findings has no tables.
    """

    name: str
    tabulate: Callable[[_Subject], list[Table]]


#: The sections that compare the cells or workloads of a study.
OF_STUDY: tuple[Section[Report], ...] = (
    Section("designs", lambda report: report.tables()),
    Section("scenarios", sections.tabulate_scenarios),
    Section("regrets", sections.tabulate_regrets),
    Section("factors", sections.tabulate_factors),
    Section("cells", sections.tabulate_best_of_cells),
    Section("jobs", sections.tabulate_jobs),
    Section("outages", sections.tabulate_outages),
    Section("bandwidth", sections.tabulate_next_bandwidth_of_cells),
    Section("what-if", what_if.tabulate_cells),
    Section("recheck", recheck.tabulate_cells),
)
#: The sections of one cell.
OF_CELL: tuple[Section[CellSummary], ...] = (
    Section("time", sections.tabulate_time_and_cost),
    Section("dimensions", sections.tabulate_dimensions),
    Section("path", sections.tabulate_critical_path),
    Section("bandwidth", sections.tabulate_next_bandwidth),
    Section("what-if", what_if.tabulate_cell),
    Section("front", sections.tabulate_front),
    Section("recheck", recheck.tabulate_cell),
)
#: The sections of one cell that are too long for a terminal.
DETAILS: tuple[Section[CellSummary], ...] = (
    Section("provisioned", sections.tabulate_provisioned),
    Section("whole-front", sections.tabulate_full_front),
)
SECTION_NAMES = tuple(
    dict.fromkeys(each.name for group in (OF_STUDY, OF_CELL, DETAILS) for each in group)
)


def tabulate_sections(report: Report) -> dict[str, list[Table]]:
    """Return the tables of each section of a report, by the section's name.

    Sections about a single cell are left out if the study has several cells.
    """
    found: dict[str, list[Table]] = {}
    for of_study in OF_STUDY:
        found.setdefault(of_study.name, []).extend(of_study.tabulate(report))
    if len(report.summaries) == 1:
        for of_cell in (*OF_CELL, *DETAILS):
            found.setdefault(of_cell.name, []).extend(of_cell.tabulate(report.summaries[0]))
    return {name: tables for name, tables in found.items() if tables}


def tabulate_study(report: Report) -> list[Table]:
    """Return the tables of a study, and its cell's tables if it has only one."""
    tables = [table for section in OF_STUDY for table in section.tabulate(report)]
    return tables + (
        tabulate_cell_report(report.summaries[0]) if len(report.summaries) == 1 else []
    )


def tabulate_cell_report(summary: CellSummary) -> list[Table]:
    """Return the tables of one cell's report."""
    return [table for section in OF_CELL for table in section.tabulate(summary)]


def tabulate_cell_details(summary: CellSummary) -> list[Table]:
    """Return the tables of one cell that only the HTML page shows."""
    return [table for section in DETAILS for table in section.tabulate(summary)]
