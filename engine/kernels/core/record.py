"""Records of tables: the fields of a row, by name, as NumPy and compiled code know them."""

import numpy as np
from numpy.typing import DTypeLike


def record(**fields: DTypeLike) -> "np.dtype[np.void]":
    """The type of a record with these fields, each where the machine reads it in one go."""
    return np.dtype(list(fields.items()), align=True)
