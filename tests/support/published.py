"""What was published, as the tables of studies/ have it; and all-reduces to compare with it."""

import csv
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from dimsweep.engine import (
    Cluster,
    CollectiveKind,
    CollectiveModel,
    DimensionOrder,
    QueueOrder,
    Topology,
    simulate,
)
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.extensions.verify.files import find_published
from dimsweep.sweeper.extensions.verify.points import read_lines
from tests.support.programs import one_collective

MIB = 2.0**20
SCHEDULERS = {
    "Baseline": (DimensionOrder.BASELINE, QueueOrder.FIFO),
    "Themis+FIFO": (DimensionOrder.THEMIS, QueueOrder.FIFO),
    "Themis+SCF": (DimensionOrder.THEMIS, QueueOrder.SMALLEST_FIRST),
}


def published_values(study: str) -> Mapping[str, float]:
    """The numbers that a study's table has, by the names of its points."""
    lines = read_lines(find_published()[study].points)
    return {line.name: line.published for line in lines if isinstance(line.published, float)}


def published_table(study: str, name: str) -> list[dict[str, str]]:
    """A table of measurements beside a study."""
    file = find_published()[study].find_table(name)
    assert file is not None
    with file.open(newline="", encoding="utf-8") as opened:
        return list(csv.DictReader(opened))


@cache
def topology(option: str) -> Topology:
    """That of a configuration."""
    return compose([f"topology={option}"]).config.topology.build()


def without_latency(topology: Topology) -> Topology:
    """Bandwidth terms only."""
    return replace(topology, dims=tuple(replace(dim, latency=0) for dim in topology.dims))


def all_reduce(topology: Topology, scheduler: str, n_bytes: float, chunks: int = 64) -> float:
    """Microseconds of an all-reduce over all NPUs."""
    order, queue = SCHEDULERS[scheduler]
    model = CollectiveModel(chunks=chunks, order=order, queue=queue)
    workload = one_collective(CollectiveKind.ALL_REDUCE, n_bytes, topology.sizes)
    return simulate(workload, Cluster(topology, collectives=model)).time_ps / 1e6


def utilisation(topology: Topology, n_bytes: float, microseconds: float) -> float:
    """The share (%) of all bandwidth that an all-reduce uses in its time."""
    n, total = topology.n_npus, sum(dim.bandwidth for dim in topology.dims)
    return 100 * 2 * (n - 1) / n * n_bytes / total * 1e6 / microseconds
