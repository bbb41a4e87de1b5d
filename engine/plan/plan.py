"""A parallel plan: how a model's training is divided among ranks, and in which order they work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from engine.errors import DimsweepError, InfeasibleError
from engine.model.block import Recompute, Shard
from engine.plan.schedule import Schedule
from engine.workload.graph import Group
from engine.workload.placement import AXES, join, place

REPLICAS = "replicas"  # the ranks that hold the same weights
EXPERT_REPLICAS = "expert_replicas"  # the ranks that hold the same experts


class Optimizer(StrEnum):
    """Adam keeps two moments of every weight, SGD its momentum."""

    ADAM = "adam"
    SGD = "sgd"


class GradientExchange(StrEnum):
    """How replicas sum up their gradients: among themselves, or over parameter servers, of which
    every replica is one for its share of the weights (Li et al., OSDI 2014)."""

    ALL_REDUCE = "all_reduce"
    PARAMETER_SERVER = "parameter_server"


class Offload(StrEnum):
    """What is kept in remote memory and comes when it is needed (ZeRO-Infinity, Rajbhandari et al.,
    SC 2021); in this order of what is moved least for the bytes that it frees."""

    OPTIMIZER = "optimizer"
    ACTIVATIONS = "activations"
    WEIGHTS = "weights"


@dataclass(frozen=True)
class Plan:
    """How an iteration over ``batch`` sequences (or samples) is run.

    ``zero`` 1 cuts the optimizer's state among the replicas, 2 the gradients too, 3 the weights too
    (Rajbhandari et al., SC 2020; stage 3 is what FSDP does).  ``bucket`` bytes of gradients are
    summed up at once, beside the rest of the backward pass if ``overlap_gradients``.
    ``value`` and ``gradient_value``: bytes of a weight or activation, and of a gradient.
    ``offload``: what lives in remote memory; a block's part of it is loaded while the block before
    it runs.
    """

    batch: int
    micro_batch: int = 1
    schedule: Schedule = Schedule.ONE_F_ONE_B
    interleave: int = 1
    sequence_parallel: bool = False
    recompute: Recompute = Recompute.NONE
    zero: int = 0
    optimizer: Optimizer = Optimizer.ADAM
    gradient_exchange: GradientExchange = GradientExchange.ALL_REDUCE
    overlap_gradients: bool = True
    bucket: float = 25e6
    value: float = 2.0
    gradient_value: float = 2.0
    offload: frozenset[Offload] = frozenset()

    @property
    def has_master_copy(self) -> bool:
        """Whether the optimizer keeps the weights in fp32, beside narrower ones."""
        return self.value < 4

    def __post_init__(self) -> None:
        for key in ("batch", "micro_batch", "interleave"):
            if getattr(self, key) < 1:
                raise DimsweepError(f"{getattr(self, key)}; it must be 1 or more", where=key)
        if self.zero not in (0, 1, 2, 3):
            raise DimsweepError(f"there is no stage {self.zero}", where="zero", hint="0, 1, 2 or 3")
        if self.zero and self.gradient_exchange is GradientExchange.PARAMETER_SERVER:
            raise DimsweepError(
                "parameter servers hold the optimizer's state already", where="zero", hint="zero: 0"
            )
        if not self.bucket > 0:
            raise DimsweepError(f"a bucket of {self.bucket:g} bytes", where="bucket")


@dataclass(frozen=True)
class Axes:
    """The process groups of a plan on a network, and their degrees."""

    groups: Mapping[str, Group]

    @classmethod
    def place(cls, parallel: Mapping[str, int | str | Sequence[int]], sizes: Sequence[int]) -> Axes:
        """Place the axes of ``parallel`` on a network of these sizes, the first one innermost (see
        :func:`engine.workload.placement.place`); an axis that is not named has a degree of 1.

        Raises :class:`DimsweepError` for an unknown axis, or when replicas do not lie side by side;
        :class:`InfeasibleError` when the degrees do not fit.
        """
        try:
            return cls._of(place(parallel, sizes, AXES))
        except DimsweepError as error:
            raise error.at("parallel") from None

    @classmethod
    def _of(cls, placed: Mapping[str, Group]) -> Axes:
        groups = dict(placed)
        for name, parts in (
            (REPLICAS, ("context", "expert", "data")),
            (EXPERT_REPLICAS, ("context", "data")),
        ):
            present = [placed[part] for part in parts if part in placed]
            if present:
                try:
                    groups[name] = join(present)
                except DimsweepError as error:
                    raise DimsweepError(
                        f"{', '.join(part for part in parts if part in placed)} share gradients, "
                        f"but {error.what}",
                        hint="name them one after another, such as "
                        "{tensor: 8, pipeline: 8, context: 2, expert: 4, data: rest}",
                    ) from None
        return cls(groups)

    def degree(self, axis: str) -> int:
        return self.groups[axis].n_members if axis in self.groups else 1

    def n_micro_batches(self, batch: int, micro_batch: int) -> int:
        """Of each replica; context-parallel ranks share one batch."""
        replicas = self.degree("data") * self.degree("expert")
        if batch % (replicas * micro_batch):
            raise InfeasibleError(
                f"a batch of {batch} does not divide by {replicas} replicas and micro-batches of "
                f"{micro_batch}",
                where="plan.batch",
            )
        return batch // (replicas * micro_batch)

    def shard(self, plan: Plan) -> Shard:
        return Shard(
            batch=plan.micro_batch,
            tensor=self.degree("tensor"),
            context=self.degree("context"),
            expert=self.degree("expert"),
            sequence_parallel=plan.sequence_parallel,
            recompute=plan.recompute,
            value=plan.value,
        )

    def hop(self, stage: int, target: int) -> tuple[int, ...]:
        """Coordinates from a rank of one pipeline stage to its partner in another."""
        pipeline = self.groups["pipeline"]
        here, there = _digits(stage, pipeline.sizes), _digits(target, pipeline.sizes)
        return tuple(
            (b - a) * stride for a, b, stride in zip(here, there, pipeline.strides, strict=True)
        )


def _digits(place: int, sizes: tuple[int, ...]) -> list[int]:
    digits = []
    for size in sizes:
        place, digit = divmod(place, size)
        digits.append(digit)
    return digits
