"""Reader of PyTorch's state dicts without PyTorch: a zip of a pickle and the tensors' bytes.

The pickle may only name the functions that make tensors of these bytes, so reading runs no code.
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
    """Return the tensors of a state dict by name, in their order.

    Raises :class:`DimsweepError` for any other file.
    """
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
    return DimsweepError(
        "the file contains other objects than tensors by name", hint=_HINT, code="unsupported"
    )


def _check_order(order: bytes) -> None:
    if order != b"little":
        raise DimsweepError(
            f"the byte order is {order!r}; only little-endian is supported", code="unsupported"
        )


class _Storage(NamedTuple):
    """A pickled reference to a tensor's bytes: ("storage", type, key, device, count)."""

    fields: Any


class _View(NamedTuple):
    """A pickled description of a tensor: storage, offset, size, strides, and unused fields."""

    fields: tuple[Any, ...]


def _tensor(view: object, archive: zipfile.ZipFile, folder: str) -> NDArray[Any]:
    """Return a tensor as torch._utils._rebuild_tensor_v2 does; strides count values, not bytes."""
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
        raise DimsweepError(
            f"the storage {key} of type {kind} is missing or unsupported",
            hint=_HINT,
            code="missing",
        )
    data = archive.read(name)
    storage = np.frombuffer(data[: len(data) // dtype.itemsize * dtype.itemsize], dtype)[:count]
    reach = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True)) + 1
    if min((*size, *stride, offset, 1)) < 0 or (0 not in size and reach > len(storage)):
        raise DimsweepError("a tensor is longer than its bytes", code="damaged")
    if len(size) > _MOST_DIMENSIONS:
        raise DimsweepError(
            f"a tensor has {len(size)} dimensions; the limit is {_MOST_DIMENSIONS}",
            code="unsupported",
        )
    check_size(math.prod(size) * dtype.itemsize)
    if 0 in size:
        return np.zeros(size, dtype)
    steps = [step * dtype.itemsize for step in stride]
    values = np.lib.stride_tricks.as_strided(storage[offset:], size, steps, writeable=False).copy()
    if dtype is _BFLOAT:
        return from_bfloat16(values)
    return values


def _unpickled(data: bytes) -> object:
    """Return the content of a pickle, with unchecked descriptions of storages and tensors.

    All errors raised here are thus faults of the pickle itself.
    """
    reader = _Unpickler(io.BytesIO(data))
    try:
        for operation, argument, _ in pickletools.genops(data):
            if operation.name in _REMEMBERS and int(argument or 0) > len(data):
                # Its table of remembered objects would be this long.
                raise pickle.UnpicklingError("a memo index exceeds the pickle's size")
        return reader.load()
    except DimsweepError:
        raise
    except Exception as error:  # a damaged pickle may raise any exception
        problem = f"it is not a PyTorch state dict: {error or type(error).__name__}"
        raise DimsweepError(problem, hint=_HINT, code="bad-syntax") from error


class _Unpickler(pickle.Unpickler):
    """Unpickler that accepts storages, tensors and ordered dictionaries only."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if module == "torch" and name in _STORAGES:
            return name
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return lambda *said: _View(said)
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return lambda tensor, *_: tensor
        raise DimsweepError(
            f"the file contains {module}.{name}; only tensors are supported",
            hint=_HINT,
            code="unsupported",
        )

    def persistent_load(self, pid: Any) -> _Storage:
        return _Storage(pid)
