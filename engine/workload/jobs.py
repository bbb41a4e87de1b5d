"""Several jobs on one network, as one workload whose process groups do not overlap.

Each job has its own ranks, groups and graphs.  The simulator does not distinguish jobs: they only
share links.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.topology.blocks import Switch
from dimsweep.engine.topology.coordinates import Group, all_coordinates
from dimsweep.engine.topology.topology import Topology
from dimsweep.engine.workload.graph import (
    Access,
    Collective,
    Footprint,
    Graph,
    Operator,
    Receive,
    Send,
    StampedGraph,
    Work,
    Workload,
    graph_by_rank,
    sections_of,
    stamps_of,
)


class Job(NamedTuple):
    """One job to run next to others: a workload, and the topology that it was planned for."""

    workload: Workload
    topology: Topology


@dataclass(frozen=True)
class Jobs:
    """Several jobs as one workload on one topology; ``ranks`` maps each job's name to its ranks."""

    workload: Workload
    topology: Topology
    ranks: Mapping[str, range]

    def isolate(self, name: str) -> Workload:
        """Return the workload in which only job ``name`` runs; all other ranks are idle."""
        whole, own = self.workload, self.ranks[name]
        assert whole.graph_of_rank is not None
        of_rank = np.full(len(whole.graph_of_rank), len(whole.graphs))
        of_rank[own.start : own.stop] = whole.graph_of_rank[own.start : own.stop]
        return replace(whole, graphs=(*whole.graphs, ()), graph_of_rank=of_rank, name=name)


def combine_jobs(jobs: Mapping[str, Job]) -> Jobs:
    """Return all ``jobs`` as one workload; the first job has the first ranks, and so on.

    The outermost dimension of each topology must be a Switch, and only its size may differ between
    jobs. The combined topology's outermost dimension has the sum of these sizes. Groups are renamed
    to ``job: group``.

    Raises :class:`DimsweepError` with the name of a job whose topology differs otherwise, whose
    outermost size does not divide both the sum of the sizes before it and the sum of all, or whose
    messages wrap around the outermost dimension.
    """
    if not jobs:
        raise DimsweepError("no job is given", where="jobs", code="missing")
    names = list(jobs)
    first = jobs[names[0]].topology
    n = sum(job.topology.sizes[-1] for job in jobs.values())
    inner, graphs, of_rank = first.n_npus // first.sizes[-1], list[Graph](), []
    groups = dict[str, Group]()
    ranks, start = dict[str, range](), 0
    for name, (workload, topology) in jobs.items():
        _check_tiling(name, topology, first, start, n)
        _check_messages(name, workload, topology.sizes)
        renamed = _GroupRenamer(name)
        of_rank.append(graph_by_rank(workload, topology.sizes) + len(graphs))
        graphs += map(renamed.graph, workload.graphs)
        groups |= {renamed.group(each): group for each, group in workload.groups.items()}
        end = start + topology.sizes[-1]
        ranks[name], start = range(start * inner, end * inner), end
    dims = (*first.dims[:-1], replace(first.dims[-1], size=n))
    whole = Workload(
        tuple(graphs),
        groups,
        np.concatenate(of_rank),
        name=" and ".join(names),
        footprint=_find_fullest(jobs),
        in_order=_replays_in_order(jobs),
    )
    return Jobs(whole, replace(first, dims=dims), ranks)


def _check_tiling(name: str, topology: Topology, first: Topology, start: int, n: int) -> None:
    """Raise unless the outermost size divides ``start`` and ``n``; all else as in ``first``."""
    size = topology.sizes[-1]
    problem, hint = "", f"such as {first.name}"
    if topology.dims[:-1] != first.dims[:-1] or topology.dims[-1] != replace(
        first.dims[-1], size=size
    ):
        problem = f"{topology.name} differs from {first.name} in more than its outermost size"
    elif topology.dims[-1].block != Switch():
        name_of_dim = topology.dims[-1].name
        problem = f"a part of {name_of_dim} is not a {name_of_dim.partition('(')[0]}"
        hint = "use a Switch as the outermost dimension"
    elif start % size or n % size:
        problem = f"size {size} in the outermost dimension, after {start} of {n}"
        hint = "each size must divide the sum of the sizes before it, and the sum of all sizes"
    if problem:
        raise DimsweepError(problem, where=f"job {name!r}", hint=hint, code="mismatch")


def _check_messages(name: str, workload: Workload, sizes: tuple[int, ...]) -> None:
    """Raise if a message wraps around the outermost dimension, which grows when jobs are joined."""
    outer = all_coordinates(sizes)[:, -1]
    graph = graph_by_rank(workload, sizes)
    for number, own in enumerate(workload.graphs):
        here = outer[graph == number]
        for stamp in stamps_of(own):
            for operator in stamp.operators:
                if not isinstance(operator.work, (Send, Receive)):
                    continue
                there = here + operator.work.offset[-1]
                if len(there) and not 0 <= there.min() <= there.max() < sizes[-1]:
                    raise DimsweepError(
                        f"the offset of {operator.name!r} wraps around the outermost dimension",
                        where=f"job {name!r}",
                        hint="give an offset without wrapping, such as -3 instead of +1 of 4",
                        code="unsupported",
                    )


def _find_fullest(jobs: Mapping[str, Job]) -> Footprint | None:
    needs = [job.workload.footprint for job in jobs.values() if job.workload.footprint is not None]
    return max(needs, key=lambda need: need.total, default=None)


def _replays_in_order(jobs: Mapping[str, Job]) -> bool:
    found = {job.workload.in_order for job in jobs.values()}
    if len(found) > 1:
        problem = "either all jobs must replay traces in their order, or none"
        raise DimsweepError(problem, where="jobs", code="conflict")
    return found.pop()


class _GroupRenamer:
    """Rename the groups in a job's graphs to ``job: group``; keep shared objects shared."""

    def __init__(self, job: str) -> None:
        self._job = job
        # By identity, with the original, which must live as long.
        self._works: dict[int, tuple[Work, Work]] = {}
        self._operators: dict[int, tuple[tuple[Operator, ...], tuple[Operator, ...]]] = {}

    def group(self, name: str) -> str:
        return f"{self._job}: {name}"

    def graph(self, graph: Graph) -> Graph:
        return StampedGraph(
            section._replace(
                stamps=tuple(
                    stamp._replace(operators=self._rename_operators(stamp.operators))
                    for stamp in section.stamps
                )
            )
            for section in sections_of(graph)
        )

    def _rename_operators(self, operators: tuple[Operator, ...]) -> tuple[Operator, ...]:
        if id(operators) not in self._operators:
            renamed = tuple(replace(each, work=self._rename_work(each.work)) for each in operators)
            self._operators[id(operators)] = operators, renamed
        return self._operators[id(operators)][1]

    def _rename_work(self, work: Work) -> Work:
        if id(work) not in self._works:
            renamed = work
            if isinstance(work, Collective):
                stream = work.stream or work.group
                renamed = replace(work, group=self.group(work.group), stream=stream)
            elif isinstance(work, Access) and work.group:
                renamed = replace(work, group=self.group(work.group))
            self._works[id(work)] = work, renamed
        return self._works[id(work)][1]
