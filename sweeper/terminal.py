"""What every room prints in the same way: lines, tables, and a sign of life while work runs."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text


def say(text: str, console: Console, style: str = "") -> None:
    """Print a line as it is: brackets are no markup, and no line is broken in a file or a pipe."""
    console.print(Text(text, style=style), soft_wrap=True)


def say_warnings(warnings: Iterable[str], console: Console) -> None:
    """Print what the design rules found, a line each."""
    for text in warnings:
        say(f"warning: {text}", console, "yellow")


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> Table:
    """A table without lines; the first ``left`` columns are names, the others numbers.

    Where the width is too small a name is folded, and never a number.
    """
    made = Table(box=None, header_style="bold", show_header=any(columns))
    for i, name in enumerate(columns):
        named = i < left
        made.add_column(
            name, justify="left" if named else "right", overflow="fold", no_wrap=not named
        )
    for row in rows:
        made.add_row(*map(Text, row))
    return made


@contextmanager
def waiting(what: str, console: Console) -> Iterator[None]:
    """Within it, a terminal shows ``what`` is done and for how long; a file or a pipe shows none of
    it."""
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    disabled = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=disabled) as progress:
        progress.add_task(what, total=None)
        yield


def plural(n: int, thing: str) -> str:
    """``1 trace``, ``2 traces``, ``2 classes``, ``2 studies``."""
    if n != 1 and thing.endswith("y"):
        return f"{n:,} {thing[:-1]}ies"
    ending = "" if n == 1 else "es" if thing.endswith("s") else "s"
    return f"{n:,} {thing}{ending}"
