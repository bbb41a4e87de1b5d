"""Models as one rank runs them: blocks of steps (kernels, collectives, remote accesses, waits)."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.workload.graph import Amount, Kernel, MatMul

# --- steps ----------------------------------------------------------------------------------------


class CollectiveStep(NamedTuple):
    """A step that runs a collective over a parallel axis; ``n_bytes`` as in ``Collective``.

    With a ``label`` it overlaps the following steps until a :class:`WaitStep` with the same label.
    With ``follows`` it starts after the steps that have that label.
    """

    kind: CollectiveKind
    n_bytes: float
    axis: str
    label: str = ""
    follows: str = ""


class AccessStep(NamedTuple):
    """A step that loads ``n_bytes`` from remote memory, or with ``store`` writes them to it.

    It overlaps the following steps until a :class:`WaitStep` with its label. With an ``axis``, the
    memory gathers the loads of the axis's ranks or reduces their stores, or the bytes are
    ``shared`` (see a graph's ``Access``).
    """

    n_bytes: float
    label: str
    store: bool = False
    axis: str = ""
    shared: bool = False


class WaitStep(NamedTuple):
    """A step that waits for all earlier steps with its label."""

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
    """Return a kernel of ``products`` matrix products of ``m`` x ``k`` by ``k`` x ``n`` values.

    It reads both factors once and writes the result once; a value has ``value`` bytes.
    """
    shape = MatMul(products, m, k, n, transposed)
    return Kernel(name, shape.flops, value * products * (m * k + k * n + m * n), shape)


def linear(
    name: str, m: float, k: int, n: int, value: float, count: float = 1
) -> tuple[Kernel, Kernel, Kernel]:
    """Return the forward, input-gradient and weight-gradient kernels of a linear layer.

    The layer maps ``m`` tokens from ``k`` to ``n`` features; ``count`` equal layers run at once. A
    value has ``value`` bytes.
    """
    return (
        product(name, count, m, k, n, value),
        product(f"{name} input_grad", count, m, n, k, value),
        product(f"{name} weight_grad", count, k, m, n, value, transposed=True),
    )


class Linear(NamedTuple):
    """The kernels of a linear layer: forward, gradients of inputs, and gradients of weights."""

    name: str
    forward: tuple[Kernel, ...]
    input_grad: tuple[Kernel, ...]
    weight_grad: tuple[Kernel, ...]
    precision: str = ""

    @property
    def backward(self) -> tuple[Kernel, ...]:
        """Kernels of the backward pass: gradients of inputs, then of weights."""
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
    """Return a linear layer with factors in ``precision`` and results of ``value`` bytes.

    Without a ``precision`` it equals :func:`linear`. ``count`` layers run at once, or one after
    another if ``apart``.

    The input and the output's gradient are cast before their first product, once along each of the
    two dimensions that products contract. The weights are cast at the update, once for all
    micro-batches. This follows NVIDIA's Transformer Engine, where a norm, an activation or the
    product's own call casts, so casts add no launch.
    """
    if not precision:
        forward, input_grad, weight_grad = (
            _mark_apart(kernel, apart) for kernel in linear(name, m, k, n, value, count)
        )
        return Linear(name, (forward,), (input_grad,), (weight_grad,))
    factor = NARROW[precision]

    def narrow(kernel_name: str, m: float, k: float, n: int, *, transposed: bool = False) -> Kernel:
        shape = MatMul(count, m, k, n, transposed)
        n_bytes = count * (factor * (m * k + k * n) + value * m * n)
        return _mark_apart(
            Kernel(kernel_name, shape.flops, n_bytes, shape, precision=precision), apart
        )

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


def _mark_apart(kernel: Kernel, apart: bool) -> Kernel:
    shape = kernel.matmul
    return kernel._replace(matmul=shape._replace(apart=True)) if apart and shape else kernel


def split_product(kernel: Kernel, n: int) -> tuple[Kernel, ...]:
    """Split a matrix product into ``n`` products of equally many rows; the last has the rest."""
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
    """Return a kernel whose time is set by the ``n_bytes`` that it reads and writes."""
    return Kernel(name, 0.0, n_bytes)


class Graphs(StrEnum):
    """Kernels that CUDA graphs launch, so that no host issues them.

    ``step``: all kernels of an iteration or serving pass.  ``layer``: the kernels of the layers,
    in layers with experts up to the router.  ``none``: no kernel.
    """

    STEP = "step"
    LAYER = "layer"
    NONE = "none"


def launch_by_graph(steps: Iterable[Step]) -> Iterator[Step]:
    """Yield ``steps``, with each kernel marked as launched by a CUDA graph."""
    for step in steps:
        yield step._replace(graphed=True) if isinstance(step, Kernel) else step


# --- models and their blocks ----------------------------------------------------------------------


class Recompute(StrEnum):
    """Activations that the backward pass computes again instead of keeping them.

    Nothing, the core of the attention, or every layer from its input (Korthikanti et al., MLSys
    2023).
    """

    NONE = "none"
    SELECTIVE = "selective"
    FULL = "full"


class Task(StrEnum):
    """The purpose of a pass: training, reading prompts, or adding a token to cached sequences."""

    TRAINING = "training"
    PREFILL = "prefill"
    DECODE = "decode"


class Module(StrEnum):
    """A part of a layer that the backward pass may compute again separately.

    The core of the attention, normalisations, activations (GeLU, SwiGLU), or every second linear
    layer: the attention's projection and half of a gated network's first layer (torchtitan's choice
    by operator).  ``qkv`` and ``projection`` are the attention's linear layers, ``expansion`` is
    the feed-forward network's first one (MaxText's remat policies).  Of experts ``expansion`` is
    the whole network, because the router's gradients need its results.
    """

    CORE = "core"
    NORM = "norm"
    ACTIVATION = "activation"
    LINEAR = "linear"
    QKV = "qkv"
    PROJECTION = "projection"
    EXPANSION = "expansion"


class TensorOverlap(StrEnum):
    """Collectives of tensor parallelism that overlap matrix products.

    ``none``.  ``backward``: in the backward pass, the collectives of a region's first matrix; they
    overlap the gradients of its input and weights (Megatron-LM since 2022).  ``pieces``: under
    sequence parallelism, all collectives; each piece overlaps the products that need or make its
    data (Transformer Engine's userbuffers, PyTorch's async TP).
    """

    NONE = "none"
    BACKWARD = "backward"
    PIECES = "pieces"


class ContextExchange(StrEnum):
    """The exchange of keys and values among context-parallel ranks.

    All are gathered before the scores, or passed round during the scores, or each rank receives
    some heads of all tokens.
    """

    GATHER = "gather"
    RING = "ring"
    ALL_TO_ALL = "all_to_all"


@dataclass(frozen=True)
class LayerBlock:
    """A layer on one rank, or a part of the model before or after the layers: its steps and memory.

    Steps run one after another.
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

    def launch_by_graph(self) -> "LayerBlock":
        """Return the block with the kernels marked that a CUDA graph of its layer launches.

        A graph ends with a kernel that the host waits for, such as a router: the sizes of later
        kernels follow from its result. In the backward pass it begins with that kernel's gradient.
        """
        names = (step.name for step in self.forward if isinstance(step, Kernel) and step.awaited)
        last = next(names, "")

        def mark(steps: tuple[Step, ...], end: str) -> tuple[Step, ...]:
            places = [
                i for i, each in enumerate(steps) if isinstance(each, Kernel) and each.name == end
            ]
            n = places[0] + 1 if places else len(steps)
            return (*launch_by_graph(steps[:n]), *steps[n:])

        return replace(
            self,
            forward=mark(self.forward, last),
            backward=mark(self.backward[::-1], f"{last} input_grad")[::-1],
            again=mark(self.again, last),
        )

    def reached_parameters(self, micro_batches: int) -> float:
        """Return how many expert parameters at most get gradients from ``micro_batches``."""
        return min(self.expert_parameters, micro_batches * self.expert_reach)


def join_blocks(name: str, parts: Sequence[LayerBlock], output: float) -> LayerBlock:
    """Return one block that runs ``parts`` one after another and outputs ``output`` bytes."""
    return LayerBlock(
        name,
        forward=tuple(step for part in parts for step in part.forward),
        backward=tuple(step for part in reversed(parts) for step in part.backward),
        again=tuple(step for part in parts for step in part.again),
        parameters=sum(part.parameters for part in parts),
        expert_parameters=sum(part.expert_parameters for part in parts),
        expert_reach=sum(part.expert_reach for part in parts if part.expert_parameters) or math.inf,
        activations=sum(part.activations for part in parts),
        transient=max(part.transient for part in parts),
        gradient_buffer=sum(part.gradient_buffer for part in parts),
        output=output,
        cache=sum(part.cache for part in parts),
    )


@dataclass(frozen=True)
class RankModel:
    """A model as one rank runs it: blocks before the layers, the layers, and blocks after them."""

    front: tuple[LayerBlock, ...]
    layers: tuple[LayerBlock, ...]
    back: tuple[LayerBlock, ...]
    tied: float = 0.0
    message_is_cut: bool = False

    @property
    def parameters(self) -> float:
        """Number of parameters of all blocks, experts included."""
        blocks = (*self.front, *self.layers, *self.back)
        return sum(block.parameters + block.expert_parameters for block in blocks)

    def launched_by(self, graphs: Graphs) -> "RankModel":
        """Return the model with the kernels of its layers marked if CUDA graphs launch only them.

        Graphs of a whole step also hold the plan's own kernels, such as the optimizer's; the plan
        marks all of them.
        """
        if graphs is not Graphs.LAYER:
            return self
        marked = {id(block): block.launch_by_graph() for block in self.layers}
        return replace(self, layers=tuple(marked[id(block)] for block in self.layers))


@dataclass(frozen=True)
class Shard:
    """One rank's share of a model and batch: degrees of parallelism, precisions, micro-batch."""

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
    graphs: Graphs = Graphs.NONE
    context_exchange: ContextExchange = ContextExchange.GATHER
    whole_experts: bool = False
    fused_experts: bool = False
    expert_tile: int = 0
    eager: bool = False
    experts_by_node: bool = False
    expert_nodes: int = 1
    nodes_a_token: int = 0
    dispatch_value: float | None = None

    @property
    def decode(self) -> bool:
        """True if the pass adds one token to each cached sequence."""
        return self.task is Task.DECODE

    def recomputes(self, module: Module) -> bool:
        """Return whether a backward pass computes ``module`` again instead of keeping it."""
        selective = module is Module.CORE and self.recompute is Recompute.SELECTIVE
        return selective or module in self.recompute_modules


_PASSES = 3  # a backward pass has twice the operations of the forward pass


class Model(ABC):
    """Base class of models that parallel plans can divide."""

    @abstractmethod
    def for_rank(self, shard: Shard) -> RankModel:
        """Return the blocks that one rank runs, given its ``shard``.

        Raises :class:`DimsweepError` for a shard whose degrees do not divide the model.
        """

    @property
    def parameters(self) -> int:
        """Number of parameters of the whole model."""
        return round(self.for_rank(Shard(batch=1)).parameters)

    def tokens(self, task: Task) -> int:
        """Return the tokens of each sample that a pass computes; 0 if samples have no tokens."""
        return 0

    @property
    def balanced(self) -> "Model":
        """The same model with its work divided evenly among all ranks."""
        return self

    def amount(
        self, batch: int, task: Task = Task.TRAINING, kept: float = 0.0, narrow: str = ""
    ) -> Amount:
        """Return the samples, tokens and FLOPs of a training iteration, or of one served batch.

        Parameters
        ----------
        batch
            Number of samples.
        task
            Training, or the serving pass.
        kept
            Bytes of a checkpoint for each parameter.
        narrow
            Precision of linear layers, if it is narrower than the precision of other kernels.

        Notes
        -----
        FLOPs are counted as for model FLOPs utilisation (Chowdhery et al., "PaLM", 2022, appendix
        B): attention with its mask, and the linear products of all tokens.
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
    """Raise :class:`DimsweepError` if ``shard`` has a degree above 1 along one of ``axes``."""
    for axis in axes:
        if getattr(shard, axis) > 1:
            raise DimsweepError(
                f"{model} does not support {axis} parallelism",
                where=f"parallel.{axis}",
                hint="use a degree of 1, with data and pipeline parallelism instead",
                code="unsupported",
            )
