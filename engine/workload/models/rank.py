"""A model as one rank runs it: the rank's shard of the work, and blocks of steps."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.workload.models.steps import Step


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
