"""A transformer's dimensions, and the region of its tokens that one rank computes."""

from dataclasses import dataclass
from typing import Annotated

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kinds import CollectiveKind as Kind
from dimsweep.engine.settings import Bounds, Count, Index, check_settings
from dimsweep.engine.workload.graph import Kernel
from dimsweep.engine.workload.models.model import (
    NARROW,
    CollectiveStep,
    Linear,
    Shard,
    Step,
    Task,
    TensorOverlap,
    WaitStep,
    divided,
    elementwise,
    linear,
    narrow_linear,
)

# --- dimensions -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class TransformerShape:
    """A stack of blocks of attention and feed-forward network."""

    #: Features of a token.
    hidden: Count
    #: Number of blocks.
    layers: Count
    #: Heads of attention.
    heads: Count
    #: Tokens of a sequence.
    sequence: Count
    #: Features within the feed-forward network; 0: 4 `hidden`.
    ffn: Index = 0
    #: Heads of keys and values; fewer than `heads` is grouped-query attention; 0: as many.
    kv_heads: Index = 0
    #: Features of a head; 0: `hidden` / `heads`.
    head_size: Index = 0
    #: Tokens of the vocabulary; 0: no embedding and no logits.
    vocabulary: Index = 0
    #: Whether the feed-forward network has three matrices (SwiGLU) instead of two.
    gated: bool = False
    #: Whether linear layers have biases.
    bias: bool = True
    #: Whether activations are dropped out in training.
    dropout: bool = True
    #: Whether the embedding and the logits have the same weights.
    tied: bool = True
    #: Whether positions are embedded.
    positions: bool = True
    #: Whether a token only sees the tokens before it.
    causal: bool = True
    #: Whether scores never leave the chip, so that a causal mask halves the work; otherwise all
    #: scores are computed and stored.
    flash: bool = False
    #: Tokens that a token sees, itself the last one; 0: all.
    window: Index = 0
    #: Every n-th layer sees all tokens in spite of `window`; 0: no layer does.
    window_pattern: Index = 0
    #: Experts instead of the feed-forward network.
    experts: Annotated[int, Bounds(at_least=0, at_most=10**6)] = 0
    #: Experts that a token passes.
    top_k: Count = 2
    #: Features within an expert; 0: `ffn`.
    expert_ffn: Index = 0
    #: Experts that all tokens pass.
    shared_experts: Index = 0
    #: First layers that have a feed-forward network instead of experts.
    dense_layers: Index = 0
    #: Whether the input of the experts' activation is limited first (GPT-OSS).
    clamped: bool = False
    #: Tokens of the busiest expert-parallel rank relative to the mean; the other ranks wait for it.
    imbalance: Annotated[float, Bounds(at_least=1)] = 1.0
    #: Rank of latent keys and values (multi-head latent attention); 0: attention is not latent.
    kv_rank: Index = 0
    #: Rank of latent queries.
    query_rank: Index = 0
    #: Features of a head of latent attention that carry the position.
    rope: Index = 0
    #: Values in a patch of an image transformer; 0: it is none.
    patch: Index = 0
    #: Classes of the head of an image transformer.
    classes: Index = 0
    #: Tokens after the next one that are predicted in training, each by a further layer.
    mtp_layers: Index = 0

    def __post_init__(self) -> None:
        check_settings(self)
        if self.kv_rank and not (self.query_rank and self.flash):
            raise DimsweepError(
                "latent attention has latent queries too, and never stores its scores",
                where="kv_rank",
                hint="give query_rank, and flash: true",
            )
        if self.window and (self.kv_rank or not (self.flash and self.causal)):
            raise DimsweepError(
                "only causal attention whose scores never leave the chip skips what is outside",
                where="window",
                hint="give flash: true and causal: true, and no kv_rank; or window: 0",
            )
        if not self.head_size and self.hidden % self.heads:
            raise DimsweepError(
                f"{self.hidden} does not divide by {self.heads} heads", where="heads"
            )
        if self.heads % self.kv:
            raise DimsweepError(
                f"{self.heads} heads cannot share {self.kv} evenly", where="kv_heads"
            )
        if self.clamped and not (self.experts and self.gated):
            raise DimsweepError(
                "only what gated experts' activations get is limited by kernels of its own",
                where="clamped",
                hint="give experts, and gated: true, or clamped: false",
            )
        if self.experts and self.top_k > self.experts:
            raise DimsweepError(f"{self.top_k} of {self.experts} experts", where="top_k")

    def sees_all(self, layer: int) -> bool:
        """Whether attention of that layer, from 0, sees all tokens before it."""
        return not self.window or (
            bool(self.window_pattern) and not (layer + 1) % self.window_pattern
        )

    @property
    def inner(self) -> int:
        """Features between the two matrices of the feed-forward network."""
        return self.ffn or 4 * self.hidden

    @property
    def expert_inner(self) -> int:
        """Features between the two matrices of an expert."""
        return self.expert_ffn or self.inner

    @property
    def kv(self) -> int:
        return self.kv_heads or self.heads

    @property
    def head(self) -> int:
        return self.head_size or self.hidden // self.heads


# --- regions --------------------------------------------------------------------------------------
# Megatron's way of cutting a layer: a tensor-parallel region is entered and left by collectives.
#
# Shoeybi et al., "Megatron-LM" (2019); Korthikanti et al., "Reducing activation recomputation in
# large transformer models" (MLSys 2023) for sequence parallelism: outside of the regions the tokens
# are divided among the tensor-parallel ranks, so a region is entered by an all-gather and left by a
# reduce-scatter, instead of an all-reduce.


AXIS = "tensor"


@dataclass(frozen=True)
class Region:
    """One rank's tokens in a layer of ``hidden`` features."""

    shard: Shard
    tokens: int
    hidden: int

    @property
    def value(self) -> float:
        return self.shard.value

    @property
    def cut(self) -> bool:
        """Whether tokens are divided outside of the tensor-parallel regions."""
        return self.shard.sequence_parallel and self.shard.tensor > 1 and not self.shard.decode

    @property
    def rows(self) -> int:
        """Tokens that the rank holds outside of the tensor-parallel regions."""
        return self.tokens // self.shard.tensor if self.cut else self.tokens

    @property
    def whole(self) -> float:
        """Bytes of the features of all tokens."""
        return self.value * self.tokens * self.hidden

    @property
    def part(self) -> float:
        """Bytes of the features of the rank's own tokens."""
        return self.value * self.rows * self.hidden

    @property
    def passing(self) -> float:
        """Bytes of the buffers that a region's backward pass holds of all tokens' features: its
        input, gathered; the input's gradient; and that gradient, summed up."""
        return 3 * self.whole

    def reduce(self, n_bytes: float) -> tuple[Step, ...]:
        """An all-reduce over the tensor-parallel ranks, if there are others."""
        return (CollectiveStep(Kind.ALL_REDUCE, n_bytes, AXIS),) if self.shard.tensor > 1 else ()

    def enter(self, label: str = "", *, precision: str = "") -> tuple[Step, ...]:
        """Every tensor-parallel rank gets all tokens, in the ``precision`` of the product that they
        are for, as Transformer Engine casts them first."""
        if not self.cut:
            return ()
        narrow = precision and not self.shard.wide_gathers
        n_bytes = self.part * (NARROW[precision] / self.value if narrow else 1)
        return (CollectiveStep(Kind.ALL_GATHER, n_bytes, AXIS, label),)

    def leave(self, label: str = "") -> tuple[Step, ...]:
        """Sum up what the tensor-parallel ranks found, each for its own tokens when cut."""
        if self.cut:
            return (CollectiveStep(Kind.REDUCE_SCATTER, self.whole, AXIS, label),)
        if self.shard.tensor > 1:
            return (CollectiveStep(Kind.ALL_REDUCE, self.whole, AXIS, label),)
        return ()

    def norm(self, name: str) -> tuple[Kernel, Kernel]:
        """A normalisation and its backward pass."""
        return elementwise(name, 2 * self.part), elementwise(f"{name} input_grad", 3 * self.part)

    def linear(self, name: str, m: float, k: int, n: int, count: float = 1) -> Linear:
        """A linear layer of ``m`` tokens in the precision of the layers, or those of ``count``
        experts, which come apart in training unless one kernel has them all."""
        apart = count != 1 and self.shard.task is Task.TRAINING and not self.shard.fused_experts
        return narrow_linear(name, m, k, n, self.value, self.shard.narrow, count, apart=apart)

    @property
    def _overlaps(self) -> bool:
        return self.cut and self.shard.overlap_tensor is TensorOverlap.PIECES

    def column(self, layer: Linear) -> tuple[Step, ...]:
        """The first matrix of a region."""
        if not self._overlaps:
            return (*self.enter(precision=layer.precision), *layer.forward)
        return self._beside_arrival(layer, layer.name, self._pieces(layer.forward))

    def row(self, layer: Linear) -> tuple[Step, ...]:
        """The last matrix of a region.

        Where its result is summed up piece by piece, only the last of the ranks' pieces waits for
        the product.
        """
        if not self._overlaps:
            return (*layer.forward, *self.leave())
        label, last = f"{layer.name} sum", self.whole / self.shard.tensor
        before = CollectiveStep(Kind.REDUCE_SCATTER, self.whole - last, AXIS, label)
        after = CollectiveStep(Kind.REDUCE_SCATTER, last, AXIS)
        return (before, *self._pieces(layer.forward), WaitStep(label), after)

    def _pieces(self, kernels: tuple[Kernel, ...]) -> tuple[Kernel, ...]:
        """Products as one of each rank's tokens after another; one call issues them all."""
        n = self.shard.tensor
        return tuple(
            piece._replace(launched=kernel.launched and i == 0)
            for kernel in kernels
            for i, piece in enumerate(divided(kernel, n) if kernel.matmul else (kernel,))
        )

    def _beside_arrival(
        self, layer: Linear, name: str, kernels: tuple[Step, ...]
    ) -> tuple[Step, ...]:
        """Kernels that begin with the rank's own tokens while those of the others arrive."""
        label = f"{name} arrival"
        return (*self.enter(label, precision=layer.precision), *kernels, WaitStep(label))

    def column_backward(self, layer: Linear) -> tuple[Step, ...]:
        """The backward pass of the first matrix of a region.

        The input that the weights' gradient needs is gathered beside the input's gradient, and
        that is summed up beside the weights' gradient, unless nothing overlaps.
        """
        gathered, summed = f"{layer.name} input", f"{layer.name} sum"
        if self.shard.tensor == 1:
            return layer.backward
        if self.shard.overlap_tensor is TensorOverlap.NONE:
            return (*self.enter(precision=layer.precision), *layer.backward, *self.leave())
        before: tuple[Step, ...] = self.enter(gathered, precision=layer.precision)
        between: tuple[Step, ...] = self.leave(summed)
        after: tuple[Step, ...] = (WaitStep(gathered),) if self.cut else ()
        rest: tuple[Step, ...] = (*layer.weight_grad, WaitStep(summed))
        return (*before, *layer.input_grad, *after, *between, *rest)

    def row_backward(self, layer: Linear) -> tuple[Step, ...]:
        """The backward pass of the last matrix of a region."""
        if not self._overlaps:
            return (*self.enter(precision=layer.precision), *layer.backward)
        name = f"{layer.name} backward"
        pieces = self._pieces(layer.input_grad)
        return (*self._beside_arrival(layer, name, pieces), *layer.weight_grad)

    def whole_linear(
        self, name: str, k: int, n: int, m: int = 0
    ) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
        """A linear layer that is not cut: forward and backward."""
        forward, input_grad, weight_grad = linear(name, m or self.tokens, k, n, self.value)
        return (forward,), (input_grad, weight_grad)

    def residual(self, name: str, *, dropout: bool, bias: bool) -> tuple[Kernel, Kernel]:
        """Bias, dropout and the sum with the residual, and their backward pass.

        Autograd adds the residual's gradient to that of the branch in a kernel of its own; dropout
        reads and writes a gradient, and a bias's gradient reads it once more.
        """
        mask = self.rows * self.hidden if dropout else 0
        passes = 3 + 2 * dropout + bias
        return (
            elementwise(f"{name} residual", 3 * self.part + mask),
            elementwise(f"{name} residual input_grad", passes * self.part + mask),
        )
