"""A model as one rank runs it: the rank's shard of the work, and blocks of steps."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.workload.graph import Amount, Kernel, MatMul

# --- steps ----------------------------------------------------------------------------------------


class CollectiveStep(NamedTuple):
    """A collective over a parallel axis; ``n_bytes`` as in a graph's ``Collective``.

    One with a ``label`` runs beside what follows, until a :class:`WaitStep` for the label; one that
    ``follows`` a label starts when that is done.
    """

    kind: CollectiveKind
    n_bytes: float
    axis: str
    label: str = ""
    follows: str = ""


class AccessStep(NamedTuple):
    """A load from remote memory, or a ``store`` to it; it runs beside what follows, until a
    :class:`WaitStep` for its label.  Over an ``axis`` it gathers or reduces, or is ``shared`` (see
    a graph's ``Access``)."""

    n_bytes: float
    label: str
    store: bool = False
    axis: str = ""
    shared: bool = False


class WaitStep(NamedTuple):
    """Go on when all steps with this label are done."""

    label: str


Step = Kernel | CollectiveStep | AccessStep | WaitStep


def product(
    name: str,
    products: float,
    m: float,
    k: float,
    n: int,
    value: float,
    *,
    transposed: bool = False,
) -> Kernel:
    """A matrix product that reads both factors once and writes the result once."""
    shape = MatMul(products, m, k, n, transposed)
    return Kernel(name, shape.flops, value * products * (m * k + k * n + m * n), shape)


def linear(
    name: str, m: float, k: int, n: int, value: float, count: float = 1
) -> tuple[Kernel, Kernel, Kernel]:
    """A linear layer of ``m`` tokens from ``k`` to ``n`` features, or ``count`` of them at once:
    its forward product, and those of the gradients of its input and of its weights."""
    return (
        product(name, count, m, k, n, value),
        product(f"{name} input_grad", count, m, n, k, value),
        product(f"{name} weight_grad", count, k, m, n, value, transposed=True),
    )


class Linear(NamedTuple):
    """A linear layer's kernels: forward, and for the gradients of its input and of its weights;
    ``precision`` is that of their factors, where it is narrower than the rest's."""

    name: str
    forward: tuple[Kernel, ...]
    input_grad: tuple[Kernel, ...]
    weight_grad: tuple[Kernel, ...]
    precision: str = ""

    @property
    def backward(self) -> tuple[Kernel, ...]:
        return (*self.input_grad, *self.weight_grad)


# Bytes of a factor that a product reads, in the precisions that are narrower than activations.
NARROW = {"int8": 1.0, "fp8": 1.0, "fp8_block": 1.0, "mxfp8": 1.0, "nvfp4": 0.5}


def narrow_linear(
    name: str,
    m: float,
    k: int,
    n: int,
    value: float,
    precision: str,
    count: float = 1,
    *,
    apart: bool = False,
) -> Linear:
    """A linear layer whose three products have factors in ``precision``, and results of ``value``
    bytes; that of :func:`linear` without a ``precision``.  Several layers run at once unless they
    come ``apart``.

    The input and the gradient of the output are cast before their first product, once along each
    of the two dimensions that products contract; the weights are cast when they are updated, once
    for all micro-batches (as NVIDIA's Transformer Engine does it, where a norm, an activation, or
    the product's own call casts, so that no launch is added).
    """
    if not precision:
        forward, input_grad, weight_grad = (
            _apart(kernel, apart) for kernel in linear(name, m, k, n, value, count)
        )
        return Linear(name, (forward,), (input_grad,), (weight_grad,))
    factor = NARROW[precision]

    def narrow(kernel_name: str, m: float, k: float, n: int, *, transposed: bool = False) -> Kernel:
        shape = MatMul(count, m, k, n, transposed)
        n_bytes = count * (factor * (m * k + k * n) + value * m * n)
        return _apart(Kernel(kernel_name, shape.flops, n_bytes, shape, precision=precision), apart)

    def cast(kernel_name: str, values: float) -> Kernel:
        n_bytes = (value + 2 * factor) * count * values
        return elementwise(f"{kernel_name} cast", n_bytes)._replace(launched=False)

    grad, weight = f"{name} input_grad", f"{name} weight_grad"
    return Linear(
        name,
        (cast(name, m * k), narrow(name, m, k, n)),
        (cast(grad, m * n), narrow(grad, m, n, k)),
        (narrow(weight, k, m, n, transposed=True),),
        precision,
    )


def _apart(kernel: Kernel, apart: bool) -> Kernel:
    """The kernel's products one after another, if they come ``apart``."""
    shape = kernel.matmul
    return kernel._replace(matmul=shape._replace(apart=True)) if apart and shape else kernel


def divided(kernel: Kernel, n: int) -> tuple[Kernel, ...]:
    """A product as ``n`` of as many of its rows each; what is left over comes with the last."""
    whole = kernel.matmul
    assert whole is not None
    rows = max(1, whole.m // n)
    sizes = [rows] * (n - 1) + [max(1, whole.m - rows * (n - 1))]
    return tuple(
        kernel._replace(
            flops=kernel.flops * m / whole.m,
            n_bytes=kernel.n_bytes * m / whole.m,
            matmul=whole._replace(m=m),
        )
        for m in sizes
    )


def elementwise(name: str, n_bytes: float) -> Kernel:
    """A kernel that streams bytes; its arithmetic hides behind them."""
    return Kernel(name, 0.0, n_bytes)


# --- models and their blocks ----------------------------------------------------------------------


class Recompute(StrEnum):
    """What the backward pass computes again, instead of keeping it: nothing, the core of the
    attention, or every layer from its input (Korthikanti et al., MLSys 2023)."""

    NONE = "none"
    SELECTIVE = "selective"
    FULL = "full"


class Task(StrEnum):
    """What a pass is for: training, which predicts every token of a sequence; reading prompts,
    which predicts the one after each; or one more token for sequences that are cached."""

    TRAINING = "training"
    PREFILL = "prefill"
    DECODE = "decode"


class Module(StrEnum):
    """What a layer's backward pass may compute again by itself, in the place of keeping its output:
    the core of the attention, normalisations, activations (GeLU, SwiGLU), or every second linear
    layer, which is the attention's projection and the half of a gated network's first one
    (torchtitan's choice operator by operator)."""

    CORE = "core"
    NORM = "norm"
    ACTIVATION = "activation"
    LINEAR = "linear"


class TensorOverlap(StrEnum):
    """Which collectives of tensor parallelism go beside products: none; those of a region's first
    matrix in the backward pass, beside the gradients of its input and of its weights (Megatron-LM
    since 2022); or, under sequence parallelism, all of them, piece by piece beside the products
    that need or make their data (Transformer Engine's userbuffers, PyTorch's async TP)."""

    NONE = "none"
    BACKWARD = "backward"
    PIECES = "pieces"


class ContextExchange(StrEnum):
    """How context-parallel ranks share keys and values: all are gathered before the scores, go
    round while these are computed, or each rank gets some heads of all tokens."""

    GATHER = "gather"
    RING = "ring"
    ALL_TO_ALL = "all_to_all"


@dataclass(frozen=True)
class LayerBlock:
    """A layer, or what stands before or after the layers, on one rank.

    ``forward`` and ``backward`` run one after another; ``again`` is what the backward pass computes
    once more first.  ``parameters`` are the rank's values that all data-parallel ranks share,
    ``expert_parameters`` those of its experts, of which a micro-batch gives gradients to
    ``expert_reach`` at most; ``activations`` the bytes kept from a micro-batch's
    forward pass to its backward pass, ``transient`` those that live only while the backward pass of
    the block runs, beside them; ``gradient_buffer`` those of its weights' gradients before they are
    added to those of the batch, which other blocks use again (Transformer Engine's way to fuse
    the sum into the product); ``output`` the bytes handed to the next block.  ``cache``: the bytes
    of a micro-batch's sequences that stay for the tokens to come, where the model is served.
    """

    name: str
    forward: tuple[Step, ...] = ()
    backward: tuple[Step, ...] = ()
    again: tuple[Step, ...] = ()
    parameters: float = 0.0
    expert_parameters: float = 0.0
    expert_reach: float = math.inf
    activations: float = 0.0
    transient: float = 0.0
    gradient_buffer: float = 0.0
    output: float = 0.0
    cache: float = 0.0

    def reached(self, micro_batches: int) -> float:
        """The values of the experts that so many micro-batches give gradients, at most."""
        return min(self.expert_parameters, micro_batches * self.expert_reach)


def join_blocks(name: str, parts: Sequence[LayerBlock], output: float) -> LayerBlock:
    """Return one block that runs ``parts`` one after another, and hands on ``output`` bytes."""
    return LayerBlock(
        name,
        forward=tuple(step for part in parts for step in part.forward),
        backward=tuple(step for part in reversed(parts) for step in part.backward),
        again=tuple(step for part in parts for step in part.again),
        parameters=sum(part.parameters for part in parts),
        expert_parameters=sum(part.expert_parameters for part in parts),
        activations=sum(part.activations for part in parts),
        transient=max(part.transient for part in parts),
        gradient_buffer=sum(part.gradient_buffer for part in parts),
        output=output,
        cache=sum(part.cache for part in parts),
    )


@dataclass(frozen=True)
class RankModel:
    """A model cut for one rank: blocks before the layers, the layers, and blocks after them.

    ``tied`` is the number of parameters that both the first and the last stage hold, and whose
    gradients they sum up.  ``message_is_cut`` says whether tensor-parallel ranks hold different
    parts of what a block hands to the next one.
    """

    front: tuple[LayerBlock, ...]
    layers: tuple[LayerBlock, ...]
    back: tuple[LayerBlock, ...]
    tied: float = 0.0
    message_is_cut: bool = False

    @property
    def parameters(self) -> float:
        """Of all blocks, those of the rank's experts included."""
        blocks = (*self.front, *self.layers, *self.back)
        return sum(block.parameters + block.expert_parameters for block in blocks)


@dataclass(frozen=True)
class Shard:
    """One rank's part of the work: degrees of parallelism, and its micro-batch.

    ``batch`` sequences (or samples) a micro-batch; ``value`` bytes of a weight or activation.
    ``sequence_parallel``: what tensor parallelism leaves whole (norms, dropout, residuals) is cut
    along the sequence.
    ``whole_experts``: ``expert`` counts tensor-parallel ranks, too, which cut no expert.
    ``fused_experts``: the products of all experts of a rank are one kernel.
    ``expert_nodes``: the nodes that they are on, if tokens are sent once to each node.
    ``nodes_a_token``: on how many of them at most a token's experts lie, if that is limited;
    ``dispatch_value``: bytes of a value of a token on its way to experts, if not ``value``.
    ``narrow``: the precision of the factors of linear products,
    where it is narrower than that; ``wide_gathers``: sequence parallelism gathers them before they
    are cast to it.
    """

    batch: int
    tensor: int = 1
    context: int = 1
    expert: int = 1
    sequence_parallel: bool = False
    recompute: Recompute = Recompute.NONE
    recompute_modules: frozenset[Module] = frozenset()
    value: float = 2.0
    task: Task = Task.TRAINING
    narrow: str = ""
    wide_gathers: bool = False
    overlap_tensor: TensorOverlap = TensorOverlap.BACKWARD
    context_exchange: ContextExchange = ContextExchange.GATHER
    whole_experts: bool = False
    fused_experts: bool = False
    expert_nodes: int = 1
    nodes_a_token: int = 0
    dispatch_value: float | None = None

    @property
    def decode(self) -> bool:
        """Whether each sequence adds one token to those that it holds already."""
        return self.task is Task.DECODE

    def again(self, module: Module) -> bool:
        """Whether a layer's backward pass computes ``module`` again by itself."""
        selective = module is Module.CORE and self.recompute is Recompute.SELECTIVE
        return selective or module in self.recompute_modules


_PASSES = 3  # a backward pass has twice the operations of the forward pass


class Model(ABC):
    """What a parallel plan needs to know of a model."""

    @abstractmethod
    def for_rank(self, shard: Shard) -> RankModel:
        """The model cut for one rank.

        Raises :class:`DimsweepError` for a shard whose degrees do not divide the model.
        """

    @property
    def parameters(self) -> int:
        """All parameters of the model."""
        return round(self.for_rank(Shard(batch=1)).parameters)

    def tokens(self, task: Task) -> int:
        """Return the tokens of a sample that a pass computes; 0 if samples have none."""
        return 0

    @property
    def balanced(self) -> "Model":
        """The model with its work shared evenly by all ranks."""
        return self

    def amount(
        self, batch: int, task: Task = Task.TRAINING, kept: float = 0.0, narrow: str = ""
    ) -> Amount:
        """Return the work that a training iteration, or a pass of a served batch, gets done.

        Parameters
        ----------
        batch
            Number of samples.
        kept
            Bytes of a checkpoint for each parameter.
        narrow
            Precision of linear layers, if it is narrower than the rest's.

        Notes
        -----
        The FLOPs are those of model FLOPs utilisation (Chowdhery et al., "PaLM", 2022, appendix B),
        with attention as its mask and its kernel have it, and the linear products of all tokens.
        """
        rank = self.balanced.for_rank(Shard(batch=1, task=task, narrow=narrow))
        blocks = (*rank.front, *rank.layers, *rank.back)
        kernels = [
            step
            for block in blocks
            for step in block.forward
            if isinstance(step, Kernel) and (step.matmul or step.attention)
        ]
        times = batch * (_PASSES if task is Task.TRAINING else 1)
        flops_narrow = times * sum(kernel.flops for kernel in kernels if kernel.precision)
        return Amount(
            batch,
            batch * self.tokens(task),
            times * sum(kernel.flops for kernel in kernels),
            state=kept * sum(block.parameters + block.expert_parameters for block in blocks),
            narrow={narrow: flops_narrow} if narrow else {},
        )


def refuse(shard: Shard, model: str, axes: Sequence[str]) -> None:
    """Raise :class:`DimsweepError` if the shard is divided along one of ``axes``, along which the
    model cannot be divided."""
    for axis in axes:
        if getattr(shard, axis) > 1:
            raise DimsweepError(
                f"{model} has no {axis} parallelism here",
                where=f"parallel.{axis}",
                hint="a degree of 1; data and pipeline are left",
            )
