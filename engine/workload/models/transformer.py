"""Transformers with tensor, sequence, context and expert parallelism, from their dimensions."""

from dataclasses import replace

from dimsweep.engine.errors import InfeasibleError
from dimsweep.engine.kinds import CollectiveKind as Kind
from dimsweep.engine.workload.graph import Kernel
from dimsweep.engine.workload.models.attention import attention_block, latent_attention_block
from dimsweep.engine.workload.models.feed_forward import dense_block, expert_block
from dimsweep.engine.workload.models.model import (
    CollectiveStep,
    ContextExchange,
    LayerBlock,
    Model,
    RankModel,
    Recompute,
    Shard,
    Step,
    Task,
    elementwise,
    join_blocks,
    narrow_linear,
)
from dimsweep.engine.workload.models.shape import Region, TransformerShape

LAYER = "layer"  # the name of a block of attention and feed-forward network


class Transformer(TransformerShape, Model):
    """A transformer with the given dimensions, which plans can divide among ranks."""

    def check(self, shard: Shard) -> None:
        """Raise :class:`DimsweepError` naming the axis whose degree does not divide the model."""
        for axis, degree, what, whole in (
            ("tensor", shard.tensor, "heads", self.heads),
            ("tensor", shard.tensor, "key-value heads", self.kv),
            ("tensor", shard.tensor, "features of the feed-forward network", self.inner),
            ("context", shard.context, "tokens of a sequence", self.sequence),
            ("expert", shard.expert, "experts", self.experts or 1),
            *(
                ("context", shard.context, f"{what} of a rank", whole // shard.tensor)
                for what, whole in (("heads", self.heads), ("key-value heads", self.kv))
                if shard.context_exchange is ContextExchange.ALL_TO_ALL
            ),
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

    def tokens(self, task: Task) -> int:
        """Return the tokens of each sample that a pass computes: the sequence, or 1 (decode)."""
        return 1 if task is Task.DECODE else self.sequence

    @property
    def balanced(self) -> "Transformer":
        """The same transformer with evenly loaded experts."""
        return replace(self, imbalance=1.0)

    def for_rank(self, shard: Shard) -> RankModel:
        """Return the model as one rank of ``shard`` runs it."""
        self.check(shard)
        region = Region(shard, self._tokens(shard), self.hidden)
        layers = self._layers(region)
        further = self.mtp_layers if shard.task is Task.TRAINING and self.vocabulary else 0
        # Predictions of further tokens look them up, so the last stage has the embedding, too.
        is_shared = self.tied or further
        tied = self.vocabulary * self.hidden / shard.tensor if is_shared else 0.0
        back = self._back_blocks(region)
        return RankModel(
            (self._front_blocks(region),),
            layers,
            (
                *(self._prediction_layer(region, layers[-1]),) * further,
                back,
                *(replace(back, parameters=self._norm_parameters),) * further,
            ),
            tied,
            message_is_cut=region.is_divided,
        )

    def _layers(self, r: Region) -> tuple[LayerBlock, ...]:
        """Return the blocks of all layers on one rank; equal layers are the same object."""
        n_dense = self.dense_layers if self.experts else self.layers
        kinds = [(i < n_dense, self.sees_all(i)) for i in range(self.layers)]
        made = {kind: self._layer(r, *kind) for kind in dict.fromkeys(kinds)}
        return tuple(made[kind] for kind in kinds)

    def _prediction_layer(self, r: Region, layer: LayerBlock) -> LayerBlock:
        """Return the block that predicts one more token (multi-token prediction).

        The hidden features and the embedding of the next token are normalised, joined, projected to
        the width of a layer, and pass a layer (DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024,
        section 2.2). The logits' matrix is that of the first prediction (Megatron-Core,
        ``transformer/multi_token_prediction.py``).
        """
        looked_up, spread = self._embedding(r)
        norm, norm_back = r.norm("mtp norm")
        wide, share = 2 * self.hidden, self.hidden // r.shard.tensor
        joined = r.linear("mtp projection", r.tokens, wide, share)
        parameters = wide * share + 2 * self._norm_parameters
        return replace(
            layer,
            name="mtp",
            forward=(looked_up, norm, norm, *r.column(joined), *layer.forward),
            backward=(*layer.backward, *r.column_backward(joined), norm_back, norm_back, spread),
            parameters=layer.parameters + parameters,
            activations=layer.activations + 4 * r.part_bytes,
            gradient_buffer=layer.gradient_buffer + r.value * parameters,
        )

    def _embedding(self, r: Region) -> tuple[Kernel, Kernel]:
        """Return the kernel that looks up embeddings, and the kernel that adds their gradients."""
        n_bytes = 3 * r.value * r.tokens * self.hidden
        return elementwise("embedding", n_bytes), elementwise("embedding weight_grad", n_bytes)

    @property
    def _norm_parameters(self) -> int:
        return self.hidden * (2 if self.bias else 1)

    def _tokens(self, shard: Shard) -> int:
        return shard.batch * (1 if shard.decode else self.sequence // shard.context)

    def _layer(self, r: Region, dense: bool, sees_all: bool) -> LayerBlock:
        attends = replace(self, window=0) if self.window and sees_all else self
        parts = [
            (latent_attention_block if self.kv_rank else attention_block)(attends, r),
            (dense_block if dense else expert_block)(self, r),
        ]
        # Each part's gradients are added to the batch's gradients once they are complete.
        buffer = sum(r.value * part.parameters + part.gradient_buffer for part in parts)
        layer = join_blocks(LAYER, parts, r.value * r.rows * self.hidden)
        layer = replace(layer, gradient_buffer=buffer)
        if r.shard.recompute is not Recompute.FULL:
            return layer
        return replace(
            layer,
            again=layer.forward,
            activations=layer.output,
            transient=layer.activations + layer.transient,
        )

    def _front_blocks(self, r: Region) -> LayerBlock:
        if self.patch:
            cut, cut_back = r.whole_linear("patch", self.patch, self.hidden)
            parameters = (self.patch + self.sequence) * self.hidden
            return LayerBlock("patches", cut, cut_back, parameters=parameters)
        if not self.vocabulary:
            return LayerBlock("input")
        table = self.vocabulary * self.hidden / r.shard.tensor
        looked_up, spread = self._embedding(r)
        positions = self.sequence * self.hidden if self.positions else 0
        mask = r.rows * self.hidden if self.dropout else 0
        return LayerBlock(
            "embedding",
            (looked_up, *r.leave()),
            (*r.enter(), spread),
            parameters=table + positions,
            activations=mask,
            output=r.value * r.rows * self.hidden,
        )

    def _back_blocks(self, r: Region) -> LayerBlock:
        if self.classes:
            head, head_back = r.whole_linear("head", self.hidden, self.classes, r.shard.batch)
            parameters = (self.hidden + 1) * self.classes
            return LayerBlock("head", head, head_back, parameters=parameters)
        if not self.vocabulary:
            return LayerBlock("output")
        if r.shard.task is not Task.TRAINING:
            return self._next_token_logits(r)
        t, value, tokens = r.shard.tensor, r.value, r.tokens
        columns = -(-self.vocabulary // t)
        logits = narrow_linear("logits", tokens, self.hidden, columns, value, "")
        norm, norm_back = r.norm("final norm")
        # Each rank holds a part of the vocabulary: the maximum, the predicted logit, and the sum.
        agree = r.reduce(4.0 * tokens) * 3
        traffic, traffic_back, held = 2 * value + 12, 4 + value, 4.0
        if r.shard.eager:
            # Forward: a cast to fp32, the maximum, its subtraction, exp, the sum and the division;
            # backward: the product and a cast (_ShardedCrossEntropy of nanotron's functional.py).
            # The logits, their fp32 copy, the softmax, and its gradient in 16 bits are held.
            traffic, traffic_back, held = (
                value + 4 + 4 + 8 + 8 + 4 + 8,
                8 + 4 + value,
                8 + 2 * value,
            )
        scan = elementwise("loss", traffic * tokens * columns)
        loss_back = elementwise("loss input_grad", traffic_back * tokens * columns)
        backward: tuple[Step, ...] = (
            loss_back,
            *r.column_backward(logits),
            norm_back,
        )
        return LayerBlock(
            "logits",
            (norm, *r.enter(), *logits.forward, *agree, scan),
            backward,
            parameters=self._head_parameters(t),
            activations=2 * value * r.rows * self.hidden + held * tokens * columns,
            # Gradients of the logits overwrite the logits; the gradient of the weights is added.
            transient=r.buffer_bytes
            + 3 * r.part_bytes
            + max(0.0, value * columns * self.hidden - (4 - value) * tokens * columns),
        )

    def _next_token_logits(self, r: Region) -> LayerBlock:
        """Return the logits of each sequence's last token, from which the next token is sampled."""
        t, value, n = r.shard.tensor, r.value, r.shard.batch
        columns, last = -(-self.vocabulary // t), r.value * n * self.hidden
        norm = elementwise("final norm", 2 * last)
        # The rank with the end of a sequence sends it to all others: an all-gather of its parts.
        spread = (CollectiveStep(Kind.ALL_GATHER, last / t, "tensor"),) * r.is_divided
        logits = narrow_linear("logits", n, self.hidden, columns, value, "")
        gather = (CollectiveStep(Kind.ALL_GATHER, value * n * columns, "tensor"),) * (t > 1)
        sample = elementwise("sampling", value * n * self.vocabulary)
        return LayerBlock(
            "logits",
            (norm, *spread, *logits.forward, *gather, sample),
            parameters=self._head_parameters(t),
            activations=2 * last + 4 * n * columns,
        )

    def _head_parameters(self, tensor: int) -> float:
        """Return the number of parameters of the last norm and of an untied logits matrix."""
        head = 0 if self.tied else self.vocabulary * self.hidden / tensor
        return self._norm_parameters + head
