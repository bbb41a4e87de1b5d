"""Layers with given durations and messages, and the training loops that unroll them into graphs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.settings import Count, check_settings
from dimsweep.engine.units import PICOSECONDS
from dimsweep.engine.workload.graph import Access, Collective, Compute, GraphBuilder, Operator


@dataclass(frozen=True)
class Communication:
    """A collective of a layer; ``n_bytes`` as in :class:`engine.workload.graph.Collective`."""

    kind: CollectiveKind
    n_bytes: float
    group: str


@dataclass(frozen=True)
class Pass:
    """One pass of a layer: a load from remote memory, a computation, then a collective."""

    compute: Compute = field(default_factory=Compute)
    communication: Communication | None = None
    load: float = 0.0


@dataclass(frozen=True)
class Layer:
    """A layer of a training loop: its forward, input-gradient and weight-gradient pass.

    A layer that ``joins`` a later layer, such as a table of embeddings, exchanges its output while
    the layers between them run. The layer after the joined layer waits for this exchange. The input
    gradients of the joining layer are exchanged as soon as the input gradients of the layer after
    the joined layer are complete.
    """

    name: str
    forward: Pass = field(default_factory=Pass)
    input_grad: Pass = field(default_factory=Pass)
    weight_grad: Pass = field(default_factory=Pass)
    again: int | None = None
    joins: int | None = None


class TrainingLoop(StrEnum):
    """The order of computation and communication in an iteration."""

    NO_OVERLAP = "no_overlap"
    OVERLAP_GRADIENTS = "overlap_gradients"


def training_iteration(
    layers: Sequence[Layer], loop: TrainingLoop, *, weight_gradients_first: bool = False
) -> tuple[Operator, ...]:
    """Return one iteration: every layer forward, then every layer backward in reverse order.

    Under ``no_overlap`` each collective blocks, so the time is a plain sum (LIBRA's loop). Under
    ``overlap_gradients`` the collectives of weight gradients overlap the backward pass, as in
    data-parallel frameworks; the iteration ends with the last of them. With
    ``weight_gradients_first`` a layer's weight gradients are computed before its input gradients,
    as in ASTRA-sim 1.0. This has no effect under ``no_overlap``.
    """
    iteration = _Iteration(layers, loop)
    weight_gradients_first &= loop is TrainingLoop.OVERLAP_GRADIENTS
    iteration.forward()
    for number, layer in reversed(list(enumerate(layers))):
        for early in layers[layer.again : number] if layer.again is not None else ():
            iteration.run(f"{early.name} forward again", early.forward)
        if not weight_gradients_first:
            iteration.input_gradients(number)
        iteration.weight_gradients(number)
        if weight_gradients_first:
            iteration.input_gradients(number)
    return iteration.builder.build()


class _Iteration:
    """Builder of an iteration: each new operator waits for ``last``, the latest blocking ones."""

    def __init__(self, layers: Sequence[Layer], loop: TrainingLoop) -> None:
        self._layers, self._blocking = layers, loop is TrainingLoop.NO_OVERLAP
        self._joined: dict[int, list[Layer]] = {}  # those that join each layer
        for layer in layers:
            if layer.joins is not None:
                self._joined.setdefault(layer.joins, []).append(layer)
        self.builder = GraphBuilder()
        self._last: tuple[int, ...] = ()

    def run(self, name: str, part: Pass, *, blocks: bool = True) -> tuple[int, ...]:
        """Add the operators of a pass and return the index of its collective, or () without one."""
        if part.load:
            self._last = (self.builder.add(f"{name} load", Access(part.load), self._last),)
        if part.compute != Compute(duration=0) and part.compute != Compute():
            self._last = (self.builder.add(name, part.compute, self._last),)
        if part.communication is None:
            return ()
        c = part.communication
        work = Collective(c.kind, c.n_bytes, c.group)
        done = (self.builder.add(f"{name} {c.kind}", work, self._last),)
        if blocks:
            self._last = done
        return done

    def forward(self) -> None:
        awaited: dict[int, tuple[int, ...]] = {}  # collectives, by the layer that they join
        for number, layer in enumerate(self._layers):
            name = f"{layer.name} forward"
            if layer.joins is None:
                self.run(name, layer.forward)
            else:
                exchanged = self.run(name, layer.forward, blocks=self._blocking)
                awaited[layer.joins] = awaited.get(layer.joins, ()) + exchanged
            self._last += awaited.pop(number, ())

    def input_gradients(self, number: int) -> None:
        """Add a layer's input-gradient pass, and exchanges of layers that join the one before."""
        layer = self._layers[number]
        if layer.joins is None:
            self.run(f"{layer.name} input_grad", layer.input_grad)
        for joining in self._joined.get(number - 1, ()):
            exchange = Pass(communication=joining.input_grad.communication)
            self.run(f"{joining.name} input_grad", exchange, blocks=self._blocking)

    def weight_gradients(self, number: int) -> None:
        layer = self._layers[number]
        self.run(f"{layer.name} weight_grad", layer.weight_grad, blocks=self._blocking)


# --- LIBRA's transformer slices -------------------------------------------------------------------
# The transformer slices that LIBRA optimises for, from the model's dimensions.
#
# Message sizes and FLOPs follow from (hidden, batch, sequence, tensor degree) alone; the tests
# hold them against LIBRA's published inputs, to the byte and to the nanosecond.


@dataclass(frozen=True)
class TransformerSlice:
    """``layers`` identical blocks of a dense transformer, each divided among ``tensor`` NPUs.

    Attention is causal: half of the score matrix is computed.
    """

    hidden: Count
    layers: Count
    batch: Count
    sequence: Count
    tensor: Count
    flops: float
    bytes_per_value: Count = 2
    clock: int = 1000

    def __post_init__(self) -> None:
        check_settings(self)
        if self.hidden % self.tensor:
            raise DimsweepError(
                f"a tensor degree of {self.tensor} does not divide the hidden size {self.hidden}",
                where="tensor",
                code="mismatch",
            )

    @property
    def activation_bytes(self) -> int:
        """Bytes of a block's output for all its tokens: batch x sequence x hidden values."""
        return self.batch * self.sequence * self.hidden * self.bytes_per_value

    @property
    def gradient_bytes(self) -> int:
        """Bytes of weight gradients an NPU: 12 hidden^2 values a block (QKV 3, output 1, MLP 8)."""
        return self.layers * 12 * self.hidden**2 * self.bytes_per_value // self.tensor

    def build(self) -> list[Layer]:
        """Return the layers of all blocks; the first layer all-reduces the gradients of all."""
        return [layer for index in range(self.layers) for layer in self._block(index)]

    def _block(self, index: int) -> Iterator[Layer]:
        tokens = self.batch * self.sequence
        projection = 2 * tokens * self.hidden**2 / self.tensor
        attention = tokens * self.sequence * self.hidden / self.tensor
        # Megatron's pattern: the output projection and the second MLP matrix all-reduce their
        # result forward; the first matrices of attention and MLP all-reduce their input gradient;
        # the output projection gathers the shards of its input gradient.
        sum_up = Communication(CollectiveKind.ALL_REDUCE, self.activation_bytes, "tensor")
        gather = Communication(
            CollectiveKind.ALL_GATHER, self.activation_bytes // self.tensor, "tensor"
        )
        gradients = Communication(CollectiveKind.ALL_REDUCE, self.gradient_bytes, "data")

        def layer(
            name: str,
            flops: float,
            forward: Communication | None = None,
            input_grad: Communication | None = None,
            weight_grad: Communication | None = None,
        ) -> Layer:
            compute = Compute(duration=self._duration(flops))
            return Layer(
                f"{name}{index + 1}",
                Pass(compute, forward),
                Pass(compute, input_grad),
                Pass(compute, weight_grad),
            )

        first = gradients if index == 0 else None
        yield layer("Q", projection, input_grad=sum_up, weight_grad=first)
        yield layer("K", projection)
        yield layer("V", projection)
        yield layer("QK", attention)
        yield layer("softmax", attention)
        yield layer("concat", projection, forward=sum_up, input_grad=gather)
        yield layer("X1W1b", 4 * projection, input_grad=sum_up)
        yield layer("X1W2b", 4 * projection, forward=sum_up)
        yield layer("layerNorm", 2 * tokens * self.hidden)

    def _duration(self, flops: float) -> int:
        return round(flops / self.flops * PICOSECONDS / self.clock) * self.clock


# --- convolutional networks -----------------------------------------------------------------------


@dataclass(frozen=True)
class Convolution:
    """A convolution: ``inputs`` x ``outputs`` x ``kernel``^2 weights, and the ps of each pass.

    A fully connected layer has ``kernel`` 1.
    """

    name: str
    inputs: int
    outputs: int
    kernel: int
    forward: int
    input_grad: int
    weight_grad: int

    @property
    def weights(self) -> int:
        """Number of weights of the layer."""
        return self.inputs * self.outputs * self.kernel**2


def data_parallel(convolutions: Sequence[Convolution], bytes_per_value: int) -> list[Layer]:
    """Return one layer for each convolution, for training with data parallelism.

    All gradients are all-reduced over the group ``data`` once, after the backward pass.
    """
    if not convolutions:
        raise DimsweepError("a network without layers", where="layers", code="missing")
    n_bytes = bytes_per_value * sum(convolution.weights for convolution in convolutions)
    all_reduce = Communication(CollectiveKind.ALL_REDUCE, n_bytes, "data")
    return [
        Layer(
            convolution.name,
            Pass(Compute(duration=convolution.forward)),
            Pass(Compute(duration=convolution.input_grad)),
            # The backward pass ends with the first layer.
            Pass(Compute(duration=convolution.weight_grad), all_reduce if index == 0 else None),
        )
        for index, convolution in enumerate(convolutions)
    ]
