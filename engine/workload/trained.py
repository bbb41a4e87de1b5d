"""Trained networks: a sequence of layers with their weights, as stored in files."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.errors import DimsweepError, suggest_names

Values = NDArray[np.float64]

ACTIVATIONS: Mapping[str, Callable[[Values], Values]] = {
    "identity": lambda x: x,
    "relu": lambda x: np.maximum(x, 0.0),
    "tanh": np.tanh,
    "sigmoid": lambda x: 0.5 * (np.tanh(0.5 * x) + 1.0),
}

LARGEST = 1e30  # of a weight and of a sample's values: sums of their squares are numbers


@dataclass(frozen=True)
class TrainedLayer:
    """A dense layer or a convolution with trained weights.

    ``weight`` has shape (out, in) or (out, in, height, width), ``bias`` has shape (out,). Raises
    :class:`DimsweepError` for other shapes, and for unknown activations or poolings.
    """

    name: str
    weight: Values
    bias: Values
    activation: str = "identity"
    stride: int = 1
    padding: int = 0
    pool: int = 1

    def __post_init__(self) -> None:
        shape = self.weight.shape
        if len(shape) not in (2, 4) or 0 in shape:
            problem = f"a weight of shape {shape}; it must be (out, in) or (out, in, h, w)"
            raise DimsweepError(problem, where=self.name, code="mismatch")
        if self.bias.shape != shape[:1]:
            problem = f"a bias of shape {self.bias.shape}; it must be {shape[:1]}"
            raise DimsweepError(problem, where=self.name, code="mismatch")
        for values in (self.weight, self.bias):
            if not (np.abs(values) <= LARGEST).all():
                problem = f"weights and biases must be finite and at most {LARGEST:g}"
                raise DimsweepError(problem, where=self.name, code="out-of-range")
        if self.activation not in ACTIVATIONS:
            problem = f"unknown activation {self.activation!r}"
            hint = suggest_names(self.activation, ACTIVATIONS)
            raise DimsweepError(problem, where=self.name, hint=hint, code="unknown-name")
        if self.stride < 1 or self.padding < 0 or self.pool < 1:
            problem = "stride and pool must be 1 or more, padding 0 or more"
            raise DimsweepError(problem, where=self.name, code="out-of-range")

    @property
    def is_convolution(self) -> bool:
        """True if the layer is a convolution."""
        return self.weight.ndim == 4


@dataclass(frozen=True)
class TrainedNetwork:
    """A sequence of trained layers; ``input_shape`` is (features,) or (channels, height, width).

    A *boundary* is between two layers: boundary 0 is the input, boundary l the output of layer l -
    1. Its *units* are neurons, or channels with one value for each pixel. A dense layer after a
    convolution takes the pixels of one channel after the other. Raises :class:`DimsweepError` with
    the name of a layer that does not fit the layer before it.
    """

    layers: tuple[TrainedLayer, ...]
    input_shape: tuple[int, ...]
    name: str = "network"

    def __post_init__(self) -> None:
        if not self.layers:
            raise DimsweepError("a network without layers", where=self.name, code="missing")
        if len(self.input_shape) not in (1, 3) or min(self.input_shape) < 1:
            raise DimsweepError(
                f"an input of shape {self.input_shape}",
                where=self.name,
                code="mismatch",
                hint="(features,) or (channels, height, width)",
            )
        _ = self.shapes

    @cached_property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shape of every boundary, for one sample."""
        shapes = [self.input_shape]
        for layer in self.layers:
            shapes.append(_shape_after(layer, shapes[-1]))
        return tuple(shapes)

    @property
    def units(self) -> tuple[int, ...]:
        """Number of neurons or channels of every boundary."""
        return tuple(shape[0] for shape in self.shapes)

    @property
    def values(self) -> tuple[int, ...]:
        """Number of values of one unit at every boundary: 1, or the pixels of a channel."""
        return tuple(int(np.prod(shape[1:])) for shape in self.shapes)

    @property
    def uses(self) -> tuple[int, ...]:
        """Number of times that one sample uses each weight of a layer: 1, or the output pixels."""
        return tuple(
            int(np.prod(_convolution_size(layer, shape))) if layer.is_convolution else 1
            for layer, shape in zip(self.layers, self.shapes, strict=False)
        )

    def blocks(self, number: int) -> Values:
        """Return the weights of layer ``number`` by output and input unit, shape (out, in, k).

        ``k`` is the number of weights between two units.
        """
        weight = self.layers[number].weight
        return weight.reshape(weight.shape[0], self.units[number], -1)

    def patches(self, number: int, values: Values) -> Values:
        """Return the values that layer ``number`` multiplies by its weights, (N, positions, in k).

        ``values`` (N, ...) are the layer's inputs for N samples.
        """
        layer = self.layers[number]
        if not layer.is_convolution:
            return values.reshape(len(values), 1, -1)
        margin, step = layer.padding, layer.stride
        padded = np.pad(values, ((0, 0), (0, 0), (margin, margin), (margin, margin)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, layer.weight.shape[2:], (2, 3))
        windows = windows[:, :, ::step, ::step]  # samples, channels, rows, columns, window
        n, _, rows, columns = windows.shape[:4]
        return windows.transpose(0, 2, 3, 1, 4, 5).reshape(n, rows * columns, -1)

    def finish(self, number: int, sums: Values) -> Values:
        """Return the output of layer ``number``: apply activation and pooling to its sums.

        ``sums`` (N, positions, out) are the products' sums, bias included.
        """
        layer, shape = self.layers[number], self.shapes[number]
        out = ACTIVATIONS[layer.activation](sums).transpose(0, 2, 1)
        if not layer.is_convolution:
            return out[:, :, 0]
        out = out.reshape(*out.shape[:2], *_convolution_size(layer, shape))
        p = layer.pool
        if p == 1:
            return out
        n, channels, rows, columns = out.shape
        cut = out[:, :, : rows // p * p, : columns // p * p]
        return cut.reshape(n, channels, rows // p, p, columns // p, p).max(axis=(3, 5))

    def run(self, inputs: Values) -> Values:
        """Return the outputs of the last layer for N samples, shape (N, classes).

        ``inputs`` have shape (N, *input_shape). Raises :class:`DimsweepError` if a value overflows.
        """
        values = self.shaped(inputs)
        for number, layer in enumerate(self.layers):
            weight = layer.weight.reshape(len(layer.weight), -1)
            try:
                with np.errstate(over="raise", invalid="raise"):
                    sums = self.patches(number, values) @ weight.T + layer.bias
                    values = self.finish(number, sums)
            except FloatingPointError as error:
                problem, hint = "its outputs overflow", "scale the samples down"
                where = layer.name
                raise DimsweepError(problem, where=where, hint=hint, code="invalid") from error
        return values.reshape(len(values), -1)

    def shaped(self, inputs: Values) -> Values:
        """Return samples as (N, *input_shape); raises :class:`DimsweepError` if impossible."""
        size = int(np.prod(self.input_shape))
        if inputs.ndim < 2 or int(np.prod(inputs.shape[1:])) != size:
            problem = f"samples of shape {inputs.shape[1:]}; it must be {self.input_shape}"
            raise DimsweepError(problem, where=self.name, code="mismatch")
        return np.asarray(inputs, dtype=float).reshape(len(inputs), *self.input_shape)

    def accuracy(self, inputs: Values, labels: Sequence[int] | NDArray[np.int64]) -> float:
        """Return the fraction of samples whose largest output is the one of their label."""
        return float((self.run(inputs).argmax(axis=1) == np.asarray(labels)).mean())


def _convolution_size(layer: TrainedLayer, shape: Sequence[int]) -> tuple[int, int]:
    """Return the rows and columns of a convolution's output before pooling."""
    rows, columns = (
        (n + 2 * layer.padding - k) // layer.stride + 1
        for n, k in zip(shape[1:], layer.weight.shape[2:], strict=True)
    )
    return rows, columns


def _shape_after(layer: TrainedLayer, shape: Sequence[int]) -> tuple[int, ...]:
    n_in = layer.weight.shape[1]
    if layer.is_convolution:
        if len(shape) != 3 or shape[0] != n_in:
            problem = f"inputs of shape {tuple(shape)}; it needs {n_in} channels"
            raise DimsweepError(problem, where=layer.name, code="mismatch")
        rows, columns = (n // layer.pool for n in _convolution_size(layer, shape))
        if min(rows, columns) < 1:
            problem = f"inputs of shape {tuple(shape)} are smaller than its kernel or pool"
            raise DimsweepError(problem, where=layer.name, code="mismatch")
        return (len(layer.weight), rows, columns)
    if int(np.prod(shape)) != n_in:
        problem = f"inputs of {' x '.join(map(str, shape))} values; it needs {n_in}"
        raise DimsweepError(problem, where=layer.name, code="mismatch")
    if layer.pool != 1:
        problem = "only the output of a convolution can be pooled"
        raise DimsweepError(problem, where=layer.name, code="conflict")
    return (len(layer.weight),)
