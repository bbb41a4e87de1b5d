"""A table of a report as plain texts; the terminal and the page only dress it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dimsweep.sweeper.report.summary import CellSummary

if TYPE_CHECKING:
    from dimsweep.sweeper.report.report import Report


@dataclass(frozen=True)
class Sheet:
    """A table of texts; the first ``n_names`` columns are names, the others numbers."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    n_names: int = 1


def _nothing(_: object) -> list[Sheet]:
    return []


@dataclass(frozen=True)
class Section:
    """A part of the report: its tables, of which there are none where it has nothing to say.

    ``of_study`` compares what stands beside each other in a study: the cells of a grid, or the
    workloads of a portfolio.  ``of_cell`` tells of one cell that has complete trials, and
    ``details`` what only the page has room for.
    """

    of_study: "Callable[[Report], list[Sheet]]" = _nothing
    of_cell: Callable[[CellSummary], list[Sheet]] = _nothing
    details: Callable[[CellSummary], list[Sheet]] = _nothing
