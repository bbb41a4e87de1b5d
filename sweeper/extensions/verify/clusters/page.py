"""The tables of docs/accuracy.md, as `dimsweep verify clusters --page` writes them there."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.extensions.verify.clusters.calibrated import HEADS, Predicted, cells
from dimsweep.sweeper.extensions.verify.clusters.compared import (
    Compared,
    Errors,
    by,
    origin,
    without_own_source,
)
from dimsweep.sweeper.extensions.verify.clusters.coverage import Coverage
from dimsweep.sweeper.output import write_file

BEGIN, END = "<!-- printed by dimsweep verify clusters --page -->", "<!-- printed until here -->"
CALIBRATED = "<!-- printed by dimsweep verify clusters --page --calibrate -->"


def write_page(
    file: Path,
    answers: Mapping[Path, Sequence[Compared | str]],
    coverage: Coverage,
    found: Mapping[str, Sequence[Predicted]],
) -> None:
    """Replace what lies between the comments of a page; of calibrations if any were ``found``.

    Raises :class:`DimsweepError` for a page without them.
    """
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    text = _replaced(text, BEGIN, _lines(answers, coverage), file)
    if found:
        rows = [HEADS, ("---",) * len(HEADS), *cells(found)]
        lines = [f"| {' | '.join(each)} |" for each in rows]
        text = _replaced(text, CALIBRATED, [*lines, ""], file)
    write_file(file, "the page", text.encode())


def _replaced(text: str, begin: str, lines: Iterable[str], file: Path) -> str:
    before, first, rest = text.partition(begin)
    _, last, after = rest.partition(END)
    if not (first and last):
        raise DimsweepError(f"it has no {begin} and {END}", where=str(file))
    return f"{before}{begin}\n\n" + "\n".join(lines) + f"\n{END}{after}"


def _lines(answers: Mapping[Path, Sequence[Compared | str]], coverage: Coverage) -> Iterator[str]:
    rows = [each for own in answers.values() for each in own if isinstance(each, Compared)]
    times = [row for row in rows if row.is_time]
    unseen = [row for row in times if not row.fitted and not row.of_peaks]
    judged = [row for row in without_own_source(times) if row.fitted]
    yield from _errors("Predicted unseen: no constant was fitted to these documents", unseen)
    yield from _errors(
        "Used for fitting: each document as the other fitted ones see it (none sees the rest)",
        judged,
    )
    peaks = [row for row in times if row.of_peaks]
    if peaks:
        yield from _errors("Predicted unseen, by the peaks of data sheets alone", peaks)
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
    for told in coverage.sentences():
        yield f"{told[0].upper()}{told[1:]}.\n"


def _errors(title: str, rows: Sequence[Compared]) -> Iterator[str]:
    yield f"**{title}**\n"
    heads = ("document", "GPU", "rows", "mean", "median", "bias", "Spearman")
    yield f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}"
    for name, own in by(lambda row: f"{origin(row)} | {row.gpu}, {row.kind}", rows).items():
        yield f"| {name} | {_words(own)} |"
    if rows:
        yield f"| all | | {_words(rows)} |"
    yield ""


def _words(rows: Sequence[Compared]) -> str:
    found = Errors.of(rows)
    rank = "" if found.rank != found.rank else f"{found.rank:.2f}"
    return f"{found.rows} | {found.mean:.1%} | {found.median:.1%} | {found.bias:+.1%} | {rank}"
