"""DLRM: embedding tables divided among the replicas, and two perceptrons on each replica."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kinds import CollectiveKind as Kind
from dimsweep.engine.settings import Count, check_settings
from dimsweep.engine.workload.models.model import (
    CollectiveStep,
    LayerBlock,
    Model,
    RankModel,
    Shard,
    Step,
    WaitStep,
    elementwise,
    linear,
    refuse,
)


@dataclass(frozen=True)
class Dlrm(Model):
    """Naumov et al., "Deep learning recommendation model" (2019).

    The embedding tables are on the expert-parallel ranks: name an ``expert`` axis. Each sample
    looks up ``lookups`` vectors of each table and sums them. An all-to-all sends the sums to the
    ranks of the samples.

    Gradients of tables are sparse: n samples give gradients to at most min(``rows``, n ·
    ``lookups``) rows, and only these are kept, exchanged and updated. A rank's tables serve the
    samples of all expert-parallel ranks.
    """

    #: Widths of the layers of the perceptron of dense features, inputs first.
    bottom: tuple[int, ...]
    #: Widths of the layers of the last perceptron, inputs first.
    top: tuple[int, ...]
    #: Embedding tables, on the expert-parallel ranks.
    tables: Count
    #: Vectors of a table.
    rows: Count
    #: Values of a vector.
    width: Count
    #: Vectors of each table that a sample looks up.
    lookups: Count = 1

    def __post_init__(self) -> None:
        for key in ("bottom", "top"):
            if len(getattr(self, key)) < 2 or min(getattr(self, key)) < 1:
                problem = "a perceptron needs the widths of 2 layers or more, each 1 or more"
                raise DimsweepError(problem, where=key, code="out-of-range")
        check_settings(self)
        if self.bottom[-1] != self.width:
            raise DimsweepError(
                f"the bottom perceptron ends with {self.bottom[-1]} values, the tables with "
                f"{self.width}",
                where="bottom",
                hint="both must be equal",
                code="mismatch",
            )

    def for_rank(self, shard: Shard) -> RankModel:
        """Return the model as one rank runs it: one layer, so no pipeline is possible."""
        refuse(shard, "DLRM", ("tensor", "context"))
        if self.tables % shard.expert:
            problem = f"a degree of {shard.expert} does not divide the {self.tables} tables"
            raise DimsweepError(problem, where="parallel.expert", code="mismatch")
        value, batch = shard.value, shard.batch
        vectors = value * batch * self.tables * self.width  # of one rank's samples
        looked_up = elementwise("lookup", vectors * (self.lookups + 1))
        updated = elementwise("embedding weight_grad", vectors * (2 * self.lookups + 1))
        exchange: tuple[Step, ...] = ()
        if shard.expert > 1:
            exchange = (CollectiveStep(Kind.ALL_TO_ALL, vectors, "expert", "embeddings"),)
        n = self.tables + 1
        pairs = n * (n - 1) // 2
        dots = linear("interaction", batch * n, self.width, n, value)
        bottom, bottom_back = _perceptron("bottom", self.bottom, batch, value)
        top_widths = (self.width + pairs, *self.top[1:])
        top, top_back = _perceptron("top", top_widths, batch, value)
        wait: tuple[Step, ...] = (WaitStep("embeddings"),) if exchange else ()
        weights = _weights(self.bottom) + _weights(top_widths)
        block = LayerBlock(
            "dlrm",
            # The exchange of embeddings overlaps the bottom perceptron, forward and backward.
            (looked_up, *exchange, *bottom, *wait, dots[0], *top),
            (*top_back, dots[1], dots[2], *exchange, *bottom_back, *wait, updated),
            parameters=weights,
            expert_parameters=self.tables / shard.expert * self.rows * self.width,
            # Each of the expert-parallel ranks' samples looks up vectors of each of its tables.
            expert_reach=self.tables * batch * self.lookups * self.width,
            activations=vectors + value * batch * (sum(self.bottom) + sum(top_widths)),
        )
        return RankModel((), (block,), ())


def _weights(widths: Sequence[int]) -> int:
    return sum((a + 1) * b for a, b in itertools.pairwise(widths))


def _perceptron(
    name: str, widths: Sequence[int], batch: int, value: float
) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    forward: list[Step] = []
    backward: list[Step] = []
    for i, (a, b) in enumerate(itertools.pairwise(widths)):
        product, input_grad, weight_grad = linear(f"{name} {i + 1}", batch, a, b, value)
        activated = elementwise(f"{name} {i + 1} activation", 2 * value * batch * b)
        forward += [product, activated]
        backward = [activated, input_grad, weight_grad, *backward]
    return tuple(forward), tuple(backward)
