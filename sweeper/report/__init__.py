"""What a study found: numbers, findings in words, and tables.  It is shown by sweeper.draw."""

from sweeper.report.report import Report
from sweeper.report.summary import CellSummary, summarise

__all__ = ["CellSummary", "Report", "summarise"]
