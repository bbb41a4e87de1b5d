"""PyTorch's state dicts, read without PyTorch: a zip of a pickle and of the tensors' bytes.

The pickle may name nothing but what makes tensors of these bytes, so that reading one runs no code.
"""

import io
import math
import pickle
import pickletools
import zipfile
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.formats.weights.archive import check_size, from_bfloat16, opened

_BFLOAT = np.dtype("<u2")  # NumPy has no bfloat16
_STORAGES: Mapping[str, np.dtype[Any]] = {
    "FloatStorage": np.dtype("<f4"),
    "DoubleStorage": np.dtype("<f8"),
    "HalfStorage": np.dtype("<f2"),
    "BFloat16Storage": _BFLOAT,
    "LongStorage": np.dtype("<i8"),
    "IntStorage": np.dtype("<i4"),
    "ShortStorage": np.dtype("<i2"),
    "CharStorage": np.dtype("i1"),
    "ByteStorage": np.dtype("u1"),
    "BoolStorage": np.dtype("?"),
}
_MOST_DIMENSIONS = 32  # of an array of any NumPy
_REMEMBERS = ("PUT", "BINPUT", "LONG_BINPUT")
_HINT = "write it with torch.save(model.state_dict(), FILE)"


def read_state_dict(path: Path) -> dict[str, NDArray[Any]]:
    """The tensors by name, in their order.  Raises :class:`DimsweepError` for any other file."""
    with opened(path, "PyTorch state dict", _HINT) as archive:
        names = [name for name in archive.namelist() if name.endswith("/data.pkl")]
        if len(names) != 1:
            raise _no_tensors()
        folder = names[0].removesuffix("data.pkl")
        if f"{folder}byteorder" in archive.namelist():
            _check_order(archive.read(f"{folder}byteorder"))
        found = _unpickled(archive.read(names[0]))
        if not isinstance(found, dict):
            raise _no_tensors()
        return {str(key): _tensor(value, archive, folder) for key, value in found.items()}


def _no_tensors() -> DimsweepError:
    return DimsweepError("the file holds something else than tensors by name", hint=_HINT)


def _check_order(order: bytes) -> None:
    if order != b"little":
        raise DimsweepError(f"its bytes are in {order!r} order, not little-endian")


class _Storage(NamedTuple):
    """What the pickle says of a tensor's bytes: ("storage", type, key, device, count)."""

    said: Any


class _View(NamedTuple):
    """What it says of a tensor: its storage, offset, size, strides, and what does not matter."""

    said: tuple[Any, ...]


def _tensor(view: object, archive: zipfile.ZipFile, folder: str) -> NDArray[Any]:
    """torch._utils._rebuild_tensor_v2; strides count values."""
    match view:
        case _View((_Storage((_, str(kind), str(key), _, int(count))), offset, size, stride, *_)):
            pass
        case _:
            raise _no_tensors()
    if not isinstance(size, tuple) or not isinstance(stride, tuple) or len(size) != len(stride):
        raise _no_tensors()
    if not all(isinstance(number, int) for number in (offset, *size, *stride)):
        raise _no_tensors()
    dtype, name = _STORAGES.get(kind), f"{folder}data/{key}"
    if dtype is None or name not in archive.namelist():
        raise DimsweepError(f"there is no {kind} {key}", hint=_HINT)
    data = archive.read(name)
    storage = np.frombuffer(data[: len(data) // dtype.itemsize * dtype.itemsize], dtype)[:count]
    reach = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True)) + 1
    if min((*size, *stride, offset, 1)) < 0 or (0 not in size and reach > len(storage)):
        raise DimsweepError("a tensor reaches beyond its bytes")
    if len(size) > _MOST_DIMENSIONS:
        raise DimsweepError(f"a tensor has {len(size)} dimensions")
    check_size(math.prod(size) * dtype.itemsize)
    if 0 in size:
        return np.zeros(size, dtype)
    steps = [step * dtype.itemsize for step in stride]
    values = np.lib.stride_tricks.as_strided(storage[offset:], size, steps, writeable=False).copy()
    if dtype is _BFLOAT:
        return from_bfloat16(values)
    return values


def _unpickled(data: bytes) -> object:
    """What the pickle holds: storages and tensors as what it says of them, which no code looks at
    yet, so that all that can fail here is the pickle."""
    reader = _Unpickler(io.BytesIO(data))
    try:
        for operation, argument, _ in pickletools.genops(data):
            if operation.name in _REMEMBERS and int(argument or 0) > len(data):
                raise pickle.UnpicklingError(
                    "it remembers more than it holds"
                )  # in a table so long
        return reader.load()
    except DimsweepError:
        raise
    except Exception as error:  # pickle says that any may come of a damaged one
        what = f"this is no PyTorch state dict: {error or type(error).__name__}"
        raise DimsweepError(what, hint=_HINT) from error


class _Unpickler(pickle.Unpickler):
    """Knows storages, tensors and ordered dictionaries, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if module == "torch" and name in _STORAGES:
            return name
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return lambda *said: _View(said)
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return lambda tensor, *_: tensor
        raise DimsweepError(f"the file holds {module}.{name}, and not only tensors", hint=_HINT)

    def persistent_load(self, pid: Any) -> _Storage:
        return _Storage(pid)
