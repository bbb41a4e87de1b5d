"""Tables (arrays of records): shared constants, allocation, growth, and rows of varying length.

NumPy copies records field by field, which takes ten times as long as copying their bytes.
"""

from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dimsweep.engine.units import MAX_PICOSECONDS

NONE = -1  # no record: the rows of a table count from zero
NEVER = 2**63 - 1  # no time: later than all that a clock counts to
LONGEST = MAX_PICOSECONDS  # what would last longer cannot be simulated

WAITING, QUEUED, RUNNING, DONE = range(4)  # states of an operator


_Number = TypeVar("_Number", bound=np.integer)

LINE = 64  # bytes of a cache line


def zeros(n: int, dtype: DTypeLike, *shape: int) -> Any:
    """Return a table of ``n`` rows of zeros, each of ``shape``, aligned to a cache line."""
    kind = np.dtype(dtype)
    n_bytes = n * kind.itemsize * int(np.prod(shape))
    memory = np.zeros(n_bytes + LINE, np.uint8)
    start = -memory.ctypes.data % LINE
    return memory[start : start + n_bytes].view(kind).reshape(n, *shape)


def view_as_bytes(table: Any) -> NDArray[np.uint8]:
    """Return a view of the table as bytes, shape (rows, bytes per row)."""
    row = table.dtype.itemsize * int(np.prod(table.shape[1:]))
    return table.reshape(-1).view(np.uint8).reshape(len(table), row)


def grow_table(table: Any, n: int) -> Any:
    """Return ``table`` with at least ``n`` rows; it at least doubles, so growth is rare."""
    if n <= len(table):
        return table
    more = zeros(max(n, 2 * len(table)), table.dtype, *table.shape[1:])
    view_as_bytes(more)[: len(table)] = view_as_bytes(table)
    return more


def ragged_positions(lengths: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return, for each item of rows of the given ``lengths``, its row and its index in the row."""
    row = np.repeat(np.arange(len(lengths)), lengths)
    return row, np.arange(len(row)) - (np.cumsum(lengths) - lengths)[row]


def pick(
    values: NDArray[_Number], index: NDArray[np.integer], nothing: int = NONE
) -> NDArray[_Number]:
    """Return ``values`` at each index, and ``nothing`` where the index is NONE."""
    return np.append(values, values.dtype.type(nothing))[index]
