"""A transformer's dimensions, and the region of its tokens that one rank computes."""

from dataclasses import dataclass

from dimsweep.engine.errors import DimsweepError, check_least
from dimsweep.engine.kinds import CollectiveKind as Kind
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


_MOST_EXPERTS = 10**6


@dataclass(frozen=True)
class TransformerShape:
    """A stack of ``layers`` blocks of attention and feed-forward network.

    ``kv_heads`` fewer than ``heads`` is grouped-query attention; with ``kv_rank`` attention is
    latent (:func:`engine.workload.models.attention.latent_attention_block`), with ``query_rank``
    and ``rope``.  ``gated`` is a feed-forward network with three matrices (SwiGLU).  ``experts``
    take its place, ``top_k`` for each token, each with ``expert_ffn`` features inside (``ffn``
    unless given), beside ``shared_experts`` that all tokens pass; the first ``dense_layers`` have
    none.  ``clamped``: the input of their activation is limited first (GPT-OSS).  ``imbalance`` is
    how many times the mean number of tokens the busiest rank gets, for which all others wait.
    ``flash``: the scores never leave the chip, and a causal mask halves the work; without it all
    scores are computed and stored.  ``window``: so many tokens, itself the last one, are what a
    token sees, but for every ``window_pattern``-th layer, which sees all (0: none does).
    ``vocabulary`` 0: no embedding and no logits; ``patch``: an image transformer's (values in a
    patch), with a head of ``classes``.  ``mtp_layers``: so many tokens after the next one are
    predicted in training, too, each by a layer and logits of its own.
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
    window: int = 0
    window_pattern: int = 0
    experts: int = 0
    top_k: int = 2
    expert_ffn: int = 0
    shared_experts: int = 0
    dense_layers: int = 0
    clamped: bool = False
    imbalance: float = 1.0
    kv_rank: int = 0
    query_rank: int = 0
    rope: int = 0
    patch: int = 0
    classes: int = 0
    mtp_layers: int = 0

    def __post_init__(self) -> None:
        check_least(self, 1, "hidden", "layers", "heads", "sequence", "top_k")
        check_least(
            self, 0, "ffn", "kv_heads", "head_size", "vocabulary", "experts", "patch", "classes",
            "expert_ffn", "shared_experts", "dense_layers", "kv_rank", "query_rank", "rope",
            "mtp_layers", "window", "window_pattern",
        )  # fmt: skip
        check_least(self, 1, "imbalance")
        if self.experts > _MOST_EXPERTS:
            what = f"{self.experts:,} experts; a model has at most {_MOST_EXPERTS:,}"
            raise DimsweepError(what, where="experts")
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
