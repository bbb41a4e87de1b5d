"""Convolutional networks as layers with measured durations; gradients follow from the shapes."""

from collections.abc import Sequence
from dataclasses import dataclass

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.workload.graph import Compute
from dimsweep.engine.workload.layers import Communication, Layer, Pass


@dataclass(frozen=True)
class Convolution:
    """A layer of ``inputs`` x ``outputs`` x ``kernel``^2 weights and three durations in ps.

    A fully connected layer is one with ``kernel`` 1.
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
        return self.inputs * self.outputs * self.kernel**2


def data_parallel(convolutions: Sequence[Convolution], bytes_per_value: int) -> list[Layer]:
    """Layers whose gradients are all-reduced over ``data`` once, after the backward pass."""
    if not convolutions:
        raise DimsweepError("a network without layers", where="layers")
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
