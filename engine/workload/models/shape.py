"""A transformer's dimensions, and the steps that surround a tensor-parallel region of a layer."""

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
    elementwise,
    linear,
    narrow_linear,
    split_product,
)

# --- dimensions -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class TransformerShape:
    """Dimensions of a transformer: layers, heads, features, experts and vocabulary."""

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
    #: Most tokens of a sequence that an expert computes, relative to the mean. Further tokens are
    #: dropped, and products with masks sort the tokens (GShard). 0: no token is dropped.
    capacity: Annotated[float, Bounds(at_least=0)] = 0.0
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
                "latent attention needs latent queries and flash attention",
                where="kv_rank",
                code="conflict",
                hint="give query_rank, and flash: true",
            )
        if self.window and (self.kv_rank or not (self.flash and self.causal)):
            raise DimsweepError(
                "a window needs causal flash attention that is not latent",
                where="window",
                code="conflict",
                hint="give flash: true and causal: true, and no kv_rank; or window: 0",
            )
        if not self.head_size and self.hidden % self.heads:
            problem = f"{self.heads} heads do not divide the hidden size {self.hidden}"
            raise DimsweepError(problem, where="heads", code="mismatch")
        if self.heads % self.kv:
            problem = f"{self.kv}; it must divide the number of heads, {self.heads}"
            raise DimsweepError(problem, where="kv_heads", code="mismatch")
        if self.clamped and not (self.experts and self.gated):
            raise DimsweepError(
                "only gated experts have kernels that limit the inputs of activations",
                where="clamped",
                code="conflict",
                hint="give experts, and gated: true, or clamped: false",
            )
        if self.experts and self.top_k > self.experts:
            problem = f"{self.top_k}; it must be at most the number of experts, {self.experts}"
            raise DimsweepError(problem, where="top_k", code="out-of-range")

    def sees_all(self, layer: int) -> bool:
        """Return whether the attention of a layer (from 0) covers all earlier tokens."""
        return not self.window or (
            bool(self.window_pattern) and not (layer + 1) % self.window_pattern
        )

    @property
    def inner(self) -> int:
        """Number of features between the two matrices of the feed-forward network."""
        return self.ffn or 4 * self.hidden

    @property
    def expert_inner(self) -> int:
        """Number of features between the two matrices of an expert."""
        return self.expert_ffn or self.inner

    @property
    def kv(self) -> int:
        """Number of key and value heads."""
        return self.kv_heads or self.heads

    @property
    def head(self) -> int:
        """Number of features of an attention head."""
        return self.head_size or self.hidden // self.heads


# --- regions --------------------------------------------------------------------------------------
# Megatron's division of a layer: collectives begin and end a tensor-parallel region.
#
# Shoeybi et al., "Megatron-LM" (2019); Korthikanti et al., "Reducing activation recomputation in
# large transformer models" (MLSys 2023) for sequence parallelism: outside of the regions the tokens
# are divided among the tensor-parallel ranks, so a region is entered by an all-gather and left by a
# reduce-scatter, instead of an all-reduce.


AXIS = "tensor"


@dataclass(frozen=True)
class Region:
    """A tensor-parallel region: one rank's tokens in a layer of ``hidden`` features, and its steps.

    Inside the region each rank computes all tokens with a share of the weights. Under sequence
    parallelism each rank has a share of the tokens outside of it.
    """

    shard: Shard
    tokens: int
    hidden: int

    @property
    def value(self) -> float:
        """Bytes of one value of activations."""
        return self.shard.value

    @property
    def is_divided(self) -> bool:
        """True if tokens are divided among the ranks outside the region (sequence parallelism)."""
        return self.shard.sequence_parallel and self.shard.tensor > 1 and not self.shard.decode

    @property
    def rows(self) -> int:
        """Number of tokens that this rank has outside the region."""
        return self.tokens // self.shard.tensor if self.is_divided else self.tokens

    @property
    def full_bytes(self) -> float:
        """Bytes of the activations of all tokens in the region: tokens x hidden values."""
        return self.value * self.tokens * self.hidden

    @property
    def part_bytes(self) -> float:
        """Bytes of the activations of this rank's tokens outside the region."""
        return self.value * self.rows * self.hidden

    @property
    def kept_bytes(self) -> float:
        """Bytes of a norm's output kept for the backward pass: of all tokens in eager PyTorch."""
        return self.full_bytes if self.shard.eager else self.part_bytes

    @property
    def buffer_bytes(self) -> float:
        """Bytes of the buffers that hold all tokens in a region's backward pass."""
        return 3 * self.full_bytes

    def reduce(self, n_bytes: float) -> tuple[Step, ...]:
        """Return an all-reduce of ``n_bytes`` over the tensor-parallel ranks; () for one rank."""
        return (CollectiveStep(Kind.ALL_REDUCE, n_bytes, AXIS),) if self.shard.tensor > 1 else ()

    def enter(self, label: str = "", *, precision: str = "") -> tuple[Step, ...]:
        """Return the all-gather of all tokens on every tensor-parallel rank, if tokens are divided.

        Tokens are gathered in the ``precision`` of the following product, as Transformer Engine
        casts first.
        """
        if not self.is_divided:
            return ()
        narrow = precision and not self.shard.wide_gathers
        n_bytes = self.part_bytes * (NARROW[precision] / self.value if narrow else 1)
        return (CollectiveStep(Kind.ALL_GATHER, n_bytes, AXIS, label),)

    def leave(self, label: str = "") -> tuple[Step, ...]:
        """Return the collective that sums up the results of the tensor-parallel ranks.

        It is a reduce-scatter if tokens are divided, else an all-reduce; nothing for one rank.
        """
        if self.is_divided:
            return (CollectiveStep(Kind.REDUCE_SCATTER, self.full_bytes, AXIS, label),)
        if self.shard.tensor > 1:
            return (CollectiveStep(Kind.ALL_REDUCE, self.full_bytes, AXIS, label),)
        return ()

    def norm(self, name: str) -> tuple[Kernel, Kernel]:
        """Return a normalisation's forward and backward kernel."""
        return elementwise(name, 2 * self.part_bytes), elementwise(
            f"{name} input_grad", 3 * self.part_bytes
        )

    def linear(self, name: str, m: float, k: int, n: int, count: float = 1) -> Linear:
        """Return the kernels of a linear layer that maps ``m`` tokens from ``k`` to ``n`` features.

        It has the precision of the model's linear layers. ``count`` experts have such a layer each;
        in training they run one after another unless one kernel has them all.
        """
        apart = count != 1 and self.shard.task is Task.TRAINING and not self.shard.fused_experts
        return narrow_linear(name, m, k, n, self.value, self.shard.narrow, count, apart=apart)

    @property
    def _overlaps(self) -> bool:
        return self.is_divided and self.shard.overlap_tensor is TensorOverlap.PIECES

    def column(self, layer: Linear) -> tuple[Step, ...]:
        """Return the forward steps of a region's first matrix: gather the tokens, then multiply."""
        if not self._overlaps:
            return (*self.enter(precision=layer.precision), *layer.forward)
        return self._beside_arrival(layer, layer.name, self._pieces(layer.forward))

    def row(self, layer: Linear) -> tuple[Step, ...]:
        """Return the forward steps of a region's last matrix: multiply, then sum over the ranks.

        If its result is summed up in pieces, only the last rank's piece waits for the product.
        """
        if not self._overlaps:
            return (*layer.forward, *self.leave())
        label, last = f"{layer.name} sum", self.full_bytes / self.shard.tensor
        before = CollectiveStep(Kind.REDUCE_SCATTER, self.full_bytes - last, AXIS, label)
        after = CollectiveStep(Kind.REDUCE_SCATTER, last, AXIS)
        return (before, *self._pieces(layer.forward), WaitStep(label), after)

    def _pieces(self, kernels: tuple[Kernel, ...]) -> tuple[Kernel, ...]:
        """Split each product into one for each rank's tokens; a single call launches them all."""
        n = self.shard.tensor
        return tuple(
            piece._replace(launched=kernel.launched and i == 0)
            for kernel in kernels
            for i, piece in enumerate(split_product(kernel, n) if kernel.matmul else (kernel,))
        )

    def _beside_arrival(
        self, layer: Linear, name: str, kernels: tuple[Step, ...]
    ) -> tuple[Step, ...]:
        """Return ``kernels`` (own tokens first) overlapped with gathering other ranks' tokens."""
        label = f"{name} arrival"
        return (*self.enter(label, precision=layer.precision), *kernels, WaitStep(label))

    def column_backward(self, layer: Linear) -> tuple[Step, ...]:
        """Return the backward steps of a region's first matrix, with their collectives.

        Unless nothing overlaps, the input is gathered during the product for its gradient, and this
        gradient is summed up during the product for the weights' gradient.
        """
        gathered, summed = f"{layer.name} input", f"{layer.name} sum"
        if self.shard.tensor == 1:
            return layer.backward
        again = self.is_divided and not self.shard.eager  # inputs that are not kept
        if self.shard.overlap_tensor is TensorOverlap.NONE:
            before = self.enter(precision=layer.precision) if again else ()
            return (*before, *layer.backward, *self.leave())
        before = self.enter(gathered, precision=layer.precision) if again else ()
        between: tuple[Step, ...] = self.leave(summed)
        after: tuple[Step, ...] = (WaitStep(gathered),) if again else ()
        rest: tuple[Step, ...] = (*layer.weight_grad, WaitStep(summed))
        return (*before, *layer.input_grad, *after, *between, *rest)

    def row_backward(self, layer: Linear) -> tuple[Step, ...]:
        """Return the backward steps of a region's last matrix, with their collectives."""
        if not self._overlaps:
            return (*self.enter(precision=layer.precision), *layer.backward)
        name = f"{layer.name} backward"
        pieces = self._pieces(layer.input_grad)
        return (*self._beside_arrival(layer, name, pieces), *layer.weight_grad)

    def whole_linear(
        self, name: str, k: int, n: int, m: int = 0
    ) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
        """Return the forward and backward kernels of a linear layer that every rank runs whole.

        It maps ``m`` tokens (0: all tokens of the region) from ``k`` to ``n`` features.
        """
        forward, input_grad, weight_grad = linear(name, m or self.tokens, k, n, self.value)
        return (forward,), (input_grad, weight_grad)

    def residual(self, name: str, *, dropout: bool, bias: bool) -> tuple[Kernel, Kernel]:
        """Return the kernel of bias, dropout and residual sum, and the kernel of its gradients.

        Autograd adds the residual's gradient to the branch's gradient in a separate kernel. Dropout
        reads and writes a gradient, and a bias's gradient reads it once more.
        """
        mask = self.rows * self.hidden if dropout else 0
        passes = 3 + 2 * dropout + bias
        return (
            elementwise(f"{name} residual", 3 * self.part_bytes + mask),
            elementwise(f"{name} residual input_grad", passes * self.part_bytes + mask),
        )
