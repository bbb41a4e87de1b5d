"""The report in the terminal."""

from rich import box
from rich.console import Console
from rich.text import Text

from dimsweep.sweeper.columns import Columns
from dimsweep.sweeper.questions.findings import tabulate_study
from dimsweep.sweeper.report.remarks import merged
from dimsweep.sweeper.report.report import Report
from dimsweep.sweeper.terminal import plural

_MOST_CAUSES = 4
_LOOK = {"box": box.SIMPLE_HEAD, "show_edge": False, "pad_edge": False, "padding": (0, 1, 0, 0)}


def print_report(report: Report, console: Console) -> None:
    """Print the finding, the tables and the failures; readable in 80 columns and in a pipe."""
    study = report.study
    console.print(Text(report.headline, style="bold"))
    if report.proof:
        console.print(Text(report.proof))
    if report.ties:
        console.print(Text(f"{report.ties[0].upper()}{report.ties[1:]}"))
    if changes := "; ".join(filter(None, report.what_changes)):
        console.print(Text(f"What would change the answer: {changes}"))
    console.print(Text(f"study {study.name}: {report.effort}", style="dim"))
    if study.note:
        console.print(Text(f"note: {study.note}"))
    for sheet in tabulate_study(report):
        console.print()
        console.print(Columns(sheet, _LOOK))
    if errors := report.causes:
        many = f"{plural(report.n_broken, 'trial')} failed or are infeasible:"
        console.print(Text(f"\n{many}", style="bold red"))
        for text, times in errors[:_MOST_CAUSES]:
            console.print(Text(f"{times:,} x {text}"))
        if rest := sum(times for _, times in errors[_MOST_CAUSES:]):
            causes = plural(len(errors) - _MOST_CAUSES, "other cause")
            console.print(Text(f"{rest:,} of {causes}; the page has all"))
    for note in merged(report.notes):
        console.print(Text(f"\nwarning: {note.line}", style="yellow"))
