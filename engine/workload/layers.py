"""Layers of a model, and the training loops that make an operator graph of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from engine.kinds import CollectiveKind
from engine.workload.graph import Collective, Compute, GraphBuilder, Operator


@dataclass(frozen=True)
class Communication:
    """A collective of a layer; ``n_bytes`` as in :class:`engine.workload.graph.Collective`."""

    kind: CollectiveKind
    n_bytes: float
    group: str


@dataclass(frozen=True)
class Pass:
    """One of a layer's three passes: compute, then perhaps a collective of its result."""

    compute: Compute = field(default_factory=Compute)
    communication: Communication | None = None


@dataclass(frozen=True)
class Layer:
    """A layer's forward, input-gradient and weight-gradient passes."""

    name: str
    forward: Pass = field(default_factory=Pass)
    input_grad: Pass = field(default_factory=Pass)
    weight_grad: Pass = field(default_factory=Pass)


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
    exchange begins earlier.
    """
    builder = GraphBuilder()
    last: tuple[int, ...] = ()

    def run(name: str, part: Pass, *, blocks: bool = True) -> None:
        nonlocal last
        if part.compute != Compute(duration=0) and part.compute != Compute():
            last = (builder.add(name, part.compute, last),)
        if part.communication is not None:
            c = part.communication
            work = Collective(c.kind, c.n_bytes, c.group)
            done = builder.add(f"{name} {c.kind}", work, last)
            if blocks:
                last = (done,)

    for layer in layers:
        run(f"{layer.name} forward", layer.forward)
    for layer in reversed(layers):
        if not weight_gradients_first:
            run(f"{layer.name} input_grad", layer.input_grad)
        run(f"{layer.name} weight_grad", layer.weight_grad, blocks=loop is TrainingLoop.NO_OVERLAP)
        if weight_gradients_first:
            run(f"{layer.name} input_grad", layer.input_grad)
    return builder.build()
