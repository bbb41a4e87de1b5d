"""Measured durations of kernels, from a CSV file with the columns ``kernel`` and ``duration``."""

import csv
from pathlib import Path

from dimsweep.engine import units
from dimsweep.engine.errors import DimsweepError, accessing


def read_measured(file: Path) -> dict[str, int]:
    """Picoseconds by the name of the kernel; a duration is written with its unit, such as 12.5 us.

    Raises :class:`DimsweepError` naming file and line.
    """
    measured: dict[str, int] = {}
    with (
        accessing(file, "it cannot be read", UnicodeDecodeError, csv.Error),
        file.open(newline="", encoding="utf-8") as lines,
    ):
        rows = csv.DictReader(lines)
        if not {"kernel", "duration"} <= set(rows.fieldnames or ()):
            what = "the first line names the columns: kernel, duration"
            raise DimsweepError(what, where=str(file))
        for row in rows:
            where = f"{file}, line {rows.line_num}"
            name = (row["kernel"] or "").strip()
            if not name or name in measured:
                what = f"kernel {name!r} is there twice" if name else "a kernel without a name"
                raise DimsweepError(what, where=where)
            try:
                measured[name] = units.parse_time((row["duration"] or "").strip())
            except DimsweepError as error:
                raise DimsweepError(error.what, where=where, hint=error.hint) from None
    return measured
