"""Several jobs, each with a workload, on one network."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, Self

import numpy as np
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import Field, model_validator

import dimsweep.engine
import dimsweep.engine.workload
from dimsweep.engine import Cluster, DimsweepError, Fidelity, Program
from dimsweep.engine.cluster import OtherNpus
from dimsweep.engine.workload import combine_jobs
from dimsweep.sweeper.config.sources import read_values
from dimsweep.sweeper.config.workload import Workload, parse_workload
from dimsweep.sweeper.part import (
    CountKey,
    Part,
    ValueParser,
    naming_key,
    preserve_errors,
)

_PRESET = "preset"


def _parse_job(value: Any) -> Workload:
    """Return the workload of a job, from the name of a preset or from keys.

    The keys may override those of a ``preset``.
    """
    if isinstance(value, str):
        value = {_PRESET: value}
    if isinstance(value, Mapping) and isinstance(value.get(_PRESET), str):
        own = {name: each for name, each in value.items() if name != _PRESET}
        try:
            value = OmegaConf.to_container(
                OmegaConf.merge(read_values("workload", value[_PRESET]), own), resolve=True
            )
        except OmegaConfBaseException as error:
            reason = str(error).partition("\n")[0]
            problem = f"its keys contradict the preset's: {reason}"
            raise DimsweepError(problem, code="wrong-type") from error
    made = parse_workload(value)
    if isinstance(made, Jobs):
        raise DimsweepError(
            "a job cannot consist of jobs",
            hint="list them with the other jobs, each with a separate name",
            code="unsupported",
        )
    if any(file for _, file in made.file_keys()):
        problem, hint = "a workload from a file cannot be a job", "use a model, or layers"
        raise DimsweepError(problem, hint=hint, code="unsupported")
    return made


class Job(Part):
    """One of several jobs: its workload and its share of the cluster."""

    #: Workload: a preset's name, or keys; with `preset`, the keys that differ from it.
    workload: Annotated[Workload, ValueParser(_parse_job)]
    #: Members of the outermost dimension that the job occupies.
    size: CountKey


class Jobs(Workload):
    """Several ``jobs``, each a workload with a name, on one cluster.

    They start an iteration together and share only links. Their ranks are numbered job by job.
    """

    jobs: Annotated[dict[str, Job], Field(min_length=1)]

    @model_validator(mode="after")
    @preserve_errors
    def _check(self) -> Self:
        for name, job in self.jobs.items():
            own = job.workload.arithmetic, job.workload.narrow
            if own != (self.arithmetic, self.narrow):
                raise DimsweepError(
                    f"it computes in {own[1] or own[0]}; all jobs must use one precision",
                    where=f"jobs.{name}.workload",
                    hint=f"the first job uses {self.narrow or self.arithmetic}",
                    code="mismatch",
                )
        return self

    @property
    def arithmetic(self) -> str:
        """Name of the jobs' precision; all jobs compute in the precision of the first."""
        return next(iter(self.jobs.values())).workload.arithmetic

    @property
    def narrow(self) -> str:
        """Name of the precision of linear layers; all jobs have the precision of the first."""
        return next(iter(self.jobs.values())).workload.narrow

    def program(
        self, cluster: Cluster, *, fidelity: Fidelity, fold: bool, network: str | None
    ) -> Program:
        if fidelity is Fidelity.PHASE:
            raise DimsweepError(
                "fidelity=phase simulates no links, which jobs share",
                where="fidelity",
                hint="choose fidelity=flow, message or packet",
                code="unsupported",
            )
        return super().program(cluster, fidelity=fidelity, fold=fold, network=network)

    def build(self, cluster: Cluster) -> dimsweep.engine.Workload:
        return self.build_jobs(cluster).workload

    def separate_programs(
        self, cluster: Cluster, fidelity: Fidelity
    ) -> Iterator[tuple[str, range, Program]]:
        """Yield each job's name, its ranks, and its program on its NPUs without the other jobs."""
        from dimsweep.engine.kernels.messages import lower_by_rank  # which few need

        jobs = self.build_jobs(cluster)
        for name, ranks in jobs.ranks.items():
            yield name, ranks, lower_by_rank(jobs.isolate(name), cluster, fidelity)

    def build_jobs(self, cluster: Cluster) -> dimsweep.engine.workload.Jobs:
        """Return all jobs, each on its NPUs of a cluster.

        Raises :class:`DimsweepError` for jobs that do not fill the cluster or cannot run together.
        """
        sizes, start = cluster.topology.sizes, 0
        total = sum(job.size for job in self.jobs.values())
        if total != sizes[-1]:
            problem = f"the sizes of the jobs add up to {total}; the outermost dimension has "
            problem += f"{sizes[-1]} members"
            raise DimsweepError(problem, where="workload.jobs", code="mismatch")
        built = {}
        for name, job in self.jobs.items():
            part = _job_cluster(cluster, start, job.size)
            try:
                built[name] = dimsweep.engine.workload.Job(job.workload.build(part), part.topology)
            except DimsweepError as error:
                if not error.where.startswith("workload"):
                    raise
                raise error.with_prefix(f"workload.jobs.{name}") from error.__cause__
            start += job.size
        with naming_key("workload"):
            jobs = combine_jobs(built)
        if cluster.npus.of is None:
            return jobs
        # Each job's memory is checked on its own NPUs: others need not hold the fullest rank.
        return replace(jobs, workload=replace(jobs.workload, footprint=None))


def _job_cluster(cluster: Cluster, start: int, size: int) -> Cluster:
    """Return a job's sub-cluster: ``size`` members of the outermost dimension, from ``start``."""
    dims, network, npus = cluster.topology.dims, cluster.network, cluster.npus
    inner = math.prod(cluster.topology.sizes[:-1])
    ranks = slice(start * inner, (start + size) * inner)
    part = replace(
        cluster,
        topology=replace(cluster.topology, dims=(*dims[:-1], replace(dims[-1], size=size))),
    )
    if network.graph is not None:
        all_npus = network.placement or range(network.graph.n_npus)
        return replace(part, network=replace(network, placement=tuple(all_npus[ranks])))
    part = replace(part, network=replace(network, degrade=()), other_npus=())
    if npus.of is None:
        return part
    others = [np.flatnonzero(npus.of[ranks] == kind) for kind in range(1, len(npus.kinds))]
    return replace(
        part,
        npu=npus.kinds[0],
        other_npus=tuple(
            OtherNpus(npu, tuple(at.tolist()))
            for npu, at in zip(npus.kinds[1:], others, strict=True)
            if len(at)
        ),
    )
