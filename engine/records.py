"""Records of tables: the fields of a row, by name, as NumPy and compiled code know them."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

Table = NDArray[np.void]


def record(**fields: DTypeLike) -> "np.dtype[np.void]":
    """The type of a record with these fields, each where the machine reads it in one go."""
    return np.dtype(list(fields.items()), align=True)


def list_fields(of: "np.dtype[np.void]") -> dict[str, DTypeLike]:
    """The fields of a record, for another one that has them, too."""
    return {name: of[name] for name in of.names or ()}


def new_table(n: int | tuple[int, ...], of: "np.dtype[np.void]", **columns: Any) -> Table:
    """``n`` records of zeros but for some columns."""
    table = np.zeros(n, of)
    for name, column in columns.items():
        table[name] = column
    return table
