"""What a study found: numbers, findings in words, and tables.  It is shown by sweeper.draw."""

from dimsweep.sweeper.report.report import Report
from dimsweep.sweeper.report.summary import CellSummary, summarise
