"""The findings of studies: the report of each question, and all tables in reading order.

The page, the terminal, pictures, the board and notebooks render them.
"""

from collections.abc import Callable, Sequence

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

#: The first one whose ``asks`` is true reports a study, of any version: it looks at the record.
REPORTS: Sequence[type[Report]] = (
    SharedNetworksReport,
    NetworksReport,
    SplitPortfolioReport,
    Report,
)


def build_report(rows: pd.DataFrame | Stored | Rows, study: StudyRecord) -> Report:
    """Return the report of a study whose ledger has ``rows``: a table of all of them, or its files,
    which are read in pieces.

    Raises
    ------
    DimsweepError
        If no trial is complete.
    """
    return next(each for each in REPORTS if each.asks(study)).of(rows, study)


def read_report(folder: Place) -> Report:
    """Return the report of the study in ``folder``.

    Raises
    ------
    DimsweepError
        If ``folder`` has no study, if files are damaged, or if no trial is complete.
    """
    stored = Stored(folder)
    return build_report(stored, stored.study)


# The tables of a study, which compare its cells or workloads; of one cell; and of one cell on the
# page alone.  Each function returns no table where it has nothing to say.
OF_STUDY: tuple[Callable[[Report], list[Table]], ...] = (
    lambda report: report.tables(),
    sections.tabulate_scenarios,
    sections.tabulate_regrets,
    sections.tabulate_factors,
    sections.tabulate_best_of_cells,
    sections.tabulate_jobs,
    sections.tabulate_outages,
    sections.tabulate_next_bandwidth_of_cells,
    what_if.tabulate_cells,
    recheck.tabulate_cells,
)
OF_CELL: tuple[Callable[[CellSummary], list[Table]], ...] = (
    sections.tabulate_time_and_cost,
    sections.tabulate_dimensions,
    sections.tabulate_critical_path,
    sections.tabulate_next_bandwidth,
    what_if.tabulate_cell,
    sections.tabulate_front,
    recheck.tabulate_cell,
)
DETAILS: tuple[Callable[[CellSummary], list[Table]], ...] = (
    sections.tabulate_provisioned,
    sections.tabulate_whole_front,
)


def tabulate_study(report: Report) -> list[Table]:
    """Return the tables of a study, and those of its cell if it has only one."""
    tables = [table for make in OF_STUDY for table in make(report)]
    return tables + (
        tabulate_cell_report(report.summaries[0]) if len(report.summaries) == 1 else []
    )


def tabulate_cell_report(summary: CellSummary) -> list[Table]:
    """Return the tables of one cell."""
    return [table for make in OF_CELL for table in make(summary)]


def tabulate_cell_details(summary: CellSummary) -> list[Table]:
    """Return the tables of one cell that only the page has room for."""
    return [table for make in DETAILS for table in make(summary)]
