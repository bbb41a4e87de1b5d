"""What a rank does, step by step: kernels, collectives, accesses to remote memory, and waits."""

from __future__ import annotations

from typing import NamedTuple

from engine.kinds import CollectiveKind
from engine.workload.graph import Kernel, MatMul


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
    :class:`WaitStep` for its label."""

    n_bytes: float
    label: str
    store: bool = False


class WaitStep(NamedTuple):
    """Go on when all steps with this label are done."""

    label: str


Step = Kernel | CollectiveStep | AccessStep | WaitStep


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
