"""dimsweep trace learn: a model of a family of jobs, from their traces."""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from dimsweep.engine import DimsweepError
from dimsweep.engine.extensions.synthesis import learn, write_model
from dimsweep.sweeper.cli.trace.files import job_names
from dimsweep.sweeper.cli.trace.keys import Keys, read_all_keys
from dimsweep.sweeper.extensions.synthesis.jobs import read_job
from dimsweep.sweeper.terminal import plural


@click.command("learn")
@click.argument("sources", nargs=-1, required=True, metavar="PREFIX...")
@click.option("--output", "-o", default="model.json", show_default=True, metavar="FILE")
@click.option("--keys", type=Path, metavar="FILE", help="The keys of all jobs, by their names.")
def command(sources: Sequence[str], output: str, keys: Path | None) -> int:
    """Learn what the traces of a family of jobs have in common.

    Each PREFIX is a job, PREFIX.<rank>.et, or a folder of jobs; traces of dimsweep, of ASTRA-sim's
    generators, or converted from PyTorch. PREFIX.keys.json has the numbers that the job was asked
    for (layers, degrees...), or one FILE has those of all: {"job1": {"layers": 24}, ...}. The model
    is JSON: the parts that jobs are made of, how often their loops run, how large and how long
    their steps are, as formulas of the keys.

    \b
    Examples:
      dimsweep trace learn jobs -o model.json
      dimsweep trace synthesise model.json layers=96 data=64 -o w
    """
    prefixes = list(dict.fromkeys(itertools.chain(*map(_prefixes, sources))))
    given = None if keys is None else read_all_keys(keys)
    jobs = [read_job(prefix, _of(prefix, given, keys)) for prefix in prefixes]
    model = learn(jobs)
    write_model(output, model)
    print(f"{output}: {plural(len(model.parts), 'part')} of {plural(len(jobs), 'job')}")
    for name, values in model.keys.items():
        varied = f"{values[0]:g} to {values[-1]:g}" if len(values) > 1 else "never varied"
        print(f"  {name}: {varied}{', a degree' if name in model.degrees else ''}")
    return 0


def _of(prefix: str, given: Mapping[str, Keys] | None, file: Path | None) -> Keys | None:
    if given is None:
        return None
    name = Path(prefix).name
    if name not in given:
        hint = f"jobs that it has: {', '.join(given) or 'none'}"
        raise DimsweepError(f"the file has no keys of the job {name!r}", where=str(file), hint=hint)
    return given[name]


def _prefixes(source: str) -> list[str]:
    """The jobs of a folder, or the one that a file belongs to, as a shell's pattern gives it."""
    folder = Path(source)
    if folder.is_dir():
        return [str(folder / name) for name in job_names(folder)]
    for ending in (".keys.json", ".groups.json"):
        source = source.removesuffix(ending)
    stem, _, rank = source.removesuffix(".et").rpartition(".")
    return [stem if source.endswith(".et") and rank.isdigit() else source]
