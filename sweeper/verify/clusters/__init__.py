"""``dimsweep verify clusters``: training iterations that others measured, against our times.

Each row of the tables becomes a configuration (:mod:`sweeper.verify.clusters.plans`), which is
simulated like any other one; nothing is fitted here.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from engine import DimsweepError, suggestion
from sweeper.build.evidence import SOFTWARE, Run, facts, table
from sweeper.draw.canvas import kind_of
from sweeper.output import write_file
from sweeper.terminal import plural, say, waiting
from sweeper.verify.clusters import picture as pictures
from sweeper.verify.clusters.compared import Compared, origin
from sweeper.verify.clusters.measurements import LeftOut, Measurement, find_tables, read_table
from sweeper.verify.clusters.models import family, with_seconds
from sweeper.verify.clusters.plans import configure
from sweeper.verify.clusters.predict import Prediction, predict
from sweeper.verify.clusters.report import point_of, print_groups, print_rows, print_summary
from sweeper.verify.clusters.split import is_fitted
from sweeper.verify.clusters.systems import system_of
from sweeper.verify.points import json_option, print_json, write_picture
from sweeper.verify.side_by_side import side_by_side

_HERE = Path(__file__).resolve().parents[3] / "tests" / "golden" / "clusters"

_WIDE = 200


@click.command("clusters")
@click.argument("tables", nargs=-1)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    default=_HERE,
    help="A folder of tables; those of tests/golden/clusters unless given.",
)
@click.option(
    "--picture", type=click.Path(path_type=Path), help="Draw this .png, .svg or .pdf, too."
)
@click.option(
    "--evidence",
    type=click.Path(path_type=Path),
    help="Write this CSV, on which the intervals of simulated times rest, too.",
)
@json_option
def command(
    tables: Sequence[str], data: Path, picture: Path | None, evidence: Path | None, as_json: bool
) -> int:
    """Compare training iterations measured on real clusters, times and memory.

    TABLES are names of CSV files in the folder, such as megatron_bridge; all of them unless given.
    Every row is printed with its error, rows that cannot be simulated with the reason.  The last
    lines sum up the errors; the exit code is 1 if they are not within the aims.

    \b
    Example:
      dimsweep verify clusters bigscience_a100 --picture accuracy.png
    """
    kind = "" if picture is None else kind_of(picture, "--picture")  # before it is simulated
    console = Console(soft_wrap=True, stderr=as_json)
    if not console.is_terminal:  # a file or a pipe is as wide as the tables
        console = Console(width=_WIDE, soft_wrap=True, stderr=as_json)
    files = _chosen(find_tables(data), tables)
    with waiting("simulating measured iterations", console):
        answers = compare(files)
    for file in files:
        compared = [row for row in answers[file] if isinstance(row, Compared)]
        if compared:
            print_rows(file.stem, compared, console)
        reasons = Counter(why for why in answers[file] if isinstance(why, str))
        for why, n in reasons.items():
            say(f"left out: {plural(n, 'row')} of {file.stem}: {why}", console)
    rows = [row for file in files for row in answers[file] if isinstance(row, Compared)]
    if as_json:
        print_json([point_of(row) for row in rows])
    times = [row for row in rows if row.is_time]
    memory = [row for row in rows if not row.is_time]
    if not rows:
        raise DimsweepError("no row of these tables can be simulated", where=str(data))
    if times:
        print_groups(times, console)
    if times and picture is not None:
        write_picture(picture, pictures.draw(times, kind), kind)
        say(f"\n{picture} shows them", console)
    if evidence is not None:
        write_file(evidence, "the evidence", table(map(run_of, times)).encode())
        say(f"\n{evidence} has {plural(len(times), 'run')}", console)
    return 0 if print_summary(times, memory, console) else 1


def compare(files: Sequence[Path]) -> dict[Path, list[Compared | str]]:
    """Every row of the tables with its prediction, or the reason why it is left out."""
    work = [(file, line, row) for file in files for line, row in _read(file)]
    predictions = side_by_side(_predict, [row for _, _, row in work], chunksize=4)
    answers: dict[Path, list[Compared | str]] = {file: [] for file in files}
    for (file, line, row), ours in zip(work, predictions, strict=True):
        if isinstance(ours, str) or isinstance(row, LeftOut):
            answers[file].append(str(ours))
            continue
        gpu, kind = system_of(row).kind, family(row)
        answers[file].append(Compared(line, row, ours, gpu, kind, is_fitted(row.origin)))
    return answers


def run_of(row: Compared) -> Run:
    """A measured time as evidence for times like it."""
    own = facts(configure(row.measured, 1), row.gpu)
    stock = system_of(row.measured).config.npu
    known = {name: {*getattr(own, name), float(getattr(stock, name))} for name in SOFTWARE}
    software: dict[str, Any] = {name: tuple(sorted(values)) for name, values in known.items()}
    return Run(replace(own, **software), origin(row), row.fitted, row.error)


def _read(file: Path) -> Iterator[tuple[int, Measurement | LeftOut]]:
    """The rows of a table, with seconds where it has FLOP/s."""
    for line, row in read_table(file):
        try:
            yield line, with_seconds(row) if isinstance(row, Measurement) else row
        except LeftOut as why:
            yield line, why


def _predict(measured: Measurement | LeftOut) -> Prediction | str:
    """The prediction, or why there is none."""
    if isinstance(measured, LeftOut):
        return str(measured)
    try:
        return predict(measured)
    except LeftOut as why:
        return str(why)


def _chosen(files: Sequence[Path], names: Sequence[str]) -> list[Path]:
    known = {file.stem: file for file in files}
    for name in names:
        if name not in known:
            raise DimsweepError(
                f"there is no table {name!r}",
                where=str(files[0].parent),
                hint=suggestion(name, known),
            )
    return [known[name] for name in names] if names else list(files)
