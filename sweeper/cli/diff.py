"""dimsweep diff: what tells two studies apart."""

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from dimsweep.sweeper.ledger.diff import Difference


@click.command("diff")
@click.argument("first", metavar="RESULTS/A")
@click.argument("second", metavar="RESULTS/B")
def command(first: str, second: str) -> int:
    """Tell what two studies do not have in common.

    It shows the keys of the configuration that differ, what wrote the rows (versions, packages,
    machine), how many rows only one of them has, the columns in which rows with the same key
    differ, and the best value of each. The exit code is 1 if rows with the same key differ.

    \b
    Examples:
      dimsweep diff results/libra_gpt3_4d results/my_cmaes
    """
    from dimsweep.sweeper.ledger.diff import diff
    from dimsweep.sweeper.ledger.place import results_in

    found = diff(results_in(first), results_in(second))
    for line in _lines(found, first, second):
        click.echo(line)
    return 1 if found.columns else 0


def _lines(found: "Difference", first: str, second: str) -> list[str]:
    lines = [f"{key}: {a!r} -> {b!r}" for key, (a, b) in found.config.items()]
    lines.append(_rows(found, first, second))
    for name, (n, largest) in found.columns.items():
        by = "" if largest is None else f", by {largest:.2g} at most (relative)"
        lines.append(f"  {name}: {n} rows differ{by}")
    for coordinates, a, b in found.best:
        of = f" of {', '.join(coordinates.values())}" if coordinates else ""
        lines.append(f"best{of}: {a!r} -> {b!r}")
    return lines


def _rows(found: "Difference", first: str, second: str) -> str:
    if not found.common:
        return (
            f"no row is in both ({found.only[0]} are in {first} only, {found.only[1]} in {second} "
            "only): what they simulated differs in the keys above"
        )
    return (
        f"{found.only[0]} rows are in {first} only, {found.only[1]} in {second} only, and of those "
        f"in both {found.same} are the same"
    )
