"""Device meshes: the parallel axes of a plan, placed on the dimensions of a network."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dimsweep.engine.errors import DimsweepError, InfeasibleError
from dimsweep.engine.topology.coordinates import Group, coordinates_of
from dimsweep.engine.workload.placement import AXES, join_groups, place

REPLICAS = "replicas"  # the ranks that hold the same weights
EXPERT_REPLICAS = "expert_replicas"  # the ranks that hold the same experts
EXPERT_RANKS = "expert_ranks"  # tensor- and expert-parallel ranks that divide whole experts
# Ranks that divide experts: neighbours in the innermost dimension, and equal ranks of its domains.
EXPERT_NEIGHBOURS, EXPERT_NODES = "expert_neighbours", "expert_nodes"
SHARDS = "shards"  # neighbouring replicas that divide weights among themselves, if not all of them
COPIES = "copies"  # the ranks that hold the same shard


@dataclass(frozen=True)
class DeviceMesh:
    """The process groups of a plan's parallel axes on a network, and the axes' degrees."""

    groups: Mapping[str, Group]

    @classmethod
    def place(
        cls,
        parallel: Mapping[str, int | str | Sequence[int]],
        sizes: Sequence[int],
        symmetric: Sequence[bool] = (),
    ) -> "DeviceMesh":
        """Return the mesh of the axes of ``parallel`` on a network, the first axis innermost.

        ``sizes`` are the NPUs of each dimension. See :func:`engine.workload.placement.place`; an
        axis that is not named has a degree of 1.

        In ``symmetric`` dimensions the order of axes has no effect, so there the axes that share
        gradients are made adjacent if they are not.

        Raises :class:`DimsweepError` for an unknown axis, or if replicas are not adjacent;
        :class:`InfeasibleError` if the degrees do not fit.
        """
        try:
            placed = place(parallel, sizes, AXES)
            try:
                return cls._with_replicas(placed)
            except DimsweepError:
                if not any(symmetric):
                    raise
            return cls._with_replicas(_join_sharing_axes(placed, symmetric))
        except DimsweepError as error:
            raise error.with_prefix("parallel") from None

    @classmethod
    def _with_replicas(cls, placed: Mapping[str, Group]) -> "DeviceMesh":
        groups = dict(placed)
        for name, parts in (
            (REPLICAS, ("context", "expert", "data")),
            (EXPERT_REPLICAS, ("context", "data")),
        ):
            present = [placed[part] for part in parts if part in placed]
            if present:
                try:
                    groups[name] = join_groups(present)
                except DimsweepError as error:
                    raise DimsweepError(
                        f"{', '.join(part for part in parts if part in placed)} share gradients, "
                        f"but {error.problem}",
                        hint="name them one after another, such as "
                        "{tensor: 8, pipeline: 8, context: 2, expert: 4, data: rest}",
                        code="conflict",
                    ) from None
        return cls(groups)

    def degree(self, axis: str) -> int:
        """Return the number of ranks along ``axis``; 1 if the plan does not use it."""
        return self.groups[axis].n_members if axis in self.groups else 1

    @property
    def shard_axis(self) -> str:
        """Name of the axis among whose ranks ZeRO divides the training state."""
        return SHARDS if SHARDS in self.groups else REPLICAS

    def group_replicas(self, n: int) -> "DeviceMesh":
        """Return the mesh with replicas in groups of ``n`` neighbours (hybrid sharding).

        Each group divides the state of ZeRO, and the groups hold copies. 0: all replicas are one
        group.

        Raises :class:`InfeasibleError` if the replicas do not divide into such groups.
        """
        if n in (0, self.degree(REPLICAS)):
            return self
        whole, left, sizes = self.groups[REPLICAS], n, []
        for p in whole.sizes:
            sizes.append(math.gcd(left, p))
            left //= sizes[-1]
        if left > 1:
            raise InfeasibleError(
                f"{whole.n_members} replicas do not divide into groups of {n} neighbours",
                where="plan.shard_ranks",
                hint=f"a divisor of {whole.n_members} that fills the innermost dimension first",
            )
        copies = Group(
            tuple(p // size for p, size in zip(whole.sizes, sizes, strict=True)),
            tuple(step * size for step, size in zip(whole.strides, sizes, strict=True)),
        )
        return DeviceMesh(
            {**self.groups, SHARDS: Group(tuple(sizes), whole.strides), COPIES: copies}
        )

    def with_whole_experts(self) -> "DeviceMesh":
        """Return the mesh with a group of the ranks among which whole experts are distributed."""
        parts = [self.groups[axis] for axis in ("tensor", "expert") if axis in self.groups]
        if not parts:
            return self
        return DeviceMesh({**self.groups, EXPERT_RANKS: join_groups(parts)})

    def with_expert_nodes(self) -> "DeviceMesh":
        """Return the mesh with two groups for routing tokens to experts: among and within nodes."""
        whole = self.groups.get(EXPERT_RANKS, self.groups.get("expert"))
        if whole is None:
            return self
        ones = (1,) * (len(whole.sizes) - 1)
        within = Group((whole.sizes[0], *ones), whole.strides)
        between = Group((1, *whole.sizes[1:]), whole.strides)
        return DeviceMesh({**self.groups, EXPERT_NEIGHBOURS: within, EXPERT_NODES: between})

    def n_micro_batches(self, batch: int, micro_batch: int) -> int:
        """Return the number of micro-batches of each replica for ``batch`` samples in all.

        Context-parallel ranks share one replica's batch.
        """
        replicas = self.degree("data") * self.degree("expert")
        count, left = divmod(batch, replicas * micro_batch)
        if left:
            less, more = batch - left, batch - left + replicas * micro_batch
            raise InfeasibleError(
                f"a batch of {batch} does not divide by {replicas} replicas and micro-batches of "
                f"{micro_batch}",
                where="plan.batch",
                hint=f"{less} and {more} do" if less else f"{more} does",
            )
        return count

    def hop(self, stage: int, target: int) -> tuple[int, ...]:
        """Return the coordinate offset from a rank of ``stage`` to its peer in stage ``target``."""
        pipeline = self.groups["pipeline"]
        here = coordinates_of(stage, pipeline.sizes)
        there = coordinates_of(target, pipeline.sizes)
        return tuple(
            (b - a) * stride for a, b, stride in zip(here, there, pipeline.strides, strict=True)
        )


def _join_sharing_axes(placed: Mapping[str, Group], symmetric: Sequence[bool]) -> dict[str, Group]:
    """Return all axes' groups, with the axes that share gradients adjacent in each dimension."""
    shared = [axis for axis in ("expert", "context", "data") if axis in placed]
    first = min(shared, key=list(placed).index)
    order = [
        axis
        for name in placed
        for axis in (shared if name == first else [] if name in shared else [name])
    ]
    strides = {name: list(group.strides) for name, group in placed.items()}
    for d in (d for d, free in enumerate(symmetric) if free):
        stride = 1
        for name in order:
            strides[name][d] = stride
            stride *= placed[name].sizes[d]
    return {name: Group(group.sizes, tuple(strides[name])) for name, group in placed.items()}
