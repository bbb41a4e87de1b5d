"""Output to the terminal for all commands: lines, tables, and the progress of work."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from threading import Event, Thread

from rich.cells import cell_len
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from dimsweep.sweeper.columns import TerminalTable
from dimsweep.sweeper.table import Table

SCREEN = 25  # lines of an answer
REPORT_INTERVAL = 30.0  # seconds between lines where there is no terminal


def wide_console(width: int, *, stderr: bool = False) -> Console:
    """Return a console for tables; if output is a file or a pipe, it is ``width`` letters wide."""
    console = Console(stderr=stderr)
    return console if console.is_terminal else Console(stderr=stderr, width=width)


def print_line(text: str, console: Console, style: str = "") -> None:
    """Print a line without interpreting markup, and without breaking it in a file or a pipe."""
    console.print(Text(text, style=style), soft_wrap=True)


def count_lines(text: str, width: int) -> int:
    """Return the number of lines that a text takes in a terminal of ``width`` letters."""
    return sum(-(-max(cell_len(line), 1) // width) for line in text.split("\n"))


def print_warnings(warnings: Iterable[str], console: Console) -> None:
    """Print warnings, one on each line."""
    for text in warnings:
        print_line(f"warning: {text}", console, "yellow")


def make_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1
) -> TerminalTable:
    """Return a table without rules.

    The first ``left`` columns are left-aligned names, then numbers.
    """
    return plain_table(Table("", columns, list(rows), left))


def plain_table(table: Table) -> TerminalTable:
    """Return a :class:`Table` in the style without rules, which is used outside of reports."""
    return TerminalTable(table, {"box": None, "header_style": "bold"})


@contextmanager
def showing_progress(
    what: str, console: Console, total: int | None = None
) -> Iterator[Callable[[], None]]:
    """Return a context that shows that the task ``what`` runs, and for how long.

    A file or a pipe gets a line every 30 seconds. The context is a function to call whenever one of
    ``total`` steps is finished; the remaining time is estimated from these calls.
    """
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    more = () if total is None else (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    disabled, finished = not console.is_terminal, Event()
    with Progress(*columns, *more, console=console, transient=True, disable=disabled) as progress:
        task = progress.add_task(what, total=total)
        if disabled:
            Thread(target=_report, args=(progress.tasks[0], console, finished), daemon=True).start()
        try:
            yield partial(progress.advance, task)
        finally:
            finished.set()


def _report(task: Task, console: Console, finished: Event) -> None:
    """Print the progress of a task periodically until ``finished`` is set."""
    while not finished.wait(REPORT_INTERVAL):
        text = f"{task.description}: {task.elapsed or 0.0:,.0f} s"
        if task.total is not None:
            text += f", {task.completed:,.0f} of {task.total:,.0f} done"
            if task.completed:
                left = (task.elapsed or 0.0) * (task.total / task.completed - 1)
                text += f", about {left:,.0f} s left"
        print_line(text, console)


def format_count(n: int, thing: str) -> str:
    """Return a number with its noun in the right form: ``1 trace``, ``2 traces``, ``2 classes``."""
    if n != 1 and thing.endswith("y"):
        return f"{n:,} {thing[:-1]}ies"
    ending = "" if n == 1 else "es" if thing.endswith("s") else "s"
    return f"{n:,} {thing}{ending}"
