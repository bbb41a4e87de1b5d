"""The report in the terminal."""

import pandas as pd
from rich import box
from rich.console import Console
from rich.text import Text

from sweeper.columns import Columns
from sweeper.draw.show.remarks import merged
from sweeper.ledger.record import StudyRecord
from sweeper.report.causes import frequent_errors
from sweeper.report.report import Report
from sweeper.report.sections import sheets
from sweeper.report.sheet import Sheet
from sweeper.terminal import plural

_MOST_CAUSES = 4


def print_report(rows: pd.DataFrame, study: StudyRecord, console: Console) -> None:
    """Print the finding, the tables and the failures; readable in 80 columns and in a pipe.

    Raises :class:`DimsweepError` when no trial is complete.
    """
    report = Report.of(rows, study)
    console.print(Text(report.headline, style="bold"))
    console.print(Text(f"study {study.name}: {report.effort}", style="dim"))
    if study.note:
        console.print(Text(f"note: {study.note}"))
    for sheet in sheets(report):
        console.print()
        console.print(_dress(sheet))
    if errors := frequent_errors(report.failed):
        many = f"{plural(len(report.failed), 'trial')} failed or are infeasible:"
        console.print(Text(f"\n{many}", style="bold red"))
        for text, times in errors[:_MOST_CAUSES]:
            console.print(Text(f"{times:,} x {text}"))
        if rest := sum(times for _, times in errors[_MOST_CAUSES:]):
            causes = plural(len(errors) - _MOST_CAUSES, "other cause")
            console.print(Text(f"{rest:,} of {causes}; the page has all"))
    for note in merged(report.notes):
        console.print(Text(f"\nwarning: {note.line}", style="yellow"))


def _dress(sheet: Sheet) -> Columns:
    look = {"box": box.SIMPLE_HEAD, "show_edge": False, "pad_edge": False, "padding": (0, 1, 0, 0)}
    return Columns(sheet.columns, sheet.rows, sheet.n_names, sheet.title, look)
