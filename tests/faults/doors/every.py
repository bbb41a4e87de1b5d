"""All doors, by their names."""

from tests.faults.doors import formats, measured, results, studies, tables
from tests.faults.doors.door import DOORS

__all__ = ["DOORS", "formats", "measured", "results", "studies", "tables"]
