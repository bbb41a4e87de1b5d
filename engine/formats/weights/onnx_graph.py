"""Reader of ONNX graphs that are a chain of dense and convolutional layers."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.errors import DimsweepError, needing
from dimsweep.engine.formats.weights.archive import check_size
from dimsweep.engine.workload.trained import TrainedLayer

_ACTIVATIONS = {"Relu": "relu", "Tanh": "tanh", "Sigmoid": "sigmoid"}
_NUMBERS = (
    *("FLOAT", "DOUBLE", "FLOAT16", "BOOL"),
    *("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64"),
)
_PIXELS = ("pads", "strides", "dilations", "kernel_shape")
_NOTHING = ("Flatten", "Reshape", "Identity", "Dropout", "Softmax", "LogSoftmax", "Squeeze")


def read_onnx(path: Path) -> tuple[list[TrainedLayer], tuple[int, ...]]:
    """Return the layers in an ONNX file, and the shape of the input for one sample.

    Raises :class:`DimsweepError` naming a node that does not belong to a chain of layers, and if
    the package onnx is not installed.
    """
    with needing(
        "onnx",
        DimsweepError(
            "the package onnx is not installed", hint="pip install onnx", code="inaccessible"
        ),
    ):
        import onnx
        from google.protobuf.message import DecodeError
    try:
        graph = onnx.load(path).graph
    except OSError as error:
        raise DimsweepError(
            f"cannot read the file: {error.strerror}", code="inaccessible"
        ) from error
    except (DecodeError, onnx.checker.ValidationError, ValueError) as error:
        raise DimsweepError(f"it is not an ONNX file: {error}", code="bad-syntax") from error
    tensors = {each.name: _array(onnx, each) for each in graph.initializer}
    inputs = [each for each in graph.input if each.name not in tensors]
    if len(inputs) != 1:
        raise DimsweepError(
            f"the graph has {len(inputs)} inputs; a chain of layers has one", code="unsupported"
        )
    chain = _Chain(inputs[0].name, tensors)
    for number, node in enumerate(graph.node):
        name = node.name or next(iter(node.output), str(number))
        where = f"node {name!r} ({node.op_type})"
        chain.add(node, _attributes(onnx, node, where), where)
    if not chain.layers:
        raise DimsweepError("the graph has no layers", code="missing")
    dims = [dim.dim_value for dim in inputs[0].type.tensor_type.shape.dim]
    return chain.layers, tuple(dims[1:])  # the first one counts samples


def _array(onnx: Any, tensor: Any) -> NDArray[Any]:
    check_size(8 * math.prod(tensor.dims), tensor.name)
    if tensor.data_type not in {onnx.TensorProto.DataType.Value(name) for name in _NUMBERS}:
        problem = f"unknown data type {tensor.data_type}"
        raise DimsweepError(
            problem, where=tensor.name, hint=f"known: {', '.join(_NUMBERS)}", code="unsupported"
        )
    try:
        with np.errstate(invalid="ignore"):  # a NaN of any kind is refused by the layer
            return np.asarray(onnx.numpy_helper.to_array(tensor)).astype(float)
    except ValueError as error:  # too few bytes
        raise DimsweepError(
            f"invalid tensor: {error}", where=tensor.name, code="bad-syntax"
        ) from error


def _attributes(onnx: Any, node: Any, where: str) -> dict[str, Any]:
    """Return a node's attributes by name; sizes in pixels must be non-empty lists of integers."""
    found = {}
    for each in node.attribute:
        try:
            value = onnx.helper.get_attribute_value(each)
        except ValueError as error:
            raise DimsweepError(
                f"invalid attribute {each.name!r}", where=where, code="bad-syntax"
            ) from error
        whole = isinstance(value, list) and all(isinstance(number, int) for number in value)
        if each.name in _PIXELS and not (value and whole):
            raise DimsweepError(
                f"{each.name!r} is not a list of whole numbers", where=where, code="wrong-type"
            )
        found[each.name] = value
    return found


class _Chain:
    """Builder of layers from a graph's nodes; each node must take the output of the one before."""

    def __init__(self, end: str, tensors: Mapping[str, NDArray[Any]]) -> None:
        self.layers: list[TrainedLayer] = []
        self._end, self._tensors = end, tensors

    def add(self, node: Any, given: Mapping[str, Any], where: str) -> None:
        if not node.output:
            raise DimsweepError("the node has no output", where=where, code="bad-syntax")
        flowing = [name for name in node.input if name and name not in self._tensors]
        if flowing != [self._end]:
            problem = "the input of the node is not the output of the node before it"
            raise DimsweepError(
                problem, where=where, hint="only chains of layers are supported", code="unsupported"
            )
        constants = [self._tensors[name] for name in node.input if name in self._tensors]
        kind = node.op_type
        if kind == "Gemm":
            self._dense(node, constants, given, where)
        elif kind == "MatMul" and len(constants) == 1:
            self._append(node, constants[0].T, None)
        elif kind == "Add" and len(constants) == 1 and self.layers:
            self._add_bias(constants[0].reshape(-1), where)
        elif kind == "Conv":
            self._convolution(node, constants, given, where)
        elif kind == "MaxPool" and self.layers:
            self._pool(given, where)
        elif kind in _ACTIVATIONS and self.layers:
            self._change(activation=_ACTIVATIONS[kind])
        elif kind not in _NOTHING:
            known = ", ".join(["Gemm", "MatMul", "Add", "Conv", "MaxPool", *_ACTIVATIONS])
            raise DimsweepError(
                "unsupported operator", where=where, hint=f"known: {known}", code="unsupported"
            )
        self._end = node.output[0]

    def _append(self, node: Any, weight: NDArray[Any], bias: Any, **more: Any) -> None:
        values = np.zeros(weight.shape[:1]) if bias is None else bias.reshape(-1)
        name = node.name or f"layer{len(self.layers)}"
        self.layers.append(TrainedLayer(name.strip("/").replace("/", "_"), weight, values, **more))

    def _change(self, **values: Any) -> None:
        self.layers[-1] = replace(self.layers[-1], **values)

    def _add_bias(self, more: NDArray[Any], where: str) -> None:
        bias = self.layers[-1].bias
        if len(more) not in (1, len(bias)):
            problem = f"{len(more)} values cannot be added to {len(bias)}"
            raise DimsweepError(problem, where=where, code="mismatch")
        self._change(bias=bias + more)

    def _dense(self, node: Any, constants: Any, given: Mapping[str, Any], where: str) -> None:
        if (
            not constants
            or given.get("transA")
            or (given.get("alpha", 1), given.get("beta", 1)) != (1, 1)
        ):
            raise DimsweepError("the product is not a dense layer", where=where, code="unsupported")
        weight = constants[0] if given.get("transB") else constants[0].T
        self._append(node, weight, constants[1] if len(constants) > 1 else None)

    def _convolution(self, node: Any, constants: Any, given: Mapping[str, Any], where: str) -> None:
        pads, strides = given.get("pads", [0] * 4), given.get("strides", [1, 1])
        plain = given.get("group", 1) == 1 and set(given.get("dilations", [1])) == {1}
        plain = plain and given.get("auto_pad", b"NOTSET") == b"NOTSET"
        if not constants or not plain or len(set(pads)) > 1 or len(set(strides)) > 1:
            raise DimsweepError(
                "groups, dilations, and unequal strides or paddings are not supported",
                where=where,
                code="unsupported",
            )
        bias = constants[1] if len(constants) > 1 else None
        self._append(node, constants[0], bias, stride=int(strides[0]), padding=int(pads[0]))

    def _pool(self, given: Mapping[str, Any], where: str) -> None:
        window, strides = given.get("kernel_shape", []), given.get("strides", [1, 1])
        if len(set(window)) != 1 or strides != window or any(given.get("pads", [0])):
            problem = "windows must be square, adjacent and without padding"
            raise DimsweepError(problem, where=where, code="unsupported")
        self._change(pool=int(window[0]))
