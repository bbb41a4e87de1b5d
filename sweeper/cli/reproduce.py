"""dimsweep reproduce: are a study's rows what this machine simulates?"""

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from dimsweep.sweeper.run.reproduce import Reproduced

_SHOWN = 10  # rows that differ


@click.command("reproduce")
@click.argument("folder", metavar="RESULTS/STUDY")
@click.option("--sample", metavar="N", type=click.IntRange(1), help="N rows at random, not all.")
@click.option("--seed", metavar="N", default=0, help="Which rows the sample has.")
def command(folder: str, sample: int | None, seed: int) -> int:
    """Simulate rows of a study again and compare them bit for bit.

    The configuration is the one that the study has kept; files that it names must be as they were.
    Every column of every complete row is compared. The exit code is 1 if any differs.

    \b
    Examples:
      dimsweep reproduce results/libra_gpt3_4d
      dimsweep reproduce results/libra_gpt3_4d --sample 20
    """
    from dimsweep.sweeper.ledger.place import results_in
    from dimsweep.sweeper.run.reproduce import reproduce

    found = reproduce(results_in(folder), sample, seed)
    for line in _lines(found):
        click.echo(line)
    return 1 if found.differ else 0


def _lines(found: "Reproduced") -> list[str]:
    same = found.rows - len(found.differ)
    lines = [f"{same} of {found.rows} rows are the same, bit for bit ({found.of} are complete)"]
    for (cell, trial), columns in list(found.differ.items())[:_SHOWN]:
        more = f" and {len(columns) - 5} more" if len(columns) > 5 else ""
        lines.append(f"  cell {cell}, trial {trial}: {', '.join(columns[:5])}{more} differ")
    for each in found.then:
        here, there = _facts(found.now), _facts(each)
        changed = [
            f"{name} {there.get(name)} (here {here[name]})"
            for name in here
            if here[name] != there.get(name)
        ]
        lines.append(f"written with {', '.join(changed) or 'what is here now'}")
    return lines


def _facts(provenance: object) -> dict[str, str]:
    facts = dict(vars(provenance))
    return {**facts.pop("packages"), **{name: str(value) for name, value in facts.items()}}
