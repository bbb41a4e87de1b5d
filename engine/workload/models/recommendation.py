"""DLRM: embedding tables divided among the replicas, and two perceptrons on each replica."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kinds import CollectiveKind as Kind
from dimsweep.engine.settings import Count, Index, check_settings
from dimsweep.engine.workload.models.model import (
    CollectiveStep,
    LayerBlock,
    Model,
    RankModel,
    Shard,
    Step,
    WaitStep,
    elementwise,
    join_blocks,
    linear,
    refuse,
)

_FP32 = 4.0  # bytes


@dataclass(frozen=True)
class Dlrm(Model):
    """Naumov et al., "Deep learning recommendation model" (2019), with interactions of DCN v2.

    The embedding tables are on the expert-parallel ranks: name an ``expert`` axis. A rank holds
    several tables, or several ranks hold rows of one. Each sample looks up vectors of each table
    and sums them. An all-to-all sends the sums to the ranks of the samples.

    Gradients of tables are sparse: n samples give gradients to at most as many rows as they look
    up, and only these are kept, exchanged and updated. A rank's tables serve the samples of all
    expert-parallel ranks.
    """

    #: Widths of the layers of the perceptron of dense features, inputs first.
    bottom: tuple[int, ...]
    #: Widths of the layers of the last perceptron, inputs first.
    top: tuple[int, ...]
    #: Embedding tables, on the expert-parallel ranks.
    tables: Count
    #: Vectors of a table: one number for all tables, or one a table.
    rows: int | tuple[int, ...]
    #: Values of a vector.
    width: Count
    #: Vectors of each table that a sample looks up: one number for all tables, or one a table.
    lookups: int | tuple[int, ...] = 1
    #: Largest table, in vectors, of which every rank holds a copy. Ranks exchange the gradients of
    #: copies together with the perceptrons' gradients (HugeCTR's data-parallel tables).
    copied_rows: Index = 0
    #: Layers of the cross network that joins the features, instead of dot products of all pairs
    #: (Wang et al., "DCN V2", 2021).
    cross_layers: Index = 0
    #: Rank of the matrices of a cross layer.
    cross_rank: Count = 512
    #: Whether a product also adds the bias and activates, and gradients are added directly to the
    #: rows of tables in fp32 (HugeCTR). Otherwise separate kernels do this, and tables have the
    #: plan's precision.
    fused: bool = False

    def __post_init__(self) -> None:
        for key in ("bottom", "top"):
            if len(getattr(self, key)) < 2 or min(getattr(self, key)) < 1:
                problem = "a perceptron needs the widths of 2 layers or more, each 1 or more"
                raise DimsweepError(problem, where=key, code="out-of-range")
        check_settings(self)
        for key in ("rows", "lookups"):
            each = self._of_tables(key)
            if len(each) != self.tables:
                problem = f"{len(each)} numbers for {self.tables} tables"
                hint = "give one number for all tables, or one a table"
                raise DimsweepError(problem, where=key, hint=hint, code="mismatch")
            if min(each) < 1:
                problem = f"{min(each)}; it must be 1 or more"
                raise DimsweepError(problem, where=key, code="out-of-range")
        if self.bottom[-1] != self.width:
            raise DimsweepError(
                f"the bottom perceptron ends with {self.bottom[-1]} values, the tables with "
                f"{self.width}",
                where="bottom",
                hint="both must be equal",
                code="mismatch",
            )

    def _of_tables(self, key: str) -> tuple[int, ...]:
        """Return the setting ``key`` (rows or lookups) of each table."""
        found = getattr(self, key)
        return (found,) * self.tables if isinstance(found, int) else found

    def for_rank(self, shard: Shard) -> RankModel:
        """Return the model as one rank runs it: one layer, so no pipeline is possible."""
        refuse(shard, "DLRM", ("tensor", "context"))
        value, batch, width, ranks = shard.value, shard.batch, self.width, shard.expert
        tables = [*zip(self._of_tables("rows"), self._of_tables("lookups"), strict=True)]
        divided = [table for table in tables if table[0] > self.copied_rows]
        copied = sum(rows for rows, _ in tables if rows <= self.copied_rows)
        lookups = sum(n for _, n in tables)
        # Hot tables are divided among more ranks, so that all ranks look up equally many vectors
        # (samples/dlrm/sharding/planner.py of HugeCTR).  Each rank sends a sum of its own.
        mean = sum(n for _, n in divided) / ranks
        sums = sum(min(n, max(1, math.ceil(n / mean))) for _, n in divided)
        sent = value * batch * sums * width  # of one rank's samples
        received = sent + value * batch * (self.tables - len(divided)) * width
        stored = _FP32 if self.fused else value
        read = batch * width * lookups
        looked_up = elementwise("lookup", received + stored * read)
        updated = elementwise(
            "embedding weight_grad",
            value * read if self.fused else received + 2 * value * read,
        )
        exchange: tuple[Step, ...] = ()
        if ranks > 1 and divided:
            exchange = (CollectiveStep(Kind.ALL_TO_ALL, sent, "expert", "embeddings"),)
        bottom, bottom_back = self._perceptron("bottom", self.bottom, shard)
        joined, joined_back, features, of_join = self._interaction(shard)
        top_widths = (features, *self.top[1:])
        top, top_back = self._perceptron("top", top_widths, shard)
        wait: tuple[Step, ...] = (WaitStep("embeddings"),) if exchange else ()
        # The exchange of embeddings overlaps the bottom perceptron, forward and backward.
        first = LayerBlock(
            "embeddings",
            (looked_up, *exchange, *bottom),
            (*exchange, *bottom_back, *wait, updated),
            parameters=_weights(self.bottom),
            expert_parameters=width * sum(rows for rows, _ in divided) / ranks,
            # Each of the expert-parallel ranks' samples looks up vectors of each of its tables.
            expert_reach=sum(width * min(rows / ranks, batch * n) for rows, n in divided),
            activations=received + value * batch * sum(self.bottom),
        )
        # The gradients of the copied tables are known when the features' gradients are.
        second = LayerBlock(
            "interaction",
            (*wait, *joined, *top),
            (*top_back, *joined_back),
            parameters=_weights(top_widths) + of_join + copied * width,
            activations=value * batch * sum(top_widths),
        )
        if self.fused:
            return RankModel((first,), (second,), ())
        return RankModel((), (join_blocks("dlrm", (first, second), 0.0),), ())

    def _interaction(self, shard: Shard) -> tuple[tuple[Step, ...], tuple[Step, ...], int, int]:
        """Return the forward and backward steps that join the features, and two numbers.

        The numbers are the values that the steps produce for a sample, and their weights.
        """
        value, batch, n = shard.value, shard.batch, self.tables + 1
        if not self.cross_layers:
            pairs = n * (n - 1) // 2
            dots = linear("interaction", batch * n, self.width, n, value)
            return dots[:1], dots[1:], self.width + pairs, 0
        # x_0 * (U (V x) + b) + x, whose factors are read and whose sum is written.
        joined, rank = n * self.width, self.cross_rank
        forward: list[Step] = []
        backward: list[Step] = []
        for i in range(self.cross_layers):
            down = linear(f"cross {i + 1} down", batch, joined, rank, value)
            up = linear(f"cross {i + 1} up", batch, rank, joined, value)
            gate = elementwise(f"cross {i + 1}", 4 * value * batch * joined)
            gate_back = elementwise(f"cross {i + 1} input_grad", 7 * value * batch * joined)
            forward += [down[0], up[0], gate]
            backward = [gate_back, *up[1:], *down[1:], *backward]
        weights = self.cross_layers * joined * (2 * rank + 1)
        return tuple(forward), tuple(backward), joined, weights

    def _perceptron(
        self, name: str, widths: Sequence[int], shard: Shard
    ) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
        forward: list[Step] = []
        backward: list[Step] = []
        for i, (a, b) in enumerate(itertools.pairwise(widths)):
            layer = linear(f"{name} {i + 1}", shard.batch, a, b, shard.value)
            traffic = 2 * shard.value * shard.batch * b
            act = () if self.fused else (elementwise(f"{name} {i + 1} activation", traffic),)
            forward += [layer[0], *act]
            backward = [*act, *layer[1:], *backward]
        return tuple(forward), tuple(backward)


def _weights(widths: Sequence[int]) -> int:
    return sum((a + 1) * b for a, b in itertools.pairwise(widths))
