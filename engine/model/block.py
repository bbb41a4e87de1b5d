"""Blocks: what a layer of a model does on one rank for one micro-batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from engine.errors import DimsweepError
from engine.workload.graph import CollectiveKind, Kernel, MatMul


class Recompute(StrEnum):
    """What the backward pass computes again, instead of keeping it: nothing, the core of the
    attention, or every layer from its input (Korthikanti et al., MLSys 2023)."""

    NONE = "none"
    SELECTIVE = "selective"
    FULL = "full"


class Exchange(NamedTuple):
    """A collective over a parallel axis; ``n_bytes`` as in a graph's ``Collective``.

    One with a ``label`` runs beside what follows, until a :class:`Wait` for the label; one that
    ``follows`` a label starts when that is done.
    """

    kind: CollectiveKind
    n_bytes: float
    axis: str
    label: str = ""
    follows: str = ""


class Move(NamedTuple):
    """A load from remote memory, or a ``store`` to it, beside what follows until it is waited
    for."""

    n_bytes: float
    label: str
    store: bool = False


class Wait(NamedTuple):
    """Go on when the exchange with this label is done."""

    label: str


Step = Kernel | Exchange | Move | Wait


@dataclass(frozen=True)
class Block:
    """A layer, or what stands before or after the layers, on one rank.

    ``forward`` and ``backward`` run one after another; ``again`` is what the backward pass computes
    once more first.  ``parameters`` are the rank's values that all data-parallel ranks share,
    ``expert_parameters`` those of its experts; ``activations`` the bytes kept from a micro-batch's
    forward pass to its backward pass, ``transient`` those that live only while the block runs;
    ``output`` the bytes handed to the next block.
    """

    name: str
    forward: tuple[Step, ...] = ()
    backward: tuple[Step, ...] = ()
    again: tuple[Step, ...] = ()
    parameters: float = 0.0
    expert_parameters: float = 0.0
    activations: float = 0.0
    transient: float = 0.0
    output: float = 0.0


@dataclass(frozen=True)
class Network:
    """A model cut for one rank: blocks before the layers, the layers, and blocks after them.

    ``tied`` is the number of parameters that the first and the last stage both hold, and sum up;
    ``message_is_cut``: tensor-parallel ranks hold different parts of what a block hands on.
    """

    front: tuple[Block, ...]
    layers: tuple[Block, ...]
    back: tuple[Block, ...]
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
    along the sequence.  ``decode``: each sequence adds one token to those that it holds already.
    """

    batch: int
    tensor: int = 1
    context: int = 1
    expert: int = 1
    sequence_parallel: bool = False
    recompute: Recompute = Recompute.NONE
    value: float = 2.0
    decode: bool = False


def refuse(shard: Shard, model: str, axes: Sequence[str]) -> None:
    """Raise :class:`DimsweepError` if the shard is divided along one of ``axes``, which the model
    has not."""
    for axis in axes:
        if getattr(shard, axis) > 1:
            raise DimsweepError(
                f"{model} has no {axis} parallelism here",
                where=f"parallel.{axis}",
                hint="a degree of 1; data and pipeline are left",
            )


def product(name: str, products: int, m: int, k: int, n: int, value: float) -> Kernel:
    """A matrix product that reads both factors once and writes the result once."""
    shape = MatMul(products, m, k, n)
    return Kernel(name, shape.flops, value * products * (m * k + k * n + m * n), shape)


def linear(name: str, m: int, k: int, n: int, value: float) -> tuple[Kernel, Kernel, Kernel]:
    """A linear layer of ``m`` tokens from ``k`` to ``n`` features: its forward product, and those
    of the gradients of its input and of its weights."""
    return (
        product(name, 1, m, k, n, value),
        product(f"{name} input_grad", 1, m, n, k, value),
        product(f"{name} weight_grad", 1, k, m, n, value),
    )


def elementwise(name: str, n_bytes: float) -> Kernel:
    """A kernel that streams bytes; its arithmetic hides behind them."""
    return Kernel(name, 0.0, n_bytes)


def flops_of(steps: Iterable[Step]) -> float:
    """FLOPs of matrix products and all else among ``steps``."""
    return sum(step.flops for step in steps if isinstance(step, Kernel))
