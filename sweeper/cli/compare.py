"""dimsweep compare: the best of several studies."""

from collections.abc import Sequence

import click


@click.command("compare")
@click.argument("studies", nargs=-1, required=True, metavar="RESULTS/STUDY...")
def command(studies: Sequence[str]) -> int:
    """Show the best of several studies beside one another.

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
    from dimsweep.sweeper.ledger.place import results_in
    from dimsweep.sweeper.ledger.rows import BANDWIDTH
    from dimsweep.sweeper.report.naming import short_keys
    from dimsweep.sweeper.report.words import fine_percent, gbps, percent, ratio
    from dimsweep.sweeper.terminal import say, table, wide_console

    found = [Results(results_in(name)) for name in studies]
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
    console.print(table((*short_keys(names), *heads), texts))
    if scenarios > 1:
        say(f"{scenarios} scenarios: over best is against the best row of the same one", console)
    return 0
