"""The answer takes one screen, whatever the study; the rest is in named sections."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from dimsweep.sweeper.draw.terminal import (
    fit,
    print_report,
    print_screen,
    print_section,
    wrap_entry,
)
from dimsweep.sweeper.questions.findings import SECTION_NAMES, build_report, tabulate_sections
from dimsweep.sweeper.report.report import Report
from dimsweep.sweeper.report.runners_up import find_runners_up
from dimsweep.sweeper.report.screen import Entry, entries_of
from dimsweep.sweeper.terminal import SCREEN
from tests.support.refused import refused
from tests.support.reports import (
    again,
    failing,
    grid,
    make_rows,
    make_study,
    networks,
    one_cell,
    search,
    what_if,
    with_baseline,
)

FOLDER = Path("results/a_study_with_a_rather_long_name")


def _split() -> Report:
    rows = again(make_rows(search(40)), [0.8, None])
    return build_report(what_if(rows, {"faster NPU": 0.6, "does not fit": None}), make_study(rows))


def _front() -> Report:
    rows = make_rows(search(40))
    return build_report(rows, make_study(rows, objective=("time", "cost")))


def _stopped() -> Report:
    rows = failing(grid())
    study = make_study(rows, grid=("a.total",))
    return build_report(rows, study.model_copy(update={"finished": False, "n_trials": 900}))


def _networks() -> Report:
    names = [f"network number {i} with quite a long name, " * 4 for i in range(8)]
    return networks({(w, n): i + 1 for w in ("gpt3", "dlrm") for i, n in enumerate(names)})


def _baseline() -> Report:
    rows = one_cell()
    return build_report(*with_baseline(rows, make_study(rows), {"": 3.0}))


REPORTS = [_split, _front, _stopped, _networks, _baseline]


def _print(show: Callable[[Console], None], width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    show(console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("make", REPORTS)
def test_every_answer_fits_one_screen(make: Callable[[], Report], width: int) -> None:
    report = make()
    lines = _print(lambda console: print_screen(report, FOLDER, console, reserved=2), width)
    assert len(lines) <= SCREEN - 2 and max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert "search" in text and "model" in text and str(FOLDER) in text
    assert "the same with" not in text
    shown = {word for line in lines for word in line.split()}
    known = {word for e in entries_of(report, FOLDER) for text in e.texts for word in text.split()}
    labels = {word for e in entries_of(report, FOLDER) for word in e.label.split()}
    whole = {word.rstrip(";") for word in known | labels} | {"..."}
    assert {word.rstrip(";") for word in shown} <= whole, "a word is broken"


@pytest.mark.parametrize("make", REPORTS)
def test_the_full_report_holds_every_section(make: Callable[[], Report]) -> None:
    report = make()
    full = "".join("".join(_print(lambda console: print_report(report, console), 200)).split())
    sections = tabulate_sections(report)
    assert sections and set(sections) <= set(SECTION_NAMES)
    for name, tables in sections.items():
        own = _print(lambda console, name=name: print_section(report, name, console), 200)
        assert own
        if name not in ("provisioned", "whole-front"):
            assert all("".join(table.title.split()) in full for table in tables)


def test_an_unknown_section_names_the_others() -> None:
    with refused("--section", "unknown-name", "tmie", "time", "dimensions"):
        print_section(_split(), "tmie", Console(quiet=True))


def test_what_ifs_are_no_runners_up() -> None:
    """A what-if that is faster than the best design is neither the answer nor a runner-up."""
    report = _split()
    assert float(report.chosen[0][1]["time_s"]) > 0.6
    others = find_runners_up(report)
    assert others and all(float(each.row["time_s"]) > 0.6 for each in others)


WORDS = st.text(st.sampled_from("abc_.8("), min_size=1, max_size=30)
PARTS = st.lists(st.lists(WORDS, min_size=1, max_size=30).map(" ".join), min_size=1, max_size=5)


@given(
    st.lists(
        st.builds(
            lambda label, parts, rank, is_list: Entry(label, tuple(parts), rank, 1, is_list),
            st.sampled_from(["", "search", "runners-up"]),
            PARTS,
            st.integers(0, 9),
            st.booleans(),
        ),
        min_size=1,
        max_size=12,
    ),
    st.sampled_from([80, 120]),
)
def test_any_entries_are_cut_to_the_screen(entries: list[Entry], width: int) -> None:
    found = fit(entries, SCREEN, width)
    lines = [line for entry in found for line in wrap_entry(entry, width)]
    assert len(lines) <= SCREEN and max(map(len, lines)) <= width
