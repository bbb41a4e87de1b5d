"""What a rank does, step by step: kernels, collectives, accesses to remote memory, and waits."""

from typing import NamedTuple

from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.workload.graph import Kernel, MatMul


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
