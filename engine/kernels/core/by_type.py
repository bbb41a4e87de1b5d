"""Functions that are compiled only where they are needed, which the type of a state says.

A state has a table of records of a type of their own where a run needs them, and one of UNUSED
where it does not.  There, functions that work on the table are compiled to a constant, and cost
neither time nor compilation.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numba.extending import overload

_F = TypeVar("_F", bound=Callable[..., Any])

UNUSED = np.dtype([("unused", "i1")])


def where_used(table: str, otherwise: Any = None) -> Callable[[_F], _F]:
    """Have a kernel compiled for states, handed on by reference, whose ``table`` is in use; for
    others it does nothing, and returns ``otherwise``."""

    def decorate(kernel: Any) -> Any:
        # What a kernel is made of is told by defaults, too (engine.fingerprint).
        def chosen(
            state: Any, *arguments: Any, kernel: Any = kernel, otherwise: Any = otherwise
        ) -> Any:
            if "unused" in getattr(state, table).dtype.fields:  # uncompiled
                return otherwise
            return kernel(state, *arguments)

        def nothing(state: Any, *arguments: Any) -> Any:
            return otherwise

        @overload(chosen)  # type: ignore[untyped-decorator]
        def _of_type(state: Any, *arguments: Any) -> Any:
            of = state.to[state.to.fields.index(table)]
            return nothing if "unused" in of.dtype.fields else called

        def called(state: Any, *arguments: Any) -> Any:
            return kernel(state, *arguments)

        return chosen

    return decorate
