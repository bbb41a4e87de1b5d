"""PyTorch's state dicts, read without PyTorch: a zip of a pickle and of the tensors' bytes.

The pickle may name nothing but what makes tensors of these bytes, so that reading one runs no code.
"""

import math
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import DimsweepError
from engine.formats.weights.size import check_archive, check_size

_BFLOAT = np.dtype("<u2")  # NumPy has no bfloat16: the upper half of a float32
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
_HINT = "write it with torch.save(model.state_dict(), FILE)"


def read_state_dict(path: Path) -> dict[str, NDArray[Any]]:
    """The tensors by name, in their order.  Raises :class:`DimsweepError` for any other file."""
    try:
        with zipfile.ZipFile(path) as archive:
            check_archive(archive)
            (name,) = (each for each in archive.namelist() if each.endswith("/data.pkl"))
            folder = name.removesuffix("data.pkl")
            if f"{folder}byteorder" in archive.namelist():
                _check_order(archive.read(f"{folder}byteorder"))
            with archive.open(name) as file:
                found = _Unpickler(file, archive, folder).load()
    except OSError:
        raise
    except DimsweepError:
        raise
    except Exception as error:  # a damaged pickle can fail in any way
        what = f"this is no PyTorch state dict: {error or type(error).__name__}"
        raise DimsweepError(what, hint=_HINT) from error
    if not isinstance(found, dict) or not all(isinstance(v, np.ndarray) for v in found.values()):
        what = "the file holds something else than tensors by name"
        raise DimsweepError(what, hint=_HINT)
    return {str(key): value for key, value in found.items()}


def _check_order(order: bytes) -> None:
    if order != b"little":
        raise DimsweepError(f"its bytes are in {order!r} order, not little-endian")


def _tensor(
    storage: NDArray[Any], offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: Any
) -> NDArray[Any]:
    """torch._utils._rebuild_tensor_v2; strides count values."""
    reach = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True)) + 1
    if min((*size, *stride, offset, 1)) < 0 or (0 not in size and reach > len(storage)):
        raise DimsweepError("a tensor reaches beyond its bytes")
    if 0 in size:
        return np.zeros(size, storage.dtype)
    check_size(math.prod(size) * storage.itemsize)
    steps = [step * storage.itemsize for step in stride]
    return np.lib.stride_tricks.as_strided(storage[offset:], size, steps, writeable=False).copy()


class _Unpickler(pickle.Unpickler):
    """Knows storages, tensors and ordered dictionaries, and nothing else."""

    def __init__(self, file: Any, archive: zipfile.ZipFile, folder: str) -> None:
        super().__init__(file)
        self._archive, self._folder = archive, folder

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if module == "torch" and name in _STORAGES:
            return name
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _tensor
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return lambda tensor, *_: tensor
        raise DimsweepError(f"the file holds {module}.{name}, and not only tensors", hint=_HINT)

    def persistent_load(self, pid: Any) -> NDArray[Any]:
        _, kind, key, _, count = pid
        dtype = _STORAGES[kind]
        data = np.frombuffer(self._archive.read(f"{self._folder}data/{key}"), dtype)[:count]
        if dtype is _BFLOAT:
            return (data.astype(np.uint32) << 16).view(np.float32)
        return data
