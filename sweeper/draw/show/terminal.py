"""The report in the terminal."""

import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sweeper.ledger.record import StudyRecord
from sweeper.report.report import Report
from sweeper.report.sections import sheets
from sweeper.report.sheet import Sheet
from sweeper.report.summary import frequent_errors


def print_report(rows: pd.DataFrame, study: StudyRecord, console: Console) -> None:
    """Print the finding, the tables and the failures; readable in 80 columns and in a pipe.

    Raises :class:`DimsweepError` when no trial is complete.
    """
    report = Report.of(rows, study)
    console.print(Text(report.headline, style="bold"))
    console.print(Text(f"study {study.name}: {report.effort}", style="dim"))
    for sheet in sheets(report):
        console.print()
        console.print(_dress(sheet))
    if errors := frequent_errors(report.failed):
        text, times = errors[0]
        many = f"{len(report.failed)} trials failed or are infeasible; most often ({times} times):"
        console.print(Text(f"\n{many}", style="bold red"))
        console.print(Text(text))
    for note in report.notes:
        console.print(Text(f"\nwarning: {note}", style="yellow"))


def _dress(sheet: Sheet) -> Table:
    """``sheet`` as a rich table.  Cells are Text, since brackets in a name are not markup."""
    look = {"show_edge": False, "pad_edge": False, "padding": (0, 1, 0, 0)}
    table = Table(box=box.SIMPLE_HEAD, title=sheet.title, title_justify="left", **look)  # type: ignore[arg-type]
    for i, column in enumerate(sheet.columns):
        justify = "left" if i < sheet.n_names else "right"
        table.add_column(Text(column), justify=justify, overflow="fold")  # type: ignore[arg-type]
    for row in sheet.rows:
        table.add_row(*map(Text, row))
    return table
