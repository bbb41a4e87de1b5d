"""Which file is read how, and the layers that named tensors make.

A layer is a tensor ``NAME.weight`` and, if it has one, ``NAME.bias``, in the order of the file.
What a weight does not say comes in scalars ``NAME.activation`` (text), ``NAME.stride``,
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
# Types of values that NumPy has not, and their bits.
_FLOATS: Mapping[str, tuple[str, Callable[[NDArray[Any]], NDArray[Any]]]] = {
    "BF16": ("<u2", from_bfloat16),
    "F8_E4M3": ("u1", partial(from_float8, exponent=4)),
    "F8_E5M2": ("u1", partial(from_float8, exponent=5)),
}
_SETTINGS = ("stride", "padding", "pool")


def read_network(
    path: Path | str, *, input_shape: Sequence[int] | None = None, activation: str = "relu"
) -> TrainedNetwork:
    """The network in a ``.npz``, ``.safetensors``, ``.pt``/``.pth`` (a PyTorch state dict) or
    ``.onnx`` file.

    ``input_shape`` is (features,) or (channels, height, width), which a convolution needs; else it
    is what the first layer takes.  ``activation`` is that of all layers but the last, where the
    file does not say another.  Raises :class:`DimsweepError` naming the file and the tensor, and
    for a package that would read it and is not installed.
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
        raise DimsweepError(f"{path.suffix!r} is no kind of weights", hint=f"known: {known}")
    try:
        return _READERS[path.suffix](path)
    except OSError as error:
        raise DimsweepError(f"cannot be read: {error.strerror or error}") from error


def _npz(path: Path) -> Tensors:
    with opened(path, "npz file of plain arrays") as archive:
        return {name.removesuffix(".npy"): _array(archive, name) for name in archive.namelist()}


def _array(archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    """An array, of which there are no more bytes than its header says, and no fewer."""
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
        "the package safetensors is not installed", hint="pip install safetensors"
    )
    with needing("safetensors", missing):
        import safetensors
    check_size(path.stat().st_size)
    try:
        found: Any = safetensors.deserialize(path.read_bytes())  # type: ignore[no-untyped-call]
    except safetensors.SafetensorError as error:
        raise DimsweepError(f"these tensors cannot be read: {error}") from error
    tensors = {}
    for name, tensor in found:
        kind = tensor["dtype"]
        dtype, values = _FLOATS.get(kind, (_SAFETENSORS.get(kind), np.asarray))
        if dtype is None:
            hint = f"save them as one of {', '.join([*_SAFETENSORS, *_FLOATS])}"
            raise DimsweepError(f"values of type {kind} are no weights", where=name, hint=hint)
        tensors[name] = values(np.frombuffer(tensor["data"], dtype)).reshape(tensor["shape"])
    # The format keeps no order of its own.
    return dict(sorted(tensors.items(), key=lambda entry: _natural(entry[0])))


_READERS: Mapping[str, Callable[[Path], Tensors]] = {
    ".npz": _npz,
    ".safetensors": _safetensors,
    ".pt": read_state_dict,
    ".pth": read_state_dict,
}


def _natural(name: str) -> list[tuple[int, str]]:
    """A key that puts layer10 behind layer9."""
    parts = re.split(r"(\d+)", name)
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts]


def _layers(tensors: Tensors, activation: str) -> list[TrainedLayer]:
    names = [name.removesuffix(".weight") for name in tensors if name.endswith(".weight")]
    known = {f"{n}.{what}" for n in names for what in ("weight", "bias", "activation", *_SETTINGS)}
    strange = next((name for name in tensors if name not in known and "." in name), None)
    if strange is not None:
        raise DimsweepError(
            "this tensor is no weight or bias of a dense or convolutional layer",
            where=strange,
            hint="fold normalisations into the layers before them, and leave the rest out",
        )
    if not names:
        some = ", ".join(list(tensors)[:4]) or "nothing"
        raise DimsweepError(f"no NAME.weight is here, but {some}")
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
                    key: _whole(tensors, f"{name}.{key}")
                    for key in _SETTINGS
                    if f"{name}.{key}" in tensors
                },
            )
        )
    return layers


def _numbers(name: str, tensor: NDArray[Any]) -> Values:
    if tensor.dtype.kind not in "fiu":
        raise DimsweepError(f"values of type {tensor.dtype} are no weights", where=name)
    with np.errstate(invalid="ignore"):  # a NaN of any kind is refused by the layer
        return tensor.astype(np.float64)


def _samples(name: str, tensor: NDArray[Any]) -> Values:
    values = _numbers(name, tensor)
    if not (np.abs(values) <= LARGEST).all():
        what = "a sample has a value that is not finite, or too large"
        raise DimsweepError(what, where=name, hint=f"at most {LARGEST:g}")
    return values


def _whole(tensors: Tensors, name: str) -> int:
    tensor = tensors[name]
    if tensor.size != 1 or tensor.dtype.kind not in "iu":
        raise DimsweepError("it must be one whole number", where=name)
    return int(tensor.reshape(()))


def _taken_by(layers: Sequence[TrainedLayer]) -> tuple[int, ...]:
    first = layers[0]
    if first.is_convolution:
        what = "the file does not say how large the images are"
        raise DimsweepError(what, where=first.name, hint="give the input's shape, such as 1x8x8")
    return (first.weight.shape[1],)


def write_network(path: Path | str, network: TrainedNetwork, **arrays: NDArray[Any]) -> None:
    """Write what :func:`read_network` reads from a ``.npz`` file, and ``arrays`` beside it, whose
    names have no dot.  Raises :class:`DimsweepError` if it cannot be written."""
    tensors: dict[str, Any] = dict(arrays)
    for layer in network.layers:
        for key in ("weight", "bias", "activation", *_SETTINGS):
            tensors[f"{layer.name}.{key}"] = getattr(layer, key)
    with accessing(path, "the weights cannot be written"):
        np.savez_compressed(path, **tensors)


class Samples(NamedTuple):
    """``inputs`` (N, ...) and ``labels`` (N,) of samples to tell the accuracy by, and
    ``calibration``, inputs of other ones, if there are any."""

    inputs: Values
    labels: NDArray[np.int64]
    calibration: Values | None


def read_samples(path: Path | str) -> Samples:
    """The samples in a ``.npz`` file.

    Raises :class:`DimsweepError` naming the file and the array.
    """
    path = Path(path)
    with naming_place(path):
        arrays = _tensors(path) if path.suffix == ".npz" else {}
        missing = [name for name in ("inputs", "labels") if name not in arrays]
        if missing:
            what = f"samples are an npz file with inputs and labels; there is no {missing[0]!r}"
            raise DimsweepError(what)
        inputs, labels = _samples("inputs", arrays["inputs"]), arrays["labels"]
        if labels.shape != (len(inputs),) or labels.dtype.kind not in "iu" or not len(labels):
            what = f"{len(inputs)} inputs need as many whole numbers, not {labels.shape}"
            raise DimsweepError(what, where="labels")
        more = arrays.get("calibration")
        return Samples(
            inputs, labels.astype(np.int64), None if more is None else _samples("calibration", more)
        )
