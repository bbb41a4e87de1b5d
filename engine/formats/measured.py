"""Measured durations of kernels, from a CSV file with the columns ``kernel`` and ``duration``."""

from pathlib import Path

from dimsweep.engine import units
from dimsweep.engine.errors import DimsweepError, within
from dimsweep.engine.formats.table import read_table


def read_measured(file: Path) -> dict[str, int]:
    """Picoseconds by the name of the kernel; a duration is written with its unit, such as 12.5 us.

    Raises :class:`DimsweepError` naming file and line.
    """
    measured: dict[str, int] = {}
    for where, row in read_table(file, ("kernel", "duration")):
        name = row["kernel"]
        if not name or name in measured:
            what = f"kernel {name!r} is there twice" if name else "a kernel without a name"
            raise DimsweepError(what, where=where)
        with within(where):
            measured[name] = units.parse_time(row["duration"])
    return measured
