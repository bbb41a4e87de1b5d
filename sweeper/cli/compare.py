"""dimsweep compare: the best of several studies."""

from collections.abc import Sequence

import click

_WIDE = 200


@click.command("compare")
@click.argument("studies", nargs=-1, required=True, metavar="RESULTS/STUDY...")
def command(studies: Sequence[str]) -> int:
    """Show the best of several studies beside one another.

    There is a row for the best trial of each cell: its split in GB/s, the objectives, the gap to
    the proven bound, what it gains over the study's baseline or its equal split, and how many times
    as bad it is as the best row of the same scenario: models, batches and prices are not ranked
    against each other. The studies must have the same first objective. A study is a folder of
    results, or its name in results/.

    \b
    Examples:
      dimsweep compare results/libra_gpt3_4d results/my_cmaes
      dimsweep compare libra_gpt3_4d my_cmaes my_tpe
    """
    import pandas as pd
    from rich.console import Console

    from sweeper.api.results import Results, compare
    from sweeper.cli.folders import results_in
    from sweeper.report.words import fine_percent, gbps, ratio, short_keys
    from sweeper.terminal import say, table

    found = [Results(results_in(name)) for name in studies]
    rows = compare(*found).rename(columns={"reference": "gain_over"})
    objectives = {each.column: each for one in found for each in one.record.objectives}
    shown = {name: objectives[name].show for name in rows if name in objectives}
    shown |= {name: gbps for name in rows if name.startswith("bandwidth_")}
    shown |= {"gap": fine_percent, "gain": ratio, "gain_over": str, "over_best": ratio}
    scenarios = rows["scenario"].nunique()
    if scenarios == 1:
        rows = rows.drop(columns="scenario")
    names = [name for name in rows if name not in ("bound", *shown)]
    heads = [name.removeprefix("bandwidth_").removesuffix("_GBps") for name in shown]
    heads = [f"{head}, GB/s" if head.isdigit() else head.replace("_", " ") for head in heads]
    texts = [
        (
            *(str(row[name]) for name in names),
            *("-" if pd.isna(row[name]) else show(row[name]) for name, show in shown.items()),
        )
        for _, row in rows.iterrows()
    ]
    console = Console()
    if not console.is_terminal:  # a file or a pipe is as wide as the table
        console = Console(width=_WIDE)
    console.print(table((*short_keys(names), *heads), texts))
    if scenarios > 1:
        say(f"{scenarios} scenarios: over best is against the best row of the same one", console)
    return 0
