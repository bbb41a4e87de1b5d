"""What a study found: numbers, findings in words, and tables.  Pictures and page: sweeper.draw."""

from __future__ import annotations

from sweeper.report.report import Report
from sweeper.report.summary import CellSummary, summarise
from sweeper.report.terminal import print_report

__all__ = ["CellSummary", "Report", "print_report", "summarise"]
