"""dimsweep sql: questions to the rows."""

from collections.abc import Sequence

import click

_SHOWN = 40  # rows, on a terminal or in a pipe


@click.command("sql")
@click.argument("query")
@click.argument("studies", nargs=-1, required=True, metavar="RESULTS/STUDY...")
@click.option("--csv", "as_csv", is_flag=True, help="Print all rows as CSV.")
def command(query: str, studies: Sequence[str], as_csv: bool) -> int:
    """Ask the rows of studies in SQL.

    The rows of the first study are the table `rows`, and those of each study a table of the study's
    name. The dialect is DuckDB's; the columns are those of docs/results.md. A study is a folder of
    results, or its name in results/.

    \b
    Examples:
      dimsweep sql 'SELECT trial, time_s FROM rows ORDER BY time_s LIMIT 5' libra_gpt3_4d
      dimsweep sql 'SELECT origin, min(time_s) FROM rows GROUP BY origin' results/my_cmaes --csv
    """
    import duckdb
    from rich.console import Console

    from engine import DimsweepError
    from sweeper.cli.folders import results_in
    from sweeper.ledger.load import load
    from sweeper.terminal import plural, say, table

    _check(query)
    folders = [results_in(name) for name in studies]
    with duckdb.connect(config={"enable_external_access": "false"}) as connection:
        for name, folder in [("rows", folders[0]), *((f.name, f) for f in folders)]:
            connection.register(name, load(folder))
        try:
            found = connection.sql(query)
        except duckdb.Error as error:
            told = str(error).splitlines()[0]
            raise DimsweepError(told, where="query", hint=_tables(folders)) from error
        if found is None:
            raise DimsweepError("it asks for nothing", where="query", hint="begin with SELECT")
        columns, answers = found.columns, found.fetchall()
    if as_csv:
        _print_csv(columns, answers)
        return 0
    console = Console()
    texts = [[_text(value) for value in row] for row in answers[:_SHOWN]]
    console.print(table(columns, texts, left=0))
    if len(answers) > _SHOWN:
        say(f"... and {plural(len(answers) - _SHOWN, 'more row')}; --csv prints all", console)
    return 0


def _check(query: str) -> None:
    """Raise :class:`DimsweepError` for several queries, of which DuckDB would answer the last; what
    is no SQL it tells later, when it knows the tables."""
    import duckdb

    from engine import DimsweepError

    try:
        statements = duckdb.extract_statements(query)
    except duckdb.Error:
        return
    if len(statements) > 1:
        what = f"{len(statements)} queries, of which one would be answered"
        raise DimsweepError(what, where="query", hint="ask one at a time, or join them with UNION")


def _tables(folders: Sequence[object]) -> str:
    names = dict.fromkeys(["rows", *(getattr(folder, "name", "") for folder in folders)])
    return f"tables: {', '.join(names)}; their columns: SELECT column_name FROM (DESCRIBE rows)"


def _text(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _print_csv(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    import csv
    import sys

    writer = csv.writer(sys.stdout)
    writer.writerow(columns)
    writer.writerows(rows)
