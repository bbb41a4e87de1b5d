"""What every room prints in the same way."""

import io
import re

import pytest
from rich.console import Console

from dimsweep.sweeper.terminal import format_count, make_table, print_line, showing_progress
from tests.support.waiting import until


def console(*, terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=60, color_system=None)


def text(of: Console) -> str:
    assert isinstance(of.file, io.StringIO)
    return of.file.getvalue()


def test_a_terminal_shows_that_work_runs_and_a_pipe_does_not() -> None:
    for terminal in (True, False):
        where = console(terminal=terminal)
        with showing_progress("simulating [4] messages", where):
            pass
        assert ("simulating [4] messages" in text(where)) == terminal


def test_a_pipe_is_told_how_far_long_work_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dimsweep.sweeper.terminal.REPORT_INTERVAL", 0.01)
    where = console(terminal=False)
    with showing_progress("simulating [4] batches", where, 4) as done:
        done()
        until(lambda: "1 of 4" in text(where))
    assert re.search(
        r"^simulating \[4\] batches: \d+ s, 1 of 4 done, about \d+ s left",
        text(where),
        re.MULTILINE,
    )


def test_lines_are_printed_as_they_are() -> None:
    where = console(terminal=False)
    print_line("[bold]b0[/bold] " + "long " * 30, where)
    assert text(where) == "[bold]b0[/bold] " + "long " * 30 + "\n"


def test_tables_keep_brackets_and_short_rows() -> None:
    where = console(terminal=False)
    where.print(make_table(("name", "number"), [("[red]a", "1"), ("b",)]))
    lines = [line.split() for line in text(where).splitlines()]
    assert lines == [["name", "number"], ["[red]a", "1"], ["b"]]


def test_plurals() -> None:
    assert [format_count(n, "class") for n in (0, 1, 2)] == ["0 classes", "1 class", "2 classes"]
    assert format_count(1234, "trace") == "1,234 traces"
