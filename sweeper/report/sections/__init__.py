"""The sections of a report, each in a file of its own and one line here, in reading order."""

from __future__ import annotations

from sweeper.report.sections import (
    best_of_cells,
    critical_path,
    designs,
    dimensions,
    front,
    messages,
    next_bandwidth,
    portfolio,
    provisioned,
    time_and_cost,
)
from sweeper.report.sheet import Section

SECTIONS: tuple[Section, ...] = (
    portfolio.SECTION,
    best_of_cells.SECTION,
    time_and_cost.SECTION,
    dimensions.SECTION,
    critical_path.SECTION,
    next_bandwidth.SECTION,
    provisioned.SECTION,
    front.SECTION,
    messages.SECTION,
    designs.SECTION,
)
