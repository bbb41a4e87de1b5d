"""Arrays of a kernel's state, which are indexed from the front.

Numba compares every index with zero and adds the length to a negative one: a comparison and a
choice that every read of a table waits for.  A kernel's rows are never negative (it asks first
whether a number stands for none), so the arrays of its state do without.  ``NUMBA_BOUNDSCHECK=1``,
with a ``NUMBA_CACHE_DIR`` of its own, makes an error of every index that is out of bounds.
"""

import operator
from typing import Any

from numba import types
from numba.core.datamodel.models import ArrayModel
from numba.core.types.containers import BaseTuple, UniTuple
from numba.core.typing import signature
from numba.extending import lower_builtin, register_model


class FromFront(types.Array):
    """An array of which no index is negative; a view of it is an array like all others."""


register_model(FromFront)(ArrayModel)


def from_front(array: Any) -> FromFront:
    """The type of the same array, indexed from the front."""
    readonly = not array.mutable
    return FromFront(array.dtype, array.ndim, array.layout, readonly, aligned=array.aligned)


@lower_builtin(operator.getitem, FromFront, types.Integer)  # type: ignore[untyped-decorator]
def _get(context: Any, builder: Any, of: Any, arguments: Any) -> Any:
    from numba.np import arrayobj  # few that import the engine compile

    kinds, values = _unsigned(context, builder, of, arguments)
    return arrayobj.getitem_arraynd_intp(context, builder, kinds, values)


@lower_builtin(operator.getitem, FromFront, BaseTuple)  # type: ignore[untyped-decorator]
def _get_of_many(context: Any, builder: Any, of: Any, arguments: Any) -> Any:
    from numba.np import arrayobj  # as above

    kinds, values = _unsigned(context, builder, of, arguments)
    return arrayobj.getitem_array_tuple(context, builder, kinds, values)


@lower_builtin(operator.setitem, FromFront, types.Any, types.Any)  # type: ignore[untyped-decorator]
def _set(context: Any, builder: Any, of: Any, arguments: Any) -> Any:
    from numba.np import arrayobj  # as above

    kinds, values = _unsigned(context, builder, of, arguments)
    return arrayobj.setitem_array(context, builder, kinds, values)


def _unsigned(context: Any, builder: Any, of: Any, arguments: Any) -> tuple[Any, Any]:
    """The same with unsigned indices: those Numba takes as they are."""
    array, kind, *others = of.args
    if isinstance(kind, types.Integer):
        to = types.uintp
    elif isinstance(kind, BaseTuple) and all(isinstance(i, types.Integer) for i in kind):
        to = UniTuple(types.uintp, len(kind))
    else:
        return of, arguments
    index = context.cast(builder, arguments[1], kind, to)
    kinds = signature(of.return_type, array, to, *others)
    return kinds, (arguments[0], index, *arguments[2:])
