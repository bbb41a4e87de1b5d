"""Read and write files of weights, and build layers from named tensors.

A layer is a tensor ``NAME.weight`` and, if it has one, ``NAME.bias``, in the order of the file.
Other properties of a layer are scalars ``NAME.activation`` (text), ``NAME.stride``,
``NAME.padding`` and ``NAME.pool``, or as defaults.
"""

import math
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.errors import DimsweepError, accessing, naming_place, needing
from dimsweep.engine.formats.weights.archive import (
    check_size,
    from_bfloat16,
    from_float8,
    opened,
)
from dimsweep.engine.formats.weights.onnx_graph import read_onnx
from dimsweep.engine.formats.weights.state_dict import read_state_dict
from dimsweep.engine.workload.trained import LARGEST, TrainedLayer, TrainedNetwork, Values

Tensors = Mapping[str, NDArray[Any]]
_SAFETENSORS = {  # types of values by their names there, little-endian
    **{f"F{8 * n}": np.dtype(f"<f{n}") for n in (2, 4, 8)},
    **{f"I{8 * n}": np.dtype(f"<i{n}") for n in (1, 2, 4, 8)},
    **{f"U{8 * n}": np.dtype(f"<u{n}") for n in (1, 2, 4, 8)},
}
# Types of values that NumPy lacks, and the type of their bits.
_FLOATS: Mapping[str, tuple[str, Callable[[NDArray[Any]], NDArray[Any]]]] = {
    "BF16": ("<u2", from_bfloat16),
    "F8_E4M3": ("u1", partial(from_float8, exponent=4)),
    "F8_E5M2": ("u1", partial(from_float8, exponent=5)),
}
_SETTINGS = ("stride", "padding", "pool")


def read_network(
    path: Path | str, *, input_shape: Sequence[int] | None = None, activation: str = "relu"
) -> TrainedNetwork:
    """Return the network in a file of weights.

    Parameters
    ----------
    path
        A ``.npz``, ``.safetensors``, ``.pt`` or ``.pth`` (PyTorch state dict), or ``.onnx`` file.
    input_shape
        (features,) or (channels, height, width); by default the input of a first dense layer.
    activation
        The activation of all layers but the last, unless the file states another.

    Raises
    ------
    DimsweepError
        Naming the file and the tensor, or the package that must be installed to read it.
    """
    path = Path(path)
    with naming_place(path):
        if path.suffix == ".onnx":
            layers, shape = read_onnx(path)
        else:
            layers, shape = _layers(_tensors(path), activation), None
        given = tuple(input_shape) if input_shape else shape or _taken_by(layers)
        return TrainedNetwork(tuple(layers), given, path.stem)


def _tensors(path: Path) -> Tensors:
    if path.suffix not in _READERS:
        known = ", ".join([*_READERS, ".onnx"])
        raise DimsweepError(
            f"unknown type of file {path.suffix!r}", hint=f"known: {known}", code="unsupported"
        )
    try:
        return _READERS[path.suffix](path)
    except OSError as error:
        raise DimsweepError(
            f"cannot be read: {error.strerror or error}", code="inaccessible"
        ) from error


def _npz(path: Path) -> Tensors:
    with opened(path, "npz file of plain arrays") as archive:
        return {name.removesuffix(".npy"): _array(archive, name) for name in archive.namelist()}


def _array(archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    """Return array ``name`` of an archive; raise unless it has the bytes that its header states."""
    with archive.open(name) as file:
        version = np.lib.format.read_magic(file)
        headers = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }
        if version not in headers:
            raise ValueError(f"{name} is of version {version}")
        shape, _, dtype = headers[version](file)
        check_size(math.prod(shape) * dtype.itemsize, name.removesuffix(".npy"))
    with archive.open(name) as file:
        return np.asarray(np.lib.format.read_array(file, allow_pickle=False))


def _safetensors(path: Path) -> Tensors:
    missing = DimsweepError(
        "the package safetensors is not installed",
        hint="pip install safetensors",
        code="inaccessible",
    )
    with needing("safetensors", missing):
        import safetensors
    check_size(path.stat().st_size)
    try:
        found: Any = safetensors.deserialize(path.read_bytes())  # type: ignore[no-untyped-call]
    except safetensors.SafetensorError as error:
        raise DimsweepError(f"invalid safetensors file: {error}", code="bad-syntax") from error
    tensors = {}
    for name, tensor in found:
        kind = tensor["dtype"]
        dtype, values = _FLOATS.get(kind, (_SAFETENSORS.get(kind), np.asarray))
        if dtype is None:
            hint = f"save them as one of {', '.join([*_SAFETENSORS, *_FLOATS])}"
            raise DimsweepError(
                f"values of type {kind} cannot be weights", where=name, hint=hint, code="wrong-type"
            )
        tensors[name] = values(np.frombuffer(tensor["data"], dtype)).reshape(tensor["shape"])
    # The format does not keep an order.
    return dict(sorted(tensors.items(), key=lambda entry: _natural(entry[0])))


_READERS: Mapping[str, Callable[[Path], Tensors]] = {
    ".npz": _npz,
    ".safetensors": _safetensors,
    ".pt": read_state_dict,
    ".pth": read_state_dict,
}


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a sort key by which layer10 comes after layer9."""
    parts = re.split(r"(\d+)", name)
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts]


def _layers(tensors: Tensors, activation: str) -> list[TrainedLayer]:
    names = [name.removesuffix(".weight") for name in tensors if name.endswith(".weight")]
    known = {f"{n}.{key}" for n in names for key in ("weight", "bias", "activation", *_SETTINGS)}
    strange = next((name for name in tensors if name not in known and "." in name), None)
    if strange is not None:
        raise DimsweepError(
            "the tensor is not a weight or bias of a dense or convolutional layer",
            where=strange,
            hint="fold normalisations into the layers before them, and remove other tensors",
            code="unsupported",
        )
    if not names:
        names_found = ", ".join(list(tensors)[:4]) or "no tensor"
        raise DimsweepError(
            f"the file has no tensor NAME.weight, only {names_found}", code="missing"
        )
    layers = []
    for name in names:
        default = activation if name != names[-1] else "identity"
        weight = _numbers(f"{name}.weight", tensors[f"{name}.weight"])
        given = tensors.get(f"{name}.bias", np.zeros(weight.shape[:1]))
        layers.append(
            TrainedLayer(
                name,
                weight,
                _numbers(f"{name}.bias", given),
                str(tensors.get(f"{name}.activation", default)),
                **{
                    key: _integer(tensors, f"{name}.{key}")
                    for key in _SETTINGS
                    if f"{name}.{key}" in tensors
                },
            )
        )
    return layers


def _numbers(name: str, tensor: NDArray[Any]) -> Values:
    if tensor.dtype.kind not in "fiu":
        raise DimsweepError(
            f"values of type {tensor.dtype} cannot be weights", where=name, code="wrong-type"
        )
    with np.errstate(invalid="ignore"):  # a NaN of any kind is refused by the layer
        return tensor.astype(np.float64)


def _samples(name: str, tensor: NDArray[Any]) -> Values:
    values = _numbers(name, tensor)
    if not (np.abs(values) <= LARGEST).all():
        problem = "a sample has a value that is not finite, or too large"
        raise DimsweepError(
            problem, where=name, hint=f"values may be at most {LARGEST:g}", code="out-of-range"
        )
    return values


def _integer(tensors: Tensors, name: str) -> int:
    tensor = tensors[name]
    if tensor.size != 1 or tensor.dtype.kind not in "iu":
        raise DimsweepError("the array must be one whole number", where=name, code="wrong-type")
    return int(tensor.reshape(()))


def _taken_by(layers: Sequence[TrainedLayer]) -> tuple[int, ...]:
    first = layers[0]
    if first.is_convolution:
        problem = "the file does not contain the size of the images"
        raise DimsweepError(
            problem, where=first.name, hint="give the input's shape, such as 1x8x8", code="missing"
        )
    return (first.weight.shape[1],)


def write_network(path: Path | str, network: TrainedNetwork, **arrays: NDArray[Any]) -> None:
    """Write a network as a ``.npz`` file for :func:`read_network`, with additional ``arrays``.

    The names of ``arrays`` have no dot.  Raises :class:`DimsweepError` if the file cannot be
    written.
    """
    tensors: dict[str, Any] = dict(arrays)
    for layer in network.layers:
        for key in ("weight", "bias", "activation", *_SETTINGS):
            tensors[f"{layer.name}.{key}"] = getattr(layer, key)
    with accessing(path, "the weights cannot be written"):
        np.savez_compressed(path, **tensors)


class Samples(NamedTuple):
    """Inputs and labels by which a network's accuracy is measured."""

    inputs: Values  # (N, ...)
    labels: NDArray[np.int64]  # (N,)
    calibration: Values | None  # inputs of other samples, if any


def read_samples(path: Path | str) -> Samples:
    """Return the samples in a ``.npz`` file.

    Raises :class:`DimsweepError` naming the file and the array.
    """
    path = Path(path)
    with naming_place(path):
        arrays = _tensors(path) if path.suffix == ".npz" else {}
        missing = [name for name in ("inputs", "labels") if name not in arrays]
        if missing:
            problem = (
                f"the array {missing[0]!r} is missing; samples are a .npz file of inputs and labels"
            )
            raise DimsweepError(problem, code="missing")
        inputs, labels = _samples("inputs", arrays["inputs"]), arrays["labels"]
        if labels.shape != (len(inputs),) or labels.dtype.kind not in "iu" or not len(labels):
            problem = (
                f"{len(inputs)} inputs need {len(inputs)} whole numbers, not shape {labels.shape}"
            )
            raise DimsweepError(problem, where="labels", code="mismatch")
        more = arrays.get("calibration")
        return Samples(
            inputs, labels.astype(np.int64), None if more is None else _samples("calibration", more)
        )
