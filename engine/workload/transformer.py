"""The transformer slices that LIBRA optimises for, from the model's dimensions.

Message sizes and FLOPs follow from (hidden, batch, sequence, tensor degree) alone; the tests hold
them against LIBRA's published inputs, to the byte and to the nanosecond.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from dimsweep.engine.errors import DimsweepError, check_least
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.units import PICOSECONDS
from dimsweep.engine.workload.graph import Compute
from dimsweep.engine.workload.layers import Communication, Layer, Pass


@dataclass(frozen=True)
class TransformerSlice:
    """``layers`` identical transformer blocks of a dense model, tensor-parallel by ``tensor``.

    ``batch`` sequences of ``sequence`` tokens per NPU group, ``bytes_per_value`` (2 for fp16) for
    weights, activations and gradients.  Attention is causal: half of the score matrix is computed.
    ``clock`` (ps) rounds every duration, as inputs in whole nanoseconds do.
    """

    hidden: int
    layers: int
    batch: int
    sequence: int
    tensor: int
    flops: float
    bytes_per_value: int = 2
    clock: int = 1000

    def __post_init__(self) -> None:
        check_least(self, 1, "hidden", "layers", "batch", "sequence", "tensor", "bytes_per_value")
        if self.hidden % self.tensor:
            raise DimsweepError(
                f"a hidden size of {self.hidden} does not divide by tensor degree {self.tensor}",
                where="tensor",
            )

    @property
    def activation_bytes(self) -> int:
        """The output of a block for all its tokens: batch x sequence x hidden values."""
        return self.batch * self.sequence * self.hidden * self.bytes_per_value

    @property
    def gradient_bytes(self) -> int:
        """Weight gradients on one NPU: 12 hidden^2 a block (QKV 3, output 1, MLP 8)."""
        return self.layers * 12 * self.hidden**2 * self.bytes_per_value // self.tensor

    def build(self) -> list[Layer]:
        """The layers of all blocks; the first carries the data-parallel gradient all-reduce."""
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
