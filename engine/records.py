"""Record types and tables with named fields, shared by NumPy and compiled code."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

Table = NDArray[np.void]


def record(**fields: DTypeLike) -> "np.dtype[np.void]":
    """Return a record type with these fields, aligned for the machine."""
    return np.dtype(list(fields.items()), align=True)


def list_fields(of: "np.dtype[np.void]") -> dict[str, DTypeLike]:
    """Return the fields of a record type, to extend another one."""
    return {name: of[name] for name in of.names or ()}


def new_table(n: int | tuple[int, ...], of: "np.dtype[np.void]", **columns: Any) -> Table:
    """Return ``n`` records of zeros, with some columns filled."""
    table = np.zeros(n, of)
    for name, column in columns.items():
        table[name] = column
    return table
