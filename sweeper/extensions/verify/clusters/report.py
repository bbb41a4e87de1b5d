"""Show the comparison with measured iterations as tables, as a page and as a picture."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, FiniteFloat
from rich.console import Console

from dimsweep.engine import DimsweepError
from dimsweep.engine.formats import read_text, validated
from dimsweep.sweeper.draw.canvas import encoded, frame
from dimsweep.sweeper.extensions.verify.clusters.compared import (
    HEADS,
    Compared,
    Coverage,
    Errors,
    Predicted,
    correct_fitted_rows,
    find_origin,
    format_calibrated,
    group_rows,
)
from dimsweep.sweeper.extensions.verify.clusters.measurements import GIB
from dimsweep.sweeper.extensions.verify.points import Tolerance, Value, within_share
from dimsweep.sweeper.output import write_file
from dimsweep.sweeper.report.colours import BLUE, GREEN, GREY, ORANGE
from dimsweep.sweeper.terminal import format_count, make_table, print_line

_MARKS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
_COLOURS = (BLUE, ORANGE, GREEN, "#CC79A7", "#D55E00", "#56B4E9", "#F0E442", GREY, "black")


def draw_picture(rows: Sequence[Compared], kind: str) -> bytes:
    """Draw the measured and simulated times of rows; return the file's bytes."""
    errors = Errors.from_rows(rows)
    title = (
        f"{errors.rows} training iterations that others measured: "
        f"median error {errors.median:.1%}, mean {errors.mean:.1%}"
    )
    with frame(title, 9.0) as figure:
        ax = figure.subplots()
        values = [value for row in rows for value in row.values]
        ends = np.array([min(values) / 1.5, max(values) * 1.5])
        ax.fill_between(ends, 0.9 * ends, 1.1 * ends, color=GREY, alpha=0.3, lw=0, label="±10 %")
        ax.plot(ends, ends, color=GREY, lw=1)
        for i, (gpu, own) in enumerate(group_rows(lambda row: row.gpu, rows).items()):
            theirs, ours = zip(*(row.values for row in own), strict=True)
            style: dict[str, Any] = {
                "marker": _MARKS[i % 9],
                "color": _COLOURS[i % 9],
                "s": 28,
                "alpha": 0.8,
            }
            ax.scatter(theirs, ours, lw=0, label=f"{gpu} ({len(own)})", **style)
        ax.set(xscale="log", yscale="log", xlim=ends, ylim=ends, aspect="equal")
        ax.set(xlabel="measured seconds of an iteration", ylabel="simulated seconds")
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter("")
        ax.legend(loc="upper left")
        return encoded(figure, kind)


BEGIN, END = "<!-- printed by dimsweep verify clusters --page -->", "<!-- printed until here -->"
CALIBRATED = "<!-- printed by dimsweep verify clusters --page --calibrate -->"


def write_page(
    file: Path,
    answers: Mapping[Path, Sequence[Compared | str]],
    coverage: Coverage,
    found: Mapping[str, Sequence[Predicted]],
) -> None:
    """Replace the text between marker comments of a page.

    The text on calibrations is replaced only if any were ``found``. Raises :class:`DimsweepError`
    for a page without the comments.
    """
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    text = _replace_section(text, BEGIN, _format_lines(answers, coverage), file)
    if found:
        rows = [HEADS, ("---",) * len(HEADS), *format_calibrated(found)]
        lines = [f"| {' | '.join(each)} |" for each in rows]
        text = _replace_section(text, CALIBRATED, [*lines, ""], file)
    write_file(file, "the page", text.encode())


def _replace_section(text: str, begin: str, lines: Iterable[str], file: Path) -> str:
    before, first, rest = text.partition(begin)
    _, last, after = rest.partition(END)
    if not (first and last):
        problem = f"the page lacks {begin} and {END}"
        raise DimsweepError(problem, where=str(file), code="missing")
    return f"{before}{begin}\n\n" + "\n".join(lines) + f"\n{END}{after}"


def _format_lines(
    answers: Mapping[Path, Sequence[Compared | str]], coverage: Coverage
) -> Iterator[str]:
    rows = [each for own in answers.values() for each in own if isinstance(each, Compared)]
    times = [row for row in rows if row.is_time]
    unseen = [row for row in times if not row.fitted and not row.uses_peaks]
    judged = [row for row in correct_fitted_rows(times) if row.fitted]
    yield from _format_table("Predicted unseen: no constant was fitted to these documents", unseen)
    yield from _format_table(
        "Used for fitting: each document as the other fitted ones see it (none sees the rest)",
        judged,
    )
    peaks = [row for row in times if row.uses_peaks]
    if peaks:
        yield from _format_table("Predicted unseen, by the peaks of data sheets alone", peaks)
    yield "**Left out, and by whom**\n"
    yield "| table | rows | why |\n|---|---|---|"
    for path, own in answers.items():
        for why, n in Counter(each for each in own if isinstance(each, str)).items():
            yield f"| {path.stem} | {n} | {why.splitlines()[0]} |"
    alone = sum(row.fitted for row in times) - len(judged)
    nobody = "fitted, and no other fitted document of their GPU and kind judges them"
    yield f"| all | {alone} | {nobody} |"
    yield ""
    yield "**Intervals, each from the other sources**\n"
    heads = ("", "rows", "sources", "in the 50 % band", "in the 90 % band", "width of that")
    yield f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}"
    for words in coverage.cells():
        yield f"| {' | '.join(words)} |"
    yield ""
    for sentence in coverage.list_sentences():
        yield f"{sentence[0].upper()}{sentence[1:]}.\n"


def _format_table(title: str, rows: Sequence[Compared]) -> Iterator[str]:
    yield f"**{title}**\n"
    heads = ("document", "GPU", "rows", "mean", "median", "bias", "Spearman")
    yield f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}"
    groups = group_rows(lambda row: f"{find_origin(row)} | {row.gpu}, {row.kind}", rows)
    for name, own in groups.items():
        yield f"| {name} | {_format_row(own)} |"
    if rows:
        yield f"| all | | {_format_row(rows)} |"
    yield ""


def _format_row(rows: Sequence[Compared]) -> str:
    found = Errors.from_rows(rows)
    rank = "" if found.rank != found.rank else f"{found.rank:.2f}"
    return f"{found.rows} | {found.mean:.1%} | {found.median:.1%} | {found.bias:+.1%} | {rank}"


# Aims for rows of these GPUs, with one source left out at a time.
AIMED = ("A100", "A100 40GB", "H100", "B200")
MEDIAN_AIM, MEAN_AIM, SOURCE_AIM, RANK_AIM = 0.06, 0.10, 0.15, 0.9
# Aims for memory: the mean error, and the maximum underestimate.  Reserved memory has wider aims,
# because PyTorch's cache holds more than the allocated memory.
MEMORY_AIMS = {"allocated": (0.03, 0.0), "reserved": (0.08, 0.02)}
_RANKED_ROWS = 8  # minimum number of rows for a rank correlation
_GROUPS: tuple[tuple[str, Callable[[Compared], str]], ...] = (
    ("GPU", lambda row: row.gpu),
    ("family", lambda row: row.family),
    ("scale", lambda row: row.scale),
    ("kind", lambda row: f"{row.gpu}, {row.kind}, {row.scale}"),
    ("precision", lambda row: row.measured.precision),
    ("source", find_origin),
)


def print_rows(name: str, rows: Sequence[Compared], console: Console) -> None:
    """Print every row of a table with measured and simulated values, and the error."""
    columns = ("line", "model", "GPU", "plan", "GPUs", "theirs", "ours", "error")
    lines = []
    for row in rows:
        theirs, ours = (
            f"{value:.4g} s" if row.is_time else f"{value / GIB:.2f} GiB" for value in row.values
        )
        model = f"{row.measured.model[:28]}{' (fitted)' if row.fitted else ''}"
        plan = f"{row.measured.plan} {row.measured.precision}"
        line = (str(row.line), model, row.gpu, plan, f"{row.measured.gpus:,}")
        lines.append((*line, theirs, ours, f"{row.error:+.1%}"))
    print_line(f"\n{name}", console, "bold")
    console.print(make_table(columns, lines, left=4))


def build_point(row: Compared) -> Value:
    """Return a row as a point, whose tolerance is the aim for the mean error of its kind."""
    of = row.measured
    name = f"{of.table} line {row.line}: {of.model}, {of.plan}, {of.gpus:,} {row.gpu}"
    note = "constants were fitted to this source" if row.fitted else ""
    if row.is_time:
        return Value(name, *row.values, within_share(MEAN_AIM), of.source, "s", note)
    mean, less = MEMORY_AIMS[_memory_kind(row)]
    return Value(name, *row.values, Tolerance("relative", less, mean), of.source, "B", note)


def _memory_kind(row: Compared) -> str:
    """Return the kind of measured memory: allocated or reserved."""
    return "allocated" if row.measured.used is None else "reserved"


_MOVED = 0.001  # relative; less is not printed


class _Earlier(BaseModel):
    """A row that ``dimsweep verify clusters --json`` of an earlier version printed."""

    name: str
    unit: str  # of a line's time, or of its memory
    ours: FiniteFloat


def read_earlier(file: Path) -> dict[tuple[str, str], float]:
    """Return the predictions of an earlier version by a row's name and unit (s or B).

    Raises :class:`DimsweepError` for a file that is not what ``--json`` prints.
    """
    try:
        content = json.loads(read_text(file, "JSON of an earlier version"))
    except (ValueError, RecursionError) as error:
        raise DimsweepError(
            f"the file is not JSON: {error}",
            where=f"--against {file}",
            hint="write it with dimsweep verify clusters --json",
            code="bad-syntax",
        ) from error
    rows = validated(list[_Earlier], content, f"--against {file}")
    return {(row.name, row.unit): row.ours for row in rows}


def print_moved(
    points: Sequence[Value], earlier: Mapping[tuple[str, str], float], console: Console
) -> None:
    """Print the rows whose prediction differs from the earlier one by more than 0.1 %."""
    lines = []
    for point in points:
        before = earlier.get((point.name, point.unit))
        if before is None or abs(point.ours / before - 1) <= _MOVED:
            continue
        errors = (f"{ours / point.published - 1:+.1%}" for ours in (before, point.ours))
        lines.append((point.name, *errors, f"{point.ours / before - 1:+.1%}"))
    known = sum((point.name, point.unit) in earlier for point in points)
    print_line(
        f"\n{len(lines)} of {format_count(known, 'row')} moved since the earlier version; "
        f"{len(points) - known} are new, {len(earlier) - known} are missing",
        console,
    )
    if lines:
        console.print(make_table(("row", "error before", "error now", "moved"), lines))


def print_groups(rows: Sequence[Compared], console: Console) -> None:
    """Print errors of times by GPU, family, scale and source, separately for fitted rows."""
    for fitted in (True, False):
        own = [row for row in rows if row.fitted is fitted]
        if not own:
            continue
        for name, key in _GROUPS:
            groups = {k: Errors.from_rows(part) for k, part in group_rows(key, own).items()}
            kind = "fitted" if fitted else "unfitted"
            _print_errors(f"\n{kind} rows by {name}", groups, console)
    left_out = group_rows(find_origin, correct_fitted_rows(rows))
    title = "leave one source out: no fitted source counts in its own times"
    _print_errors(title, {name: Errors.from_rows(own) for name, own in left_out.items()}, console)


def _print_errors(title: str, groups: Mapping[str, Errors], console: Console) -> None:
    columns = (title.strip(), "rows", "mean", "median", "worst", "bias", "Spearman")
    lines = [
        (
            name,
            str(errors.rows),
            *(f"{x:.1%}" for x in (errors.mean, errors.median, errors.worst)),
            f"{errors.bias:+.1%}",
            f"{errors.rank:.2f}",
        )
        for name, errors in groups.items()
    ]
    print_line("", console)
    console.print(make_table(columns, lines))


def print_summary(times: Sequence[Compared], memory: Sequence[Compared], console: Console) -> bool:
    """Print rows, errors and rank correlations; return whether all aims are met."""
    good = True
    print_line("\nsummary", console, "bold")
    kinds = {"fitted": True, "unfitted": False}
    for kind, own in {
        **{
            kind: [r for r in times if r.fitted is of and not r.uses_peaks]
            for kind, of in kinds.items()
        },
        "by data sheets alone": [row for row in times if row.uses_peaks],
    }.items():
        if own:
            print_line(f"times, {kind}: {_format_errors(Errors.from_rows(own))}", console)
    aimed = correct_fitted_rows([row for row in times if row.gpu in AIMED])
    if aimed:
        all_of_them, sources = Errors.from_rows(aimed), group_rows(find_origin, aimed)
        worst, name = max((Errors.from_rows(own).mean, name) for name, own in sources.items())
        good &= all_of_them.median <= MEDIAN_AIM and all_of_them.mean <= MEAN_AIM
        good &= worst <= SOURCE_AIM
        print_line(
            f"times, one source left out, {', '.join(AIMED)}: {_format_errors(all_of_them)} "
            f"(aims: median {MEDIAN_AIM:.0%}, mean {MEAN_AIM:.0%})",
            console,
        )
        alone = sum(row.gpu in AIMED for row in times) - len(aimed)
        if alone:
            what = "of the only fitted source of a GPU and kind"
            print_line(f"not judged: {format_count(alone, 'row')} {what}", console)
        print_line(f"worst source: mean {worst:.1%} of {name} (aim {SOURCE_AIM:.0%})", console)
        good &= _print_ranks(sources, console)
    for what, own in group_rows(_memory_kind, memory).items():
        if what == "reserved":
            enough = sum(row.values[0] <= row.ours.reserved for row in own)
            print_line(
                f"memory: {enough} of {format_count(len(own), 'row')} within what may be reserved",
                console,
            )
        errors, low = Errors.from_rows(own), min(row.error for row in own)
        mean, less = MEMORY_AIMS[what]
        good &= errors.mean <= mean and low >= -less
        print_line(
            f"memory, {what}: {_format_errors(errors)} (aim: mean {mean:.0%}); lowest {low:+.1%} "
            f"(aim: never less than measured{f' by more than {less:.0%}' if less else ''})",
            console,
        )
    return good


def _print_ranks(sources: Mapping[str, Sequence[Compared]], console: Console) -> bool:
    good = True
    for name, own in sources.items():
        if len(own) >= _RANKED_ROWS:
            rank = Errors.from_rows(own).rank
            good &= not rank < RANK_AIM
            print_line(
                f"Spearman {rank:.2f} of {len(own)} rows of {name} (aim {RANK_AIM})", console
            )
    return good


def _format_errors(errors: Errors) -> str:
    return (
        f"{errors.rows} rows, mean error {errors.mean:.1%}, median {errors.median:.1%}, "
        f"worst {errors.worst:.1%}"
    )
