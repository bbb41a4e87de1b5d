"""The commands on results of studies: board, compare, diff, export and reproduce."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from dimsweep.sweeper.ledger.diff import Difference
    from dimsweep.sweeper.run.reproduce import Reproduced


@click.command("compare")
@click.argument("studies", nargs=-1, required=True, metavar="RESULTS/STUDY...")
def compare_command(studies: Sequence[str]) -> int:
    """Show the best of several studies in one table.

    There is a row for the best trial of each cell: its split in GB/s, the objectives, the gap to
    the proven bound, what it gains over the study's baseline or its equal split, and how many times
    as bad it is as the best row of the same scenario, and how sure that is to be measured (two
    designs share most of the model's error): models, batches and prices are not ranked against each
    other. The studies must have the same first objective; each is a folder, or a name in results/.

    \b
    Examples:
      dimsweep compare libra_gpt3_4d my_cmaes
    """
    import pandas as pd

    from dimsweep.sweeper.api.results import Results, compare
    from dimsweep.sweeper.ledger.place import find_results_folder
    from dimsweep.sweeper.ledger.rows import BANDWIDTH
    from dimsweep.sweeper.report.naming import short_keys
    from dimsweep.sweeper.report.words import fine_percent, gbps, percent, ratio
    from dimsweep.sweeper.terminal import make_table, print_line, wide_console

    found = [Results(find_results_folder(name)) for name in studies]
    rows = compare(*found).rename(columns={"reference": "gain_over"})
    objectives = {each.column: each for one in found for each in one.record.objectives}
    shown = {name: objectives[name].show for name in rows if name in objectives}
    dims = {name: f"{d}, GB/s" for d, name in enumerate(BANDWIDTH.among(rows))}
    shown |= dict.fromkeys(dims, gbps)
    shown |= {"gap": fine_percent, "gain": ratio, "gain_over": str, "over_best": ratio}
    shown |= {"sure": percent}
    scenarios = rows["scenario"].nunique()
    if scenarios == 1:
        rows = rows.drop(columns="scenario")
    names = [name for name in rows if name not in ("bound", *shown)]
    heads = [dims.get(name, name.replace("_", " ")) for name in shown]
    texts = [
        (
            *(str(row[name]) for name in names),
            *("-" if pd.isna(row[name]) else show(row[name]) for name, show in shown.items()),
        )
        for _, row in rows.iterrows()
    ]
    console = wide_console(200)
    console.print(make_table((*short_keys(names), *heads), texts))
    if scenarios > 1:
        print_line(
            f"{scenarios} scenarios: over best is against the best row of the same one", console
        )
    return 0


@click.command("diff")
@click.argument("first", metavar="RESULTS/A")
@click.argument("second", metavar="RESULTS/B")
def diff_command(first: str, second: str) -> int:
    """Compare two studies: configuration, rows and best values.

    It shows the keys of the configuration that differ, what wrote the rows (versions, packages,
    machine), how many rows only one of them has, the columns in which rows with the same key
    differ, and the best value of each. The exit code is 1 if rows with the same key differ.

    \b
    Examples:
      dimsweep diff results/libra_gpt3_4d results/my_cmaes
    """
    from dimsweep.sweeper.ledger.diff import diff
    from dimsweep.sweeper.ledger.place import find_results_folder

    found = diff(find_results_folder(first), find_results_folder(second))
    for line in _describe_difference(found, first, second):
        click.echo(line)
    return 1 if found.columns else 0


def _describe_difference(found: "Difference", first: str, second: str) -> list[str]:
    lines = [f"{key}: {a!r} -> {b!r}" for key, (a, b) in found.config.items()]
    lines.append(_describe_rows(found, first, second))
    for name, (n, largest) in found.columns.items():
        by = "" if largest is None else f", by {largest:.2g} at most (relative)"
        lines.append(f"  {name}: {n} rows differ{by}")
    for coordinates, a, b in found.best:
        of = f" of {', '.join(coordinates.values())}" if coordinates else ""
        lines.append(f"best{of}: {a!r} -> {b!r}")
    return lines


def _describe_rows(found: "Difference", first: str, second: str) -> str:
    if not found.common:
        return (
            f"no row is in both ({found.only[0]} are in {first} only, {found.only[1]} in {second} "
            "only): what they simulated differs in the keys above"
        )
    return (
        f"{found.only[0]} rows are in {first} only, {found.only[1]} in {second} only, and of those "
        f"in both {found.same} are the same"
    )


_DIFFERENT_SHOWN = 10  # rows that differ


@click.command("reproduce")
@click.argument("folder", metavar="RESULTS/STUDY")
@click.option("--sample", metavar="N", type=click.IntRange(1), help="N rows at random, not all.")
@click.option("--seed", metavar="N", default=0, help="Which rows the sample has.")
def reproduce_command(folder: str, sample: int | None, seed: int) -> int:
    """Simulate rows of a study again and compare them bit for bit.

    The configuration is the one that the study has kept; files that it names must be as they were.
    Every column of every complete row is compared. The exit code is 1 if any differs.

    \b
    Examples:
      dimsweep reproduce results/libra_gpt3_4d
      dimsweep reproduce results/libra_gpt3_4d --sample 20
    """
    from dimsweep.sweeper.ledger.place import find_results_folder
    from dimsweep.sweeper.run.reproduce import reproduce

    found = reproduce(find_results_folder(folder), sample, seed)
    for line in _describe_rerun(found):
        click.echo(line)
    return 1 if found.differ else 0


def _describe_rerun(found: "Reproduced") -> list[str]:
    same = found.rows - len(found.differ)
    lines = [
        f"{same} of {found.rows} rows are the same, bit for bit ({found.n_complete} are complete)"
    ]
    for (cell, trial), columns in list(found.differ.items())[:_DIFFERENT_SHOWN]:
        more = f" and {len(columns) - 5} more" if len(columns) > 5 else ""
        lines.append(f"  cell {cell}, trial {trial}: {', '.join(columns[:5])}{more} differ")
    for each in found.recorded:
        here, there = _facts(found.current), _facts(each)
        changed = [
            f"{name} {there.get(name)} (here {here[name]})"
            for name in here
            if here[name] != there.get(name)
        ]
        lines.append(f"written with {', '.join(changed) or 'the installed versions'}")
    return lines


def _facts(provenance: object) -> dict[str, str]:
    facts = dict(vars(provenance))
    return {**facts.pop("packages"), **{name: str(value) for name, value in facts.items()}}


@click.command("export")
@click.argument("study", metavar="RESULTS/STUDY")
@click.option("--csv", metavar="FILE", help="Write the rows as CSV; maps are JSON.")
@click.option("--parquet", metavar="FILE", help="Write the rows as one Parquet file.")
@click.option(
    "--optuna", metavar="STORAGE", help="Write an Optuna study: a journal file, or sqlite:///FILE."
)
def export_command(study: str, csv: str | None, parquet: str | None, optuna: str | None) -> int:
    """Write a study's rows as CSV, Parquet or an Optuna study.

    docs/results.md lists the columns. optuna-dashboard opens the storage. A study is a
    folder of results, or its name in results/; it may still run.

    \b
    Examples:
      dimsweep export libra_gpt3_4d --csv rows.csv
      dimsweep export results/libra_gpt3_4d --parquet rows.parquet --optuna study.journal
    """
    from dimsweep.sweeper.export.optuna import write_optuna
    from dimsweep.sweeper.export.rows import write_csv, write_parquet
    from dimsweep.sweeper.ledger.place import find_results_folder
    from dimsweep.sweeper.ledger.stored import Stored
    from dimsweep.sweeper.questions.findings import build_report

    if not (csv or parquet or optuna):
        raise click.UsageError("say what to write: --csv, --parquet or --optuna")
    stored = Stored(find_results_folder(study))
    if csv:
        write_csv(stored, csv)
        click.echo(f"wrote {csv}")
    if parquet:
        write_parquet(stored, parquet)
        click.echo(f"wrote {parquet}")
    if optuna:
        for name in write_optuna(build_report(stored, stored.study), optuna):
            click.echo(f"wrote {name!r} to {optuna}")
    return 0


@click.command("board")
@click.argument("results", default="results", type=click.Path(exists=True, file_okay=False))
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="N",
    default=8050,
    show_default=True,
    help="The port of this machine; 0: any.",
)
@click.option("--open/--no-open", "opens", default=True, help="Open it in a browser.")
def board_command(results: str, port: int, opens: bool) -> int:
    """Show all studies of a results folder on one page, live while they run.

    The page shows the progress of each study, its best so far and the gap to the proven bound,
    failures, actors, and a link to its report; studies that are ticked are compared. It is served
    to this machine alone (127.0.0.1, localhost), whatever else a browser calls it, until the
    command is stopped.

    \b
    Examples:
      dimsweep board
      dimsweep board results --port 8051 --no-open
    """
    from dimsweep.sweeper.board.board import LOOPBACK, make_server
    from dimsweep.sweeper.ledger.place import parse_place

    server = make_server(parse_place(results), port)
    click.echo(f"the board of {results} is at http://{LOOPBACK}:{server.port}/ (Ctrl+C stops it)")
    if opens:
        server.show("/")
    try:
        server.io_loop.start()
    except KeyboardInterrupt:
        server.stop()
    return 0
