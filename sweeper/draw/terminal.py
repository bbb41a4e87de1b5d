"""Print a report in the terminal: the answer on one screen, or all sections."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from dimsweep.engine import DimsweepError, find_nearest
from dimsweep.sweeper.columns import TerminalTable, wrap_text
from dimsweep.sweeper.ledger.place import Place
from dimsweep.sweeper.questions.findings import tabulate_sections, tabulate_study
from dimsweep.sweeper.report.remarks import merged
from dimsweep.sweeper.report.report import Report
from dimsweep.sweeper.report.screen import Entry, entries_of
from dimsweep.sweeper.table import Table
from dimsweep.sweeper.terminal import SCREEN, format_count

_MOST_CAUSES = 4
_SPACE = re.compile(r"(?<!\d) |(?<=\d) (?![A-Za-z%])")  # a number and its unit are one word
_LOOK = {"box": box.SIMPLE_HEAD, "show_edge": False, "pad_edge": False, "padding": (0, 1, 0, 0)}
_DISPENSABLE = 5  # entries of a larger rank may be left out
_LABEL = 12  # letters of the column of labels


def print_screen(report: Report, folder: Place, console: Console, *, reserved: int = 0) -> None:
    """Print the answer on one screen; the caller prints ``reserved`` lines of it."""
    entries = fit(entries_of(report, folder), SCREEN - reserved, console.width)
    for i, entry in enumerate(entries):
        lines = wrap_entry(entry, console.width)
        text = Text("\n".join(lines), style="" if i else "bold")
        if entry.label:
            text.stylize("dim", 0, len(entry.label))
        console.print(text, soft_wrap=True)


def fit(entries: Sequence[Entry], limit: int, width: int) -> list[Entry]:
    """Return the entries in at most ``limit`` lines; the least important texts are left out."""
    found = list(entries)

    def excess() -> int:
        return sum(len(wrap_entry(entry, width)) for entry in found) - limit

    while excess() > 0:
        shorter = [e for e in found if len(e.parts) > e.keep or e.rank > _DISPENSABLE]
        if shorter:
            last = max(shorter, key=lambda entry: entry.rank)
            if len(last.parts) > last.keep:
                found[found.index(last)] = replace(last, parts=last.parts[:-1])
            else:
                found.remove(last)
        else:
            longest = max(found, key=lambda entry: len(wrap_entry(entry, width)))
            cut = longest.parts[0][: -max(width, 8)].rstrip(" .") + " ..."
            found[found.index(longest)] = replace(longest, parts=(cut,))
    return found


def wrap_entry(entry: Entry, width: int) -> list[str]:
    """Return the lines of an entry, broken between words only."""
    indent = _LABEL if entry.label else 0
    lines = [line for text in entry.texts for line in _wrap(text, max(width - indent, 1))]
    heads = [entry.label, *[""] * (len(lines) - 1)]
    return [f"{head:{indent}}{line}" for head, line in zip(heads, lines, strict=True)]


def _wrap(text: str, width: int) -> Iterator[str]:
    """Yield lines of up to ``width`` letters that end at spaces; only longer words are broken."""
    line = ""
    for word in _SPACE.split(text):
        if line and cell_len(f"{line} {word}") > width:
            yield line
            line = ""
        *full, line = wrap_text(f"{line} {word}" if line else word, width).split("\n")
        yield from full
    yield line


def print_section(report: Report, name: str, console: Console) -> None:
    """Print the tables of one section.

    Raises
    ------
    DimsweepError
        If the study has no section ``name``.
    """
    sections = tabulate_sections(report)
    if name not in sections:
        nearest = find_nearest(name, list(sections))
        maybe = f"; did you mean {nearest}?" if nearest else ""
        raise DimsweepError(
            f"this study has no section {name!r}{maybe}",
            where="--section",
            hint=f"its sections are {', '.join(sections)}",
            code="unknown-name",
        )
    _print_tables(sections[name], console)


def _print_tables(tables: Sequence[Table], console: Console) -> None:
    for i, sheet in enumerate(tables):
        if i:
            console.print()
        console.print(TerminalTable(sheet, _LOOK))


def print_report(report: Report, console: Console) -> None:
    """Print the finding, all sections and the failures, for 80 columns or a pipe."""
    study = report.study
    console.print(Text(report.headline, style="bold"))
    if report.proof:
        console.print(Text(report.proof))
    if report.ties:
        console.print(Text(f"{report.ties[0].upper()}{report.ties[1:]}"))
    if changes := "; ".join(filter(None, report.answer_changes)):
        console.print(Text(f"What would change the answer: {changes}"))
    console.print(Text(f"study {study.name}: {report.effort}", style="dim"))
    if study.note:
        console.print(Text(f"note: {study.note}"))
    for sheet in tabulate_study(report):
        console.print()
        console.print(TerminalTable(sheet, _LOOK))
    if errors := report.causes:
        many = f"{format_count(report.n_broken, 'trial')} failed or are infeasible:"
        console.print(Text(f"\n{many}", style="bold red"))
        for text, times in errors[:_MOST_CAUSES]:
            console.print(Text(f"{times:,} x {text}"))
        if rest := sum(times for _, times in errors[_MOST_CAUSES:]):
            causes = format_count(len(errors) - _MOST_CAUSES, "other cause")
            console.print(Text(f"{rest:,} of {causes}; the page has all"))
    for note in merged([*report.rule_warnings, *report.notes]):
        console.print(Text(f"\nwarning: {note.line}", style="yellow"))
