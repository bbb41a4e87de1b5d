"""Keys of rows as numbers: 32 hexadecimal digits as two halves, which sort and compare fast."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Halves = NDArray[np.uint64]  # (N, 2)

_DIGITS = 32


def from_texts(keys: Sequence[str]) -> Halves:
    """The halves of keys."""
    return _from_digits("".join(keys))


def from_column(keys: pa.ChunkedArray) -> Halves:
    """The halves of a column of keys."""
    chunks = keys.cast(pa.binary(_DIGITS)).chunks
    return _from_digits(
        b"".join(
            chunk.buffers()[1].slice(_DIGITS * chunk.offset, _DIGITS * len(chunk)).to_pybytes()
            for chunk in chunks
        ).decode()
    )


def in_cells(halves: Halves, cells: NDArray[np.integer[Any]]) -> Halves:
    """What tells rows apart: their keys and cells (N,), of which several may have a row of one
    key."""
    mixed = halves.copy()
    mixed[:, 0] ^= cells.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return mixed


def differ(identity: NDArray[np.uint64]) -> bool:
    """Whether no two rows of ``identity`` (N, C) are equal, as far as its first column tells."""
    ordered = np.sort(identity[:, 0])
    return not (ordered[1:] == ordered[:-1]).any()


def _from_digits(digits: str) -> Halves:
    halves = np.frombuffer(bytes.fromhex(digits), dtype=">u8").reshape(-1, 2)
    return halves.astype(np.uint64)
