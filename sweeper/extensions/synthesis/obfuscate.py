"""dimsweep trace obfuscate: traces that can be shared."""

import math
from pathlib import Path

import click

from dimsweep.engine import DimsweepError
from dimsweep.engine.extensions.synthesis import obfuscate
from dimsweep.engine.formats.chakra import write_chakra_workload
from dimsweep.sweeper.extensions.synthesis.jobs import any_cluster, read_workload


@click.command("obfuscate")
@click.argument("source")
@click.argument("target")
@click.option(
    "--privacy",
    default=0.05,
    show_default=True,
    help="Spread (of the logarithm) of what sizes and durations are multiplied by, 0 to 0.5.",
)
@click.option("--seed", default=0, show_default=True)
def command(source: str, target: str, privacy: float, seed: int) -> int:
    """Write traces without names, and with other sizes and durations.

    SOURCE is the prefix of traces on a topology of one dimension. Equal sizes stay equal, so that
    ranks agree, and the totals of each kind stay as they were.

    \b
    Example:
      dimsweep trace obfuscate ours shared --privacy 0.05
    """
    if Path(source).resolve() == Path(target).resolve():
        raise DimsweepError("it would overwrite the traces it is made from", where=target)
    workload, sizes = read_workload(source)
    hidden = obfuscate(workload, privacy=privacy, seed=seed)
    groups = write_chakra_workload(hidden, any_cluster(sizes), Path(target))
    beside = f", groups: {groups}" if groups else ""
    print(f"{math.prod(sizes):,} traces: {target}.<rank>.et{beside}")
    return 0
