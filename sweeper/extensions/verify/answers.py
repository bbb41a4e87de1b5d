"""What the rows of studies say to a published study's expressions, by DuckDB."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from dimsweep.engine import DimsweepError

ROWS = "rows"  # the study's own
_NAMED = re.compile(r"\b(?:from|join)\s+\"?([a-z_]\w*)", re.IGNORECASE)


def named_tables(text: str) -> list[str]:
    """What SQL may mean by tables: each word that stands after FROM or JOIN."""
    return list(dict.fromkeys(_NAMED.findall(text)))


class Answers:
    """Tables, and views of them, that answer expressions."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection

    @classmethod
    @contextmanager
    def over(cls, tables: Mapping[str, pa.Table], views: Path | None) -> Iterator["Answers"]:
        """Answers from ``tables``; ``views`` is SQL that names more of them, and macros.

        Raises :class:`DimsweepError` naming the file that is no SQL.
        """
        with duckdb.connect(config={"enable_external_access": "false"}) as connection:
            for name, table in tables.items():
                connection.register(name, table)
            if views is not None:
                try:
                    connection.execute(views.read_text(encoding="utf-8"))
                except (duckdb.Error, UnicodeDecodeError) as error:
                    raise _told(error, str(views)) from error
            yield cls(connection)

    def check(self, query: str, where: str) -> None:
        """Raise :class:`DimsweepError` for a query that these tables cannot answer, whatever is in
        them."""
        self._bound(query, where)

    def value(self, expression: str, where: str) -> Any:
        """What an expression over the rows is: it has one value, whatever the row."""
        found = [each["value"] for each in self.rows(asking(expression), where)]
        if len(found) > 1:
            what = f"{len(found)} values answer {expression!r}"
            hint = "ask for one, such as max(time_s) FILTER (WHERE ...)"
            raise DimsweepError(what, where=where, hint=hint)
        if not found or found[0] is None:
            hint = "the study has no row of it, or its trial was not simulated: dimsweep report"
            raise DimsweepError(f"no row answers {expression!r}", where=where, hint=hint)
        return found[0]

    def rows(self, query: str, where: str) -> list[dict[str, Any]]:
        """The rows of a query."""
        try:
            found = self._bound(query, where)
            return [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]
        except (duckdb.Error, UnicodeDecodeError) as error:
            raise _told(error, where) from error

    def _bound(self, query: str, where: str) -> duckdb.DuckDBPyRelation:
        """A query that has not been asked yet."""
        try:
            if len(duckdb.extract_statements(query)) != 1:
                raise DimsweepError("it is not one query", where=where)
            return self._connection.sql(query)
        except (duckdb.Error, UnicodeDecodeError) as error:  # a table's names may be any bytes
            raise _told(error, where) from error


def asking(expression: str) -> str:
    """The query for the value of an expression."""
    return f"SELECT DISTINCT ({expression}\n) AS value FROM {ROWS}"


def _told(error: Exception, where: str) -> DimsweepError:
    """DuckDB's own words, in one line."""
    lines = [line for line in str(error).splitlines() if line and not line.startswith("LINE")]
    hint = next((line for line in lines[1:] if line.startswith(("Candidate", "Did you"))), "")
    return DimsweepError(lines[0], where=where, hint=hint)
