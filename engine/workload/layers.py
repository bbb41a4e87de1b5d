"""Layers of a model, and the training loops that make an operator graph of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.workload.graph import Access, Collective, Compute, GraphBuilder, Operator


@dataclass(frozen=True)
class Communication:
    """A collective of a layer; ``n_bytes`` as in :class:`engine.workload.graph.Collective`."""

    kind: CollectiveKind
    n_bytes: float
    group: str


@dataclass(frozen=True)
class Pass:
    """One of a layer's three passes: compute, for which ``load`` bytes are loaded from the NPU's
    remote memory before, then perhaps a collective of its result."""

    compute: Compute = field(default_factory=Compute)
    communication: Communication | None = None
    load: float = 0.0


@dataclass(frozen=True)
class Layer:
    """A layer's forward, input-gradient and weight-gradient passes.

    ``again`` is the number of a layer before it: from that one up to it layers run forward again,
    from a checkpoint, before its own backward pass.  A layer that ``joins`` a later one, as tables
    of embeddings do, exchanges beside those between: what follows the later one waits for its
    forward collective, and its input gradients are a collective alone, which begins as soon as the
    input gradients of the layer that follows the later one are done.
    """

    name: str
    forward: Pass = field(default_factory=Pass)
    input_grad: Pass = field(default_factory=Pass)
    weight_grad: Pass = field(default_factory=Pass)
    again: int | None = None
    joins: int | None = None


class TrainingLoop(StrEnum):
    """How an iteration interleaves compute with communication."""

    NO_OVERLAP = "no_overlap"
    OVERLAP_GRADIENTS = "overlap_gradients"


def training_iteration(
    layers: Sequence[Layer], loop: TrainingLoop, *, weight_gradients_first: bool = False
) -> tuple[Operator, ...]:
    """One iteration: every layer forward, then every layer backward in reverse.

    Under ``no_overlap`` each collective blocks (LIBRA's loop: the time is a plain sum).  Under
    ``overlap_gradients`` a weight-gradient collective runs while the backward pass goes on, as
    data-parallel frameworks do; the iteration ends when the last of them has.  A layer's input
    gradients come before those of its weights, or after them, as in ASTRA-sim 1.0, where their
    exchange begins earlier.  Where each collective blocks, that order changes nothing, and is the
    first one.
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
    """The operators so far; each waits for the ``last`` ones that block."""

    def __init__(self, layers: Sequence[Layer], loop: TrainingLoop) -> None:
        self._layers, self._blocking = layers, loop is TrainingLoop.NO_OVERLAP
        self._joined: dict[int, list[Layer]] = {}  # those that join each layer
        for layer in layers:
            if layer.joins is not None:
                self._joined.setdefault(layer.joins, []).append(layer)
        self.builder = GraphBuilder()
        self._last: tuple[int, ...] = ()

    def run(self, name: str, part: Pass, *, blocks: bool = True) -> tuple[int, ...]:
        """Add a pass; returns its collective, if it has one."""
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
        """Add the forward pass."""
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
        """Add a layer's pass for the gradients of its input, and begin the exchange of those layers
        that joined the layer before it."""
        layer = self._layers[number]
        if layer.joins is None:
            self.run(f"{layer.name} input_grad", layer.input_grad)
        for joining in self._joined.get(number - 1, ()):
            exchange = Pass(communication=joining.input_grad.communication)
            self.run(f"{joining.name} input_grad", exchange, blocks=self._blocking)

    def weight_gradients(self, number: int) -> None:
        """Add a layer's pass for the gradients of its weights."""
        layer = self._layers[number]
        self.run(f"{layer.name} weight_grad", layer.weight_grad, blocks=self._blocking)
