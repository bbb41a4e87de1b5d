"""The command dimsweep bill: the parts of a cluster's network, their prices and power."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from dimsweep.sweeper.cli.overrides import Asked, Overrides, hydra_options

if TYPE_CHECKING:
    from dimsweep.engine import DimsweepError
    from dimsweep.engine.network import Bill
    from dimsweep.sweeper.config.compose import ComposedConfig


class _Billed(Overrides):
    """Argument type: an override, a study, or the name of a cluster."""

    name = "billed"

    def meaning(self, word: str) -> str | None:
        from dimsweep.sweeper.config.compose import CLUSTER
        from dimsweep.sweeper.places import list_groups

        if word in list_groups().get(CLUSTER, ()):
            return f"{CLUSTER}={word}"
        return super().meaning(word)


@click.command("bill")
@click.argument("overrides", nargs=-1, type=_Billed(), metavar="[CLUSTER] [STUDY] [KEY=VALUE]...")
@click.option("--json", "as_json", is_flag=True, help="Print the bill as JSON.")
@click.option("--csv", "as_csv", is_flag=True, help="Print a line for each part as CSV.")
@hydra_options
def bill_command(overrides: Sequence[str], as_json: bool, as_csv: bool, asked: Asked) -> int:
    """Print a network's bill of materials, with prices and watts.

    A list of whole parts (cost=h100_2024_08) counts switches, adapters, transceivers and cables of
    the network, each with the date, the level of evidence (V read in its source, N noted by others,
    S secondary, A assumed) and the source of its price; a table by tier (cost=illustrative) counts
    GB/s. Parts without a price are named, and then the sum is missing.

    \b
    Usual keys:
      nodes=N                                the number of machines
      cost=NAME                              the list of prices; `dimsweep list cost` shows them
      topology.shape, topology.bandwidth     the network, such as Switch(8)_Switch(256)
      network.file=FILE                      a graph instead
      cost.parts.NAME.price.value='9 kUSD'   another price of a part
      cost.power.pue=1.2                     watts of the data centre for a watt of its machines

    \b
    Examples:
      dimsweep bill dgx_h100 nodes=128 cost=h100_2024_08
      dimsweep bill dgx_h100 nodes=128 --json | jq .cost_usd
      dimsweep bill topology=libra_3d cost=libra_3d
    """
    if asked.multirun:
        raise click.UsageError("--multirun: here is the bill of one network")
    if as_json and as_csv:
        raise click.UsageError("--json and --csv each print something else; give one")
    overrides = asked.with_places(overrides)
    if not asked.print_configuration(overrides, may_sweep=True):
        from rich.console import Console

        from dimsweep.sweeper.study.rules import machine_warnings
        from dimsweep.sweeper.terminal import print_warnings

        bill, name, composed = _bill(overrides)
        print_warnings(machine_warnings(composed, priced=True), Console(stderr=as_json or as_csv))
        how = _print_json if as_json else _print_csv if as_csv else partial(_print, name)
        how(bill, _sources(composed))
    return 0


# Of a graph that is counted in whole parts no dimension is looked at.
_NO_DIMENSIONS = ("topology.bandwidth=1 GB/s", "topology.latency=0 s", "topology.tiers=[]")


def _bill(overrides: Sequence[str]) -> "tuple[Bill, str, ComposedConfig]":
    """Return the bill of materials of the configuration under ``overrides``, and its title."""
    from dimsweep.engine import DimsweepError
    from dimsweep.sweeper.config.compose import compose
    from dimsweep.sweeper.simulation.program import build_cluster

    composed = compose(overrides, may_sweep=True)
    cost, instead = composed.config.cost, composed.config.network.links_key
    if cost.parts and instead in ("file", "generator"):
        composed = compose([*_NO_DIMENSIONS, *overrides], may_sweep=True)
    with composed.adding_sources():
        if not cost.parts and not cost.tiers:
            what = f"cost={composed.choices.get('cost')} has no prices"
            hint = "cost=NAME with some, which `dimsweep list cost` shows"
            raise DimsweepError(what, where="cost", hint=hint, code="missing")
        if not cost.parts and instead == "generator":
            raise _by_tier(composed)
        cluster = build_cluster(composed.config)
        graph = cluster.network.graph
        bill = composed.config.purchase(cluster.topology, cluster.network).bill()
        if graph is not None and not bill.items:
            raise _by_tier(composed)
    what, n = cluster.topology.name, cluster.topology.n_npus
    if graph is not None:
        what, n = f"network.{instead}", graph.n_npus
    return bill, f"{what}, {n:,} NPUs, by cost={composed.choices.get('cost')}", composed


def _by_tier(composed: "ComposedConfig") -> "DimsweepError":
    """Return the error for prices by tier if the links of a network graph have no tier."""
    from dimsweep.engine import DimsweepError
    from dimsweep.sweeper.config.sources import read_values
    from dimsweep.sweeper.places import list_groups

    lists = [name for name in list_groups()["cost"] if read_values("cost", name).get("parts")]
    return DimsweepError(
        f"cost={composed.choices.get('cost')} prices the GB/s of tiers, and no link of"
        f" network.{composed.config.network.links_key} is of a tier",
        where="cost",
        hint=f"a list of whole parts: {', '.join(f'cost={name}' for name in sorted(lists))}",
        code="mismatch",
    )


def _sources(composed: "ComposedConfig") -> dict[str, str]:
    """Return the source of each tier's price, except of prices that the user sets."""
    from dimsweep.sweeper.config.sources import read_figures, walk_numbers

    name, cost = composed.choices.get("cost"), composed.config.text["cost"]
    now, found = dict(walk_numbers(cost)), {}
    for figure in read_figures("cost", name) if name else []:
        if now.get(figure.key) != figure.value:
            continue
        if (document := figure.source) is not None:
            source = f"{document.date} {document.evidence}: {document.document}"
            found[figure.key.removeprefix("tiers.")] = source
    return found


def _print(name: str, bill: "Bill", sources: dict[str, str]) -> None:
    from rich.console import Console

    from dimsweep.sweeper.report.bill import remarks, tabulate_bill
    from dimsweep.sweeper.terminal import make_table, print_line

    console = Console()
    whole, *notes = tabulate_bill(bill, name, sources)
    print_line(whole.title, console)
    console.print(make_table(whole.columns, whole.rows, left=whole.n_names))
    for note in notes:
        print_line(f"{note.title}:", console)
        for row in note.rows:
            print_line(" ".join(row), console)
    for text in remarks(bill):
        print_line(text, console, "yellow")


def _print_json(bill: "Bill", sources: dict[str, str]) -> None:
    """Print the bill as JSON; totals are null if a price is missing."""
    import json

    from dimsweep.sweeper.report.bill import rows

    content: dict[str, Any] = {"cost_usd": bill.cost, "power_w": bill.power, "pue": bill.pue}
    content |= {"missing": [*bill.missing], "items": rows(bill, sources)[: len(bill.items)]}
    print(json.dumps(content, indent=1))


def _print_csv(bill: "Bill", sources: dict[str, str]) -> None:
    import csv
    import sys

    from dimsweep.sweeper.report.bill import COLUMNS, rows

    writer = csv.DictWriter(sys.stdout, COLUMNS)
    writer.writeheader()
    writer.writerows(rows(bill, sources))
