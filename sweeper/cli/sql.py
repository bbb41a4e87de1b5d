"""The command dimsweep sql: run SQL queries on the rows of studies."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

_SHOWN = 40  # rows, on a terminal or in a pipe
_AT_ONCE = 5_000  # rows of the answer, as Python's objects
_MEMORY = (
    "400MB"  # of DuckDB; what takes more, such as an order of all rows, goes by way of the disk
)


@click.command("sql")
@click.argument("query")
@click.argument("studies", nargs=-1, required=True, metavar="RESULTS/STUDY...")
@click.option("--csv", "as_csv", is_flag=True, help="Print all rows as CSV.")
def sql_command(query: str, studies: Sequence[str], as_csv: bool) -> int:
    """Ask the rows of studies in SQL.

    The rows of the first study are the table `rows`, and each study is a table of its name. The
    dialect is DuckDB's; docs/results.md lists the columns. A study is a folder of results, or its
    name in results/.

    \b
    Examples:
      dimsweep sql 'SELECT trial, time_s FROM rows ORDER BY time_s LIMIT 5' libra_gpt3_4d
      dimsweep sql 'SELECT origin, min(time_s) FROM rows GROUP BY origin' results/my_cmaes --csv
    """
    import duckdb

    from dimsweep.engine import DimsweepError
    from dimsweep.sweeper.ledger.place import find_results_folder
    from dimsweep.sweeper.ledger.stored import Stored

    _check(query)
    folders = [find_results_folder(name) for name in studies]
    sources = {folder: [*Stored(folder).sources()] for folder in folders}
    with TemporaryDirectory(prefix="dimsweep-") as scratch, duckdb.connect() as connection:
        parts = [each for own in sources.values() for each in own if isinstance(each, list)]
        connection.execute(f"SET memory_limit = '{_MEMORY}'")
        connection.execute(f"SET temp_directory = {_text_of(scratch)}")
        connection.execute(f"SET allowed_paths = {_listed(itertools.chain(*parts))}")
        connection.execute("SET enable_external_access = false")
        for name, folder in [("rows", folders[0]), *((f.name, f) for f in folders)]:
            _name_rows(connection, name, sources[folder])
        try:
            asked = connection.execute(query)
            if not asked.description:
                raise DimsweepError(
                    "the query is empty", where="query", hint="begin with SELECT", code="missing"
                )
            columns = [str(column[0]) for column in asked.description]
            (_print_csv if as_csv else _print_table)(columns, _answers(asked))
        except duckdb.Error as error:
            problem = str(error).splitlines()[0]
            raise DimsweepError(
                problem, where="query", hint=_tables(folders), code="bad-syntax"
            ) from error
    return 0


def _name_rows(
    connection: "duckdb.DuckDBPyConnection", name: str, sources: "Iterable[list[Path] | pa.Table]"
) -> None:
    """Add the rows of a study as a view ``name``; files are read in pieces during queries."""
    tables = []
    for i, source in enumerate(sources):
        if isinstance(source, list):
            tables.append(f"read_parquet({_listed(source)})")
        else:
            connection.register(f"{name} {i}", source)
            tables.append(_name_of(f"{name} {i}"))
    union = " UNION ALL ".join(f"SELECT * FROM {table}" for table in tables)
    connection.execute(f"CREATE OR REPLACE TEMP VIEW {_name_of(name)} AS {union}")


def _listed(files: Iterable[Path]) -> str:
    return f"[{', '.join(_text_of(str(file)) for file in files)}]"


def _text_of(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _name_of(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _answers(asked: "duckdb.DuckDBPyConnection") -> Iterator[tuple[Any, ...]]:
    """Yield the rows that a query returns, fetched in batches."""
    while rows := asked.fetchmany(_AT_ONCE):
        yield from rows


def _check(query: str) -> None:
    """Raise :class:`DimsweepError` for several queries; DuckDB would only answer the last."""
    import duckdb

    from dimsweep.engine import DimsweepError

    try:
        statements = duckdb.extract_statements(query)
    except duckdb.Error:
        return
    except TypeError as error:  # the system decodes invalid UTF-8 to lone surrogates
        raise DimsweepError("the query is not a text", where="query", code="bad-syntax") from error
    if not statements:
        raise DimsweepError(
            "the query is empty", where="query", hint="begin with SELECT", code="missing"
        )
    if len(statements) > 1:
        what = f"{len(statements)} queries, of which one would be answered"
        raise DimsweepError(
            what,
            where="query",
            hint="ask one at a time, or join them with UNION",
            code="unsupported",
        )


def _tables(folders: Sequence[object]) -> str:
    names = dict.fromkeys(["rows", *(getattr(folder, "name", "") for folder in folders)])
    return f"tables: {', '.join(names)}; their columns: SELECT column_name FROM (DESCRIBE rows)"


def _text(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _print_table(columns: Sequence[str], rows: Iterator[Sequence[object]]) -> None:
    from rich.console import Console

    from dimsweep.sweeper.terminal import format_count, make_table, print_line

    console = Console()
    texts = [[_text(value) for value in row] for row in itertools.islice(rows, _SHOWN)]
    console.print(make_table(columns, texts, left=0))
    if more := sum(1 for _ in rows):
        print_line(f"... and {format_count(more, 'more row')}; --csv prints all", console)


def _print_csv(columns: Sequence[str], rows: Iterator[Sequence[object]]) -> None:
    import csv
    import sys

    writer = csv.writer(sys.stdout)
    writer.writerow(columns)
    writer.writerows(rows)
