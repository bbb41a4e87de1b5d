"""dimsweep trace learn: a model of a family of jobs, from their traces."""

from collections.abc import Sequence

import click

from engine.synthesis import learn, write_model
from sweeper.cli.trace.jobs import read_job
from sweeper.terminal import plural


@click.command("learn")
@click.argument("sources", nargs=-1, required=True, metavar="PREFIX...")
@click.option("--output", "-o", default="model.json", show_default=True, metavar="FILE")
def command(sources: Sequence[str], output: str) -> int:
    """Learn what the traces of a family of jobs have in common.

    Each PREFIX is a job: PREFIX.<rank>.et on a topology of one dimension, and PREFIX.keys.json with
    the numbers that it was asked for (layers, degrees...). The model is JSON: the parts that jobs
    are made of, how often their loops run, how large and how long their steps are, as formulas of
    the keys.

    \b
    Examples:
      dimsweep trace learn jobs/* -o model.json
      dimsweep trace synthesise model.json layers=96 data=64 -o w
    """
    jobs = [read_job(prefix) for prefix in _prefixes(sources)]
    model = learn(jobs)
    write_model(output, model)
    print(f"{output}: {plural(len(model.parts), 'part')} of {plural(len(jobs), 'job')}")
    for name, values in model.keys.items():
        varied = f"{values[0]:g} to {values[-1]:g}" if len(values) > 1 else "never varied"
        print(f"  {name}: {varied}{', a degree' if name in model.degrees else ''}")
    return 0


def _prefixes(sources: Sequence[str]) -> list[str]:
    """Of all files that a shell's pattern matches, those of each job once."""
    found = dict.fromkeys(_prefix(source) for source in sources)
    return [prefix for prefix in found if prefix]


def _prefix(source: str) -> str:
    for ending in (".keys.json", ".groups.json"):
        source = source.removesuffix(ending)
    stem, _, rank = source.removesuffix(".et").rpartition(".")
    return stem if source.endswith(".et") and rank.isdigit() else source
