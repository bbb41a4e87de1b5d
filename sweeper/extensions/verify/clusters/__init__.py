"""``dimsweep verify clusters``: training iterations that others measured, next to simulated ones.

Each row of the tables becomes a configuration (:mod:`sweeper.extensions.verify.clusters.plans`)
and is simulated.  Nothing is fitted here.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import click
from rich.console import Console

from dimsweep.engine import DimsweepError, suggest_names
from dimsweep.sweeper.calibrate.bands import Bands
from dimsweep.sweeper.calibrate.evidence import format_table, load_known_errors
from dimsweep.sweeper.draw.canvas import kind_of
from dimsweep.sweeper.extensions.verify.clusters.compared import (
    Compared,
    Coverage,
    Predicted,
    calibrate_sources,
    collect_runs,
    print_calibrated,
    print_coverage,
)
from dimsweep.sweeper.extensions.verify.clusters.measurements import (
    LeftOut,
    Measurement,
    find_tables,
    is_fitted,
    read_table,
)
from dimsweep.sweeper.extensions.verify.clusters.plans import Prediction, predict
from dimsweep.sweeper.extensions.verify.clusters.report import (
    build_point,
    draw_picture,
    print_groups,
    print_moved,
    print_rows,
    print_summary,
    read_earlier,
    write_page,
)
from dimsweep.sweeper.extensions.verify.clusters.systems import (
    add_seconds,
    compute_uncounted_memory,
    find_family,
    find_system,
)
from dimsweep.sweeper.extensions.verify.points import (
    find_recorded,
    json_option,
    map_in_processes,
    print_json,
    write_picture,
)
from dimsweep.sweeper.output import write_file
from dimsweep.sweeper.terminal import format_count, print_line, showing_progress

_WIDE = 200


@click.command("clusters")
@click.argument("tables", nargs=-1)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="A folder of tables; the recorded ones unless given.",
)
@click.option(
    "--picture", type=click.Path(path_type=Path), help="Also draw this .png, .svg or .pdf."
)
@click.option(
    "--evidence",
    type=click.Path(path_type=Path),
    help="Also write this CSV, from which the intervals of simulated times are computed.",
)
@click.option(
    "--page",
    type=click.Path(path_type=Path),
    help="Also write the tables of errors into this page, between its comments.",
)
@click.option(
    "--calibrate",
    is_flag=True,
    help="Also predict each source from three of its rows; this doubles the time.",
)
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    help="Also print the rows whose prediction moved since this JSON was printed.",
)
@json_option
def command(
    tables: Sequence[str],
    data: Path | None,
    picture: Path | None,
    evidence: Path | None,
    page: Path | None,
    calibrate: bool,
    against: Path | None,
    as_json: bool,
) -> int:
    """Compare training iterations measured on real clusters, times and memory.

    TABLES are names of CSV files in the folder, such as megatron_bridge; default: all.  Every row
    is printed with its error; rows that cannot be simulated are counted by reason.  The last lines
    summarise the errors; the exit code is 1 if they miss the aims.

    \b
    Examples:
      dimsweep verify clusters bigscience_a100 --picture accuracy.png
      dimsweep verify clusters --json > before.json
      dimsweep verify clusters --against before.json
    """
    kind = "" if picture is None else kind_of(picture, "--picture")  # fails before the simulation
    earlier = {} if against is None else read_earlier(against)
    console = Console(soft_wrap=True, stderr=as_json)
    if not console.is_terminal:  # a file or a pipe is as wide as the tables
        console = Console(width=_WIDE, soft_wrap=True, stderr=as_json)
    data = data or find_recorded("clusters", "--data")
    files = _choose_tables(find_tables(data), tables)
    with showing_progress("simulating measured iterations", console):
        answers = compare({file: _read_measurements(file) for file in files})
    for file in files:
        if own := [row for row in answers[file] if isinstance(row, Compared)]:
            print_rows(file.stem, own, console)
        for why, n in Counter(why for why in answers[file] if isinstance(why, str)).items():
            print_line(f"left out: {format_count(n, 'row')} of {file.stem}: {why}", console)
    rows = [row for file in files for row in answers[file] if isinstance(row, Compared)]
    if as_json:
        print_json([build_point(row) for row in rows])
    times = [row for row in rows if row.is_time]
    memory = [row for row in rows if not row.is_time]
    if not rows:
        problem = "no row of these tables can be simulated"
        raise DimsweepError(problem, where=str(data), code="unsupported")
    if times:
        print_groups(times, console)
    if times and picture is not None:
        write_picture(picture, draw_picture(times, kind), kind)
        print_line(f"\n{picture} shows them", console)
    coverage = _cover_intervals(times, evidence, console)
    found: dict[str, list[Predicted]] = {}
    if calibrate:
        with showing_progress("calibrating each source by three of its rows", console):
            found = calibrate_sources(times)
        print_calibrated(found, console)
    if page is not None:
        write_page(page, answers, coverage, found)
    if against is not None:
        print_moved([build_point(row) for row in rows], earlier, console)
    return 0 if print_summary(times, memory, console) else 1


def _cover_intervals(
    times: Sequence[Compared], evidence: Path | None, console: Console
) -> Coverage:
    """Print how many errors lie in their intervals; return the coverage.

    With ``evidence`` (a file), fit the model of errors anew and write it.
    """
    times = [row for row in times if not row.uses_peaks]
    runs, bands = collect_runs(times), load_known_errors().bands
    if evidence is not None:
        bands = Bands.fit([run.place for run in runs], [run.logarithm for run in runs])
        write_file(evidence, "the evidence", format_table(bands, runs).encode())
        print_line(f"\n{evidence} has {format_count(len(times), 'run')}", console)
    found = Coverage(bands, tuple(runs))
    if runs:
        print_coverage(found, console)
    return found


def compare(
    tables: Mapping[Path, Iterable[tuple[int, Measurement | LeftOut]]],
) -> dict[Path, list[Compared | str]]:
    """Return, for every row of the tables, its prediction or the reason why it is left out.

    A row with a time and a memory is returned once for each.
    """
    work = [(file, line, row) for file, rows in tables.items() for line, row in rows]
    rows = [row for _, _, row in work if isinstance(row, Measurement)]
    predictions = iter([*map_in_processes(_predict, rows, chunksize=4)])
    answers: dict[Path, list[Compared | str]] = {file: [] for file in tables}
    for file, line, row in work:
        ours = str(row) if isinstance(row, LeftOut) else next(predictions)
        if isinstance(row, LeftOut) or isinstance(ours, str):
            answers[file].append(str(ours))
            continue
        system, kind, fitted = find_system(row), find_family(row), is_fitted(row.origin)
        compared = Compared(line, row, ours, system.kind, kind, fitted, not system.is_measured)
        if row.seconds is not None or row.used is None:
            answers[file].append(compared)
        if row.seconds is not None and row.memory is not None:
            answers[file].append(replace(compared, measured=replace(row, seconds=None)))
        if row.used is not None:
            reserved = row.used - compute_uncounted_memory(row, system.domain)
            of_memory = replace(row, seconds=None, memory=reserved)
            answers[file].append(replace(compared, measured=of_memory))
    return answers


def _read_measurements(file: Path) -> Iterator[tuple[int, Measurement | LeftOut]]:
    """Yield line number and measurement of a table's rows; FLOP/s are converted to seconds."""
    for line, row in read_table(file):
        try:
            yield line, add_seconds(row) if isinstance(row, Measurement) else row
        except LeftOut as why:
            yield line, why


def _predict(measured: Measurement) -> Prediction | str:
    """Return the simulated values of a measured run, or the reason why it is left out."""
    try:
        return predict(measured)
    except LeftOut as why:
        return str(why)


def _choose_tables(files: Sequence[Path], names: Sequence[str]) -> list[Path]:
    known = {file.stem: file for file in files}
    for name in names:
        if name not in known:
            raise DimsweepError(
                f"unknown table {name!r}",
                where=str(files[0].parent),
                hint=suggest_names(name, known),
                code="unknown-name",
            )

    return [known[name] for name in names] if names else list(files)
