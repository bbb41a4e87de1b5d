"""Jobs whole, of all their ranks, as commands that learn from traces read and write them."""

import math
from pathlib import Path

from engine import Cluster, DimsweepError, Topology, Workload
from engine.formats.chakra import own, read_chakra_workload, read_trace
from engine.synthesis import Job
from sweeper.cli.trace.files import find_traces
from sweeper.cli.trace.keys import read_keys


def read_job(source: str) -> Job:
    """A job from its traces and keys.  Raises :class:`DimsweepError` for what is wrong in them."""
    workload, sizes = read_workload(source)
    return Job.of(workload, sizes, read_keys(source), source)


def read_workload(source: str) -> tuple[Workload, tuple[int, ...]]:
    """The workload of the traces of all ranks, and the sizes of its dimensions: those that traces
    of ours note, else one dimension of all ranks.  Raises :class:`DimsweepError` for others."""
    traces = find_traces(source)
    if traces.alone:
        raise DimsweepError("a job has a trace of each of its ranks", where=source)
    n = len(traces.files)
    noted = read_trace(traces.files[0]).metadata.get(own.SIZES)
    sizes = noted if isinstance(noted, tuple) and math.prod(noted) == n else (n,)  # type: ignore[arg-type]
    return read_chakra_workload(Path(source), traces.groups, sizes, source), sizes  # type: ignore[arg-type]


def any_cluster(sizes: tuple[int, ...]) -> Cluster:
    """A cluster of these sizes: traces hold bytes, durations and groups, whatever the network."""
    shape = "_".join(f"Switch({n})" for n in sizes)
    n = len(sizes)
    return Cluster(Topology.build(shape, bandwidth=[1e9] * n, latency=[0] * n))
