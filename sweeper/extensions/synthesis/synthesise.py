"""dimsweep trace synthesise: the traces of a job that nobody ran, from a learnt model."""

from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console

from dimsweep.engine.extensions.synthesis import read_model, synthesise
from dimsweep.engine.formats.chakra import write_chakra_workload
from dimsweep.sweeper.cli.trace.keys import parsed
from dimsweep.sweeper.extensions.synthesis.jobs import any_cluster
from dimsweep.sweeper.terminal import say_warnings


@click.command("synthesise")
@click.argument("model")
@click.argument("keys", nargs=-1, metavar="KEY=NUMBER...")
@click.option("--output", "-o", default="synthesised", show_default=True, metavar="PREFIX")
@click.option("--seed", default=0, show_default=True)
@click.option("--no-spread", is_flag=True, help="Every duration as expected, none drawn.")
def command(model: str, keys: Sequence[str], output: str, seed: int, no_spread: bool) -> int:
    """Write the traces of a job for other keys than those that were learnt from.

    Every key that varied needs a value. One outside the range that was learnt is extrapolated with
    a warning, and refused beyond eight times of it.

    \b
    Example:
      dimsweep trace synthesise model.json layers=96 tensor=8 data=64 pipeline=2 -o w
    """
    asked = parsed(keys)
    made = synthesise(read_model(model), asked, seed=seed, spread=not no_spread)
    say_warnings(made.warnings, Console(stderr=True))
    groups = write_chakra_workload(made.workload, any_cluster(made.sizes), Path(output))
    beside = f", groups: {groups}" if groups else ""
    print(f"{made.n_ranks:,} traces: {output}.<rank>.et{beside}")
    return 0
