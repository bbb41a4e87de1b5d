"""Transformers from their dimensions: dense or with experts, tensor-, sequence-, context- and
expert-parallel."""

from __future__ import annotations

from dataclasses import dataclass

from engine.errors import DimsweepError, InfeasibleError
from engine.model import attention, experts, mlp
from engine.model.block import (
    Block,
    Exchange,
    Network,
    Recompute,
    Shard,
    Step,
    elementwise,
    product,
)
from engine.model.parallel import Region
from engine.workload.graph import CollectiveKind as Kind

LAYER = "layer"  # the name of a block of attention and feed-forward network


@dataclass(frozen=True)
class Transformer:
    """A stack of ``layers`` blocks of attention and feed-forward network.

    ``kv_heads`` fewer than ``heads`` is grouped-query attention; ``gated`` a feed-forward network
    with three matrices (SwiGLU); ``experts`` of them, ``top_k`` for each token, in the place of
    one.  ``flash``: the scores never leave the chip, and a causal mask halves the work; without
    it all scores are computed and stored.  ``vocabulary`` 0: no embedding and no logits;
    ``patch``: an image transformer's (values in a patch), with a head of ``classes``.
    """

    hidden: int
    layers: int
    heads: int
    sequence: int
    ffn: int = 0
    kv_heads: int = 0
    head_size: int = 0
    vocabulary: int = 0
    gated: bool = False
    bias: bool = True
    dropout: bool = True
    tied: bool = True
    positions: bool = True
    causal: bool = True
    flash: bool = False
    experts: int = 0
    top_k: int = 2
    patch: int = 0
    classes: int = 0

    def __post_init__(self) -> None:
        for key in ("hidden", "layers", "heads", "sequence", "top_k"):
            if getattr(self, key) < 1:
                raise DimsweepError(f"{getattr(self, key)}; it must be 1 or more", where=key)
        for key in (
            "ffn",
            "kv_heads",
            "head_size",
            "vocabulary",
            "experts",
            "patch",
            "classes",
        ):
            if getattr(self, key) < 0:
                raise DimsweepError(f"{getattr(self, key)}; it cannot be negative", where=key)
        if not self.head_size and self.hidden % self.heads:
            raise DimsweepError(
                f"{self.hidden} does not divide by {self.heads} heads", where="heads"
            )
        if self.heads % self.kv:
            raise DimsweepError(
                f"{self.heads} heads cannot share {self.kv} evenly", where="kv_heads"
            )
        if self.experts and self.top_k > self.experts:
            raise DimsweepError(f"{self.top_k} of {self.experts} experts", where="top_k")

    @property
    def inner(self) -> int:
        """Features between the two matrices of the feed-forward network."""
        return self.ffn or 4 * self.hidden

    @property
    def kv(self) -> int:
        return self.kv_heads or self.heads

    @property
    def head(self) -> int:
        return self.head_size or self.hidden // self.heads

    @property
    def parameters(self) -> int:
        """All parameters of the model."""
        return round(self.network(Shard(batch=1)).parameters)

    def check(self, shard: Shard) -> None:
        """Raise :class:`DimsweepError` naming the axis whose degree does not divide the model."""
        for axis, degree, what, whole in (
            ("tensor", shard.tensor, "heads", self.heads),
            ("tensor", shard.tensor, "key-value heads", self.kv),
            ("tensor", shard.tensor, "features of the feed-forward network", self.inner),
            ("context", shard.context, "tokens of a sequence", self.sequence),
            ("expert", shard.expert, "experts", self.experts or 1),
        ):
            if whole % degree:
                raise InfeasibleError(
                    f"{whole} {what} do not divide by a degree of {degree}",
                    where=f"parallel.{axis}",
                )
        if shard.sequence_parallel and not shard.decode and self._tokens(shard) % shard.tensor:
            raise InfeasibleError(
                f"{self._tokens(shard)} tokens do not divide by tensor degree {shard.tensor}",
                where="plan.sequence_parallel",
            )

    def network(self, shard: Shard) -> Network:
        """The model as one rank of ``shard`` runs it."""
        self.check(shard)
        region = Region(shard, self._tokens(shard), self.hidden)
        layer = self._layer(region)
        tied = self.vocabulary * self.hidden / shard.tensor if self.tied else 0.0
        return Network(
            (self._front(region),),
            (layer,) * self.layers,
            (self._back(region),),
            tied,
            message_is_cut=region.cut,
        )

    def _tokens(self, shard: Shard) -> int:
        return shard.batch * (1 if shard.decode else self.sequence // shard.context)

    def _layer(self, r: Region) -> Block:
        parts = [attention.block(self, r)]
        parts.append(experts.block(self, r) if self.experts else mlp.block(self, r))
        forward = tuple(step for part in parts for step in part.forward)
        backward = tuple(step for part in reversed(parts) for step in part.backward)
        output = r.value * r.rows * self.hidden
        full = r.shard.recompute is Recompute.FULL
        kept = sum(part.activations for part in parts)
        return Block(
            name=LAYER,
            forward=forward,
            backward=backward,
            again=forward if full else tuple(step for part in parts for step in part.again),
            parameters=sum(part.parameters for part in parts),
            expert_parameters=sum(part.expert_parameters for part in parts),
            activations=output if full else kept,
            transient=(kept if full else 0.0) + sum(part.transient for part in parts),
            output=output,
        )

    def _front(self, r: Region) -> Block:
        if self.patch:
            cut, cut_back = r.whole_linear("patch", self.patch, self.hidden)
            parameters = (self.patch + self.sequence) * self.hidden
            return Block("patches", cut, cut_back, parameters=parameters)
        if not self.vocabulary:
            return Block("input")
        table = self.vocabulary * self.hidden / r.shard.tensor
        looked_up = elementwise("embedding", 3 * r.value * r.tokens * self.hidden)
        spread = elementwise("embedding weight_grad", 3 * r.value * r.tokens * self.hidden)
        positions = self.sequence * self.hidden if self.positions else 0
        mask = r.rows * self.hidden if self.dropout else 0
        return Block(
            "embedding",
            (looked_up, *r.leave()),
            (*r.enter(), spread),
            parameters=table + positions,
            activations=mask,
            output=r.value * r.rows * self.hidden,
        )

    def _back(self, r: Region) -> Block:
        if self.classes:
            head, head_back = r.whole_linear("head", self.hidden, self.classes, r.shard.batch)
            parameters = (self.hidden + 1) * self.classes
            return Block("head", head, head_back, parameters=parameters)
        if not self.vocabulary:
            return Block("output")
        t, value, tokens = r.shard.tensor, r.value, r.tokens
        columns = -(-self.vocabulary // t)
        logits = product("logits", 1, tokens, self.hidden, columns, value)
        norm, norm_back = r.norm("final norm")
        # Each rank holds a part of the vocabulary: the maximum, the predicted logit, and the sum.
        agree = r.reduce(4.0 * tokens) * 3
        scan = elementwise("loss", (2 * value + 12) * tokens * columns)
        loss_back = elementwise("loss input_grad", (4 + value) * tokens * columns)
        backward: tuple[Step, ...] = (
            loss_back,
            *r.column_backward("logits", tokens, self.hidden, columns),
            norm_back,
        )
        if r.shard.decode:
            gather = Exchange(Kind.ALL_GATHER, value * tokens * columns, "tensor")
            agree = (gather,) if t > 1 else ()
            scan = elementwise("sampling", value * tokens * self.vocabulary)
        return Block(
            "logits",
            (norm, *r.enter(), logits, *agree, scan),
            backward,
            parameters=self.hidden * (2 if self.bias else 1)
            + (0 if self.tied else self.vocabulary * self.hidden / t),
            activations=2 * value * r.rows * self.hidden + 4 * tokens * columns,
        )
