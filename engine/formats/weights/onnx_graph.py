"""ONNX graphs that are a chain of dense and convolutional layers."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import DimsweepError
from engine.formats.weights.size import check_size
from engine.workload.trained import TrainedLayer

_ACTIVATIONS = {"Relu": "relu", "Tanh": "tanh", "Sigmoid": "sigmoid"}
_NOTHING = ("Flatten", "Reshape", "Identity", "Dropout", "Softmax", "LogSoftmax", "Squeeze")


def read_onnx(path: Path) -> tuple[list[TrainedLayer], tuple[int, ...]]:
    """Layers, and the shape of the input of one sample.

    Raises :class:`DimsweepError` naming the node that is none of a chain of layers, and if the
    package onnx is not installed.
    """
    try:
        import onnx
        from onnx import numpy_helper
    except ImportError as error:
        what = "the package onnx is not installed"
        raise DimsweepError(what, hint="pip install onnx") from error
    try:
        graph = onnx.load(path).graph
    except OSError as error:
        raise DimsweepError(f"cannot be read: {error.strerror}") from error
    except Exception as error:  # protobuf's own
        raise DimsweepError(f"this is no ONNX file: {error}") from error
    tensors = {}
    for each in graph.initializer:
        check_size(8 * math.prod(each.dims), each.name)
        try:
            tensors[each.name] = numpy_helper.to_array(each)
        except Exception as error:  # too few bytes, or of a kind that NumPy has not
            raise DimsweepError(f"this tensor cannot be read: {error}", where=each.name) from error
    inputs = [each for each in graph.input if each.name not in tensors]
    if len(inputs) != 1:
        raise DimsweepError(f"{len(inputs)} inputs; a chain of layers has one")
    chain = _Chain(inputs[0].name, tensors)
    for node in graph.node:
        values = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
        chain.add(node, values)
    if not chain.layers:
        raise DimsweepError("no layers are here")
    dims = [dim.dim_value for dim in inputs[0].type.tensor_type.shape.dim]
    return chain.layers, tuple(dims[1:])  # the first one counts samples


class _Chain:
    """Layers as the nodes of a graph make them, each from what the one before gives."""

    def __init__(self, end: str, tensors: Mapping[str, NDArray[Any]]) -> None:
        self.layers: list[TrainedLayer] = []
        self._end, self._tensors = end, tensors

    def add(self, node: Any, given: Mapping[str, Any]) -> None:
        where = f"node {node.name or node.output[0]!r} ({node.op_type})"
        flowing = [name for name in node.input if name and name not in self._tensors]
        if flowing != [self._end]:
            what = "it does not follow the node before it alone"
            raise DimsweepError(what, where=where, hint="only chains of layers are read")
        constants = [self._tensors[name] for name in node.input if name in self._tensors]
        kind = node.op_type
        if kind == "Gemm":
            self._dense(node, constants, given, where)
        elif kind == "MatMul" and len(constants) == 1:
            self._append(node, constants[0].T, None)
        elif kind == "Add" and len(constants) == 1 and self.layers:
            self._change(bias=self.layers[-1].bias + constants[0].reshape(-1))
        elif kind == "Conv":
            self._convolution(node, constants, given, where)
        elif kind == "MaxPool" and self.layers:
            self._pool(given, where)
        elif kind in _ACTIVATIONS and self.layers:
            self._change(activation=_ACTIVATIONS[kind])
        elif kind not in _NOTHING:
            known = ", ".join(["Gemm", "MatMul", "Add", "Conv", "MaxPool", *_ACTIVATIONS])
            raise DimsweepError("no layer is made of this", where=where, hint=f"known: {known}")
        self._end = node.output[0]

    def _append(self, node: Any, weight: NDArray[Any], bias: Any, **more: Any) -> None:
        values = np.zeros(len(weight)) if bias is None else bias.astype(float).reshape(-1)
        name = node.name or f"layer{len(self.layers)}"
        self.layers.append(
            TrainedLayer(name.strip("/").replace("/", "_"), weight.astype(float), values, **more)
        )

    def _change(self, **what: Any) -> None:
        self.layers[-1] = replace(self.layers[-1], **what)

    def _dense(self, node: Any, constants: Any, given: Mapping[str, Any], where: str) -> None:
        if (
            not constants
            or given.get("transA")
            or (given.get("alpha", 1), given.get("beta", 1)) != (1, 1)
        ):
            raise DimsweepError("this product is no dense layer", where=where)
        weight = constants[0] if given.get("transB") else constants[0].T
        self._append(node, weight, constants[1] if len(constants) > 1 else None)

    def _convolution(self, node: Any, constants: Any, given: Mapping[str, Any], where: str) -> None:
        pads, strides = given.get("pads", [0] * 4), given.get("strides", [1, 1])
        plain = given.get("group", 1) == 1 and set(given.get("dilations", [1])) == {1}
        plain = plain and given.get("auto_pad", b"NOTSET") == b"NOTSET"
        if not constants or not plain or len(set(pads)) > 1 or len(set(strides)) > 1:
            raise DimsweepError(
                "groups, dilations, and strides or paddings that differ are not read", where=where
            )
        bias = constants[1] if len(constants) > 1 else None
        self._append(node, constants[0], bias, stride=int(strides[0]), padding=int(pads[0]))

    def _pool(self, given: Mapping[str, Any], where: str) -> None:
        window, strides = list(given["kernel_shape"]), list(given.get("strides", [1, 1]))
        if len(set(window)) > 1 or strides != window or any(given.get("pads", [0])):
            what = "only windows that are square, side by side, and not padded are read"
            raise DimsweepError(what, where=where)
        self._change(pool=int(window[0]))
