"""Record types and tables with named fields, shared by NumPy and compiled code."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

Table = NDArray[np.void]


def record(**fields: DTypeLike) -> "np.dtype[np.void]":
    """Return a NumPy record type with the given fields, aligned as a C struct."""
    return np.dtype(list(fields.items()), align=True)


def list_fields(of: "np.dtype[np.void]") -> dict[str, DTypeLike]:
    """Return the names and types of the fields of record type ``of``, to define a longer record."""
    return {name: of[name] for name in of.names or ()}


def new_table(n: int | tuple[int, ...], of: "np.dtype[np.void]", **columns: Any) -> Table:
    """Return an array of ``n`` records of type ``of``: zeros, except for the given columns."""
    table = np.zeros(n, of)
    for name, column in columns.items():
        table[name] = column
    return table
