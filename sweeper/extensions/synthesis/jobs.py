"""Jobs whole, of all their ranks, as commands that learn from traces read and write them."""

from collections.abc import Mapping
from pathlib import Path

from dimsweep.engine import Cluster, DimsweepError, Topology, Workload
from dimsweep.engine.extensions.synthesis import Job
from dimsweep.engine.formats.chakra import noted_sizes, read_chakra_workload, read_trace
from dimsweep.sweeper.cli.trace.files import find_traces
from dimsweep.sweeper.cli.trace.keys import read_keys


def read_job(source: str, keys: Mapping[str, float] | None = None) -> Job:
    """A job from its traces and its keys, those beside the traces unless given.

    Raises :class:`DimsweepError` for what is wrong in them.
    """
    workload, sizes = read_workload(source)
    return Job.of(workload, sizes, read_keys(source) if keys is None else keys, source)


def read_workload(source: str) -> tuple[Workload, tuple[int, ...]]:
    """The workload of the traces of all ranks, and the sizes of its dimensions: those that traces
    of ours note, else one dimension of all ranks.  Raises :class:`DimsweepError` for others."""
    traces = find_traces(source)
    if traces.alone:
        raise DimsweepError("a job has a trace of each of its ranks", where=source)
    n = len(traces.files)
    sizes = noted_sizes(read_trace(traces.files[0])) or (n,)
    return read_chakra_workload(Path(source), traces.groups, sizes, source), sizes


def any_cluster(sizes: tuple[int, ...]) -> Cluster:
    """A cluster of these sizes: traces hold bytes, durations and groups, whatever the network."""
    shape = "_".join(f"Switch({n})" for n in sizes)
    n = len(sizes)
    return Cluster(Topology.build(shape, bandwidth=[1e9] * n, latency=[0] * n))
