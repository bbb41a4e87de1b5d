"""Tables of comma-separated values, whose first line names the columns."""

import csv
import io
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from dimsweep.engine.errors import DimsweepError, accessing, suggestion
from dimsweep.engine.formats.content import read_text

Row = dict[str, str]


def read_table(
    file: Path, columns: Collection[str], more: Collection[str] | None = None
) -> list[tuple[str, Row]]:
    """The rows of a table that has ``columns``, and perhaps ``more`` (None: any others): the place
    of each (file and line), and the text in each column.  Empty lines and those that begin with #
    are comments.  Names of columns are compared in small letters, if ``columns`` names some.

    Raises :class:`DimsweepError` naming the file, and the line, for what is no such table.
    """
    text = read_text(file, "table")
    lines = _without_comments(io.StringIO(text, newline=""))
    with accessing(file, "it is no table", csv.Error):
        said = csv.reader(lines, delimiter=delimiter_of(text), skipinitialspace=True, strict=True)
        header = [name.strip() for name in next(filter(None, said), [])]
        header = [name.lower() for name in header] if columns else header
        _check(header, file, columns, more)
        rows = ((f"{file}: line {said.line_num}", row) for row in said if row)
        return [(where, _row(header, row, where)) for where, row in rows]


def delimiter_of(text: str) -> str:
    """Return the sign between the columns of a table: the comma, semicolon or tab that its first
    line has most of."""
    return max(",;\t", key=first_line(text).count)


def first_line(text: str) -> str:
    """Return the first line that is neither empty nor a comment, or ""."""
    return next((line for line in text.splitlines() if line.strip() and line[0] != "#"), "")


def _without_comments(lines: Iterable[str]) -> Iterator[str]:
    return ("\n" if line.startswith("#") else line for line in lines)


def _check(
    header: list[str], file: Path, columns: Collection[str], more: Collection[str] | None
) -> None:
    if missing := [name for name in columns if name not in header]:
        what, hint = f"no column {', '.join(missing)}", f"its columns are {', '.join(columns)}"
        raise DimsweepError(what, where=str(file), hint=hint)
    for name in header:
        if more is not None and name not in (known := [*columns, *more]):
            hint = suggestion(name, known)
            raise DimsweepError(f"unknown column {name!r}", where=str(file), hint=hint)
        if name and header.count(name) > 1:
            raise DimsweepError(f"the column {name} twice", where=str(file))


def _row(header: list[str], cells: list[str], where: str) -> Row:
    if len(cells) != len(header):
        what = f"{len(cells)} cells below {len(header)} columns"
        raise DimsweepError(what, where=where, hint="quote a cell with a comma")
    return dict(zip(header, map(str.strip, cells), strict=True))
