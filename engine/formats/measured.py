"""Measured durations of kernels, from a CSV file with the columns ``kernel`` and ``duration``."""

import csv
from pathlib import Path

from engine import units
from engine.errors import DimsweepError


def read_measured(file: Path) -> dict[str, int]:
    """Picoseconds by the name of the kernel; a duration is written with its unit, such as 12.5 us.

    Raises :class:`DimsweepError` naming file and line.
    """
    try:
        with file.open(newline="", encoding="utf-8") as lines:
            rows = csv.DictReader(lines)
            if not {"kernel", "duration"} <= set(rows.fieldnames or ()):
                raise DimsweepError(
                    "the first line names the columns: kernel, duration", where=str(file)
                )
            measured: dict[str, int] = {}
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
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise DimsweepError(f"it cannot be read: {reason}", where=str(file)) from error
    return measured
