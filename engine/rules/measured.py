"""Collectives that measurements of the cluster say nothing about."""

from collections.abc import Iterator

from dimsweep.engine import units
from dimsweep.engine.collective.library import request_for
from dimsweep.engine.collective.library.measured import rows_for
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.lower.program import Program
from dimsweep.engine.workload.graph import Collective

_Ranks = tuple[CollectiveKind, int, int]  # a collective, among so many ranks on so many nodes


def beyond_measurements(program: Program) -> list[str]:
    """What a program's collectives take from elsewhere than from the cluster's own measurements:
    those that were not measured at all, and those of sizes below or above all that were."""
    timings = program.cluster.collectives.timings
    if timings is None:
        return []
    found = [f"{timings.source}: left out {timings.left_out}"] if timings.left_out else []
    for key, sizes in _sizes(program).items():
        kind, ranks, nodes = key
        what = f"{kind} among {ranks} GPUs on {nodes} nodes"
        rows = rows_for(timings, *key)
        if not rows:
            found.append(f"{timings.source} has no {what}: NCCL's model gives its time")
            continue
        least, most = rows[0].n_bytes, rows[-1].n_bytes
        if min(sizes) < least:
            found.append(
                f"{timings.source} has {what} from {units.format_bytes(least)} up: smaller ones "
                "take as long as that"
            )
        if max(sizes) > most:
            found.append(
                f"{timings.source} has {what} up to {units.format_bytes(most)}: larger ones go at "
                "the rate of that"
            )
    return found


def _sizes(program: Program) -> dict[_Ranks, set[float]]:
    sizes: dict[_Ranks, set[float]] = {}
    for work in _collectives(program):
        group = program.workload.groups[work.group]
        if group.n_members > 1:
            asked = request_for(work.kind, work.n_bytes, group, program.cluster)
            key = asked.kind, asked.ranks, asked.nodes
            sizes.setdefault(key, set()).add(asked.n_bytes)
    return sizes


def _collectives(program: Program) -> Iterator[Collective]:
    """The distinct ones, in the order in which they first come."""
    works = program.workload.works()
    return iter(dict.fromkeys(work for work in works if isinstance(work, Collective)))
