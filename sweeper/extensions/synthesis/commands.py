"""The commands ``trace learn``, ``trace synthesise`` and ``trace obfuscate``."""

import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
from rich.console import Console

from dimsweep.engine import Cluster, DimsweepError, Topology, Workload
from dimsweep.engine.extensions.synthesis import (
    Job,
    learn,
    obfuscate,
    read_model,
    synthesise,
    write_model,
)
from dimsweep.engine.formats.chakra import (
    noted_sizes,
    read_chakra_workload,
    read_trace,
    write_chakra_workload,
)
from dimsweep.sweeper.cli.trace_files import (
    Keys,
    find_traces,
    job_names,
    parse_keys,
    read_all_keys,
    read_keys,
)
from dimsweep.sweeper.terminal import format_count, print_warnings


def read_job(source: str, keys: Mapping[str, float] | None = None) -> Job:
    """Return a job from its traces and its keys (default: the file next to the traces).

    Raises :class:`DimsweepError` for invalid traces or keys.
    """
    workload, sizes = read_workload(source)
    return Job.from_workload(workload, sizes, read_keys(source) if keys is None else keys, source)


def read_workload(source: str) -> tuple[Workload, tuple[int, ...]]:
    """Return the workload of the traces of all ranks, and the sizes of its dimensions.

    Sizes are those that dimsweep writes in traces, else one dimension of all ranks. Raises
    :class:`DimsweepError` for other traces.
    """
    traces = find_traces(source)
    if traces.alone:
        raise DimsweepError(
            "a job needs a trace of each of its ranks", where=source, code="missing"
        )
    n = len(traces.files)
    sizes = noted_sizes(read_trace(traces.files[0])) or (n,)
    return read_chakra_workload(Path(source), traces.groups, sizes, source), sizes


def any_cluster(sizes: tuple[int, ...]) -> Cluster:
    """Return a cluster with dimensions of these sizes, to read traces, which fit any network."""
    shape = "_".join(f"Switch({n})" for n in sizes)
    n = len(sizes)
    return Cluster(Topology.build(shape, bandwidth=[1e9] * n, latency=[0] * n))


@click.command("learn")
@click.argument("sources", nargs=-1, required=True, metavar="PREFIX...")
@click.option("--output", "-o", default="model.json", show_default=True, metavar="FILE")
@click.option("--keys", type=Path, metavar="FILE", help="The keys of all jobs, by their names.")
def learn_command(sources: Sequence[str], output: str, keys: Path | None) -> int:
    """Learn what the traces of a family of jobs have in common.

    Each PREFIX is a job, PREFIX.<rank>.et, or a folder of jobs; traces of dimsweep, of ASTRA-sim's
    generators, or converted from PyTorch. PREFIX.keys.json has the numbers that the job was asked
    for (layers, degrees...), or one FILE for all: {"job1": {"layers": 24}, ...}. The model
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
    print(f"{output}: {format_count(len(model.parts), 'part')} of {format_count(len(jobs), 'job')}")
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
        raise DimsweepError(
            f"the file has no keys of the job {name!r}", where=str(file), hint=hint, code="missing"
        )
    return given[name]


def _prefixes(source: str) -> list[str]:
    """Return the path prefixes of the traces of each job in a folder, or of a file's job."""
    folder = Path(source)
    if folder.is_dir():
        return [str(folder / name) for name in job_names(folder)]
    for ending in (".keys.json", ".groups.json"):
        source = source.removesuffix(ending)
    stem, _, rank = source.removesuffix(".et").rpartition(".")
    return [stem if source.endswith(".et") and rank.isdigit() else source]


@click.command("synthesise")
@click.argument("model")
@click.argument("keys", nargs=-1, metavar="KEY=NUMBER...")
@click.option("--output", "-o", default="synthesised", show_default=True, metavar="PREFIX")
@click.option("--seed", default=0, show_default=True)
@click.option("--no-spread", is_flag=True, help="Every duration as expected, none drawn.")
def synthesise_command(
    model: str, keys: Sequence[str], output: str, seed: int, no_spread: bool
) -> int:
    """Write the traces of a job for other keys than those that were learnt from.

    Every key that varied needs a value. One outside the range that was learnt is extrapolated with
    a warning, and refused beyond eight times of it.

    \b
    Example:
      dimsweep trace synthesise model.json layers=96 tensor=8 data=64 pipeline=2 -o w
    """
    asked = parse_keys(keys)
    made = synthesise(read_model(model), asked, seed=seed, spread=not no_spread)
    print_warnings(made.warnings, Console(stderr=True))
    groups = write_chakra_workload(made.workload, any_cluster(made.sizes), Path(output))
    beside = f", groups: {groups}" if groups else ""
    print(f"{made.n_ranks:,} traces: {output}.<rank>.et{beside}")
    return 0


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
def obfuscate_command(source: str, target: str, privacy: float, seed: int) -> int:
    """Write traces without names, and with other sizes and durations.

    SOURCE is the prefix of traces on a topology of one dimension. Equal sizes stay equal, so that
    ranks agree, and the totals of each kind stay as they were.

    \b
    Example:
      dimsweep trace obfuscate ours shared --privacy 0.05
    """
    if Path(source).resolve() == Path(target).resolve():
        raise DimsweepError("this would overwrite the source traces", where=target, code="conflict")
    workload, sizes = read_workload(source)
    hidden = obfuscate(workload, privacy=privacy, seed=seed)
    groups = write_chakra_workload(hidden, any_cluster(sizes), Path(target))
    beside = f", groups: {groups}" if groups else ""
    print(f"{math.prod(sizes):,} traces: {target}.<rank>.et{beside}")
    return 0
