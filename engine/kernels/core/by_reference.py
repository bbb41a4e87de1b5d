"""A kernel's state handed on by reference.

Numba hands a named tuple of arrays to a function as seven words an array, so that a call of a state
of seventy arrays has five hundred arguments, and every function is compiled with as many.  By
reference it has one: the address of the tuple, in the frame of the function that asked for it.
Attributes read as before; those that are named tuples themselves are references again, and arrays
are indexed from the front.  A compiled function that a tuple holds is part of its type: whoever
calls it by its name there is compiled with it.
"""

import hashlib
from typing import Any, TypeVar

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel import default_manager
from numba.core.datamodel.models import PrimitiveModel
from numba.core.imputils import impl_ret_borrowed
from numba.core.types.containers import BaseNamedTuple
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    infer_getattr,
    lower_builtin,
    lower_getattr_generic,
    register_model,
    type_callable,
)

from dimsweep.engine.kernels.core.from_front import from_front

_State = TypeVar("_State")


class Reference(types.Type):
    """The address of a named tuple of type ``to``, which does not change meanwhile."""

    def __init__(self, to: Any) -> None:
        self.to = to
        digest = hashlib.blake2b(str(to).encode(), digest_size=4).hexdigest()
        super().__init__(f"{to.instance_class.__name__}_{digest}")  # short: it is part of names

    @property
    def key(self) -> Any:
        return self.to


@register_model(Reference)
class _ReferenceModel(PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, reference: Reference) -> None:
        super().__init__(manager, reference, _value_type(reference.to).as_pointer())


def _value_type(of: Any) -> Any:
    return default_manager.lookup(of).get_value_type()


@infer_getattr
class _Attributes(AttributeTemplate):  # type: ignore[misc]
    key = Reference

    def generic_resolve(self, reference: Reference, name: str) -> Any:
        if name not in reference.to.fields:
            return None
        field = reference.to[reference.to.fields.index(name)]
        if isinstance(field, types.Array):
            return from_front(field)
        return Reference(field) if isinstance(field, BaseNamedTuple) else field


@lower_getattr_generic(Reference)  # type: ignore[untyped-decorator]
def _get(context: Any, builder: Any, reference: Reference, address: Any, name: str) -> Any:
    """The attribute's address if it is a named tuple, else what it holds."""
    index = reference.to.fields.index(name)
    at = cgutils.gep_inbounds(builder, address, 0, index)
    if isinstance(reference.to[index], BaseNamedTuple):
        return at
    held = _load(builder, at, _value_type(reference.to[index]))
    return impl_ret_borrowed(context, builder, reference.to[index], held)


def _load(builder: Any, at: Any, of: Any) -> Any:
    """What lies at an address, word by word: LLVM drops the words that are not used."""
    if not isinstance(of, (ir.LiteralStructType, ir.ArrayType)):
        word = builder.load(at)
        # A state's own words never change, whatever its arrays are given.
        word.set_metadata("invariant.load", builder.module.add_metadata([]))
        return word
    parts = of.elements if isinstance(of, ir.LiteralStructType) else [of.element] * of.count
    value = ir.Constant(of, ir.Undefined)
    for i, part in enumerate(parts):
        field = _load(builder, cgutils.gep_inbounds(builder, at, 0, i), part)
        value = builder.insert_value(value, field, i)
    return value


def by_reference(state: _State) -> _State:
    """``state``, for the functions that the caller calls; uncompiled, the state itself."""
    return state


@type_callable(by_reference)  # type: ignore[untyped-decorator]
def _type(context: Any) -> Any:
    return lambda state: Reference(state) if isinstance(state, BaseNamedTuple) else None


@lower_builtin(by_reference, BaseNamedTuple)  # type: ignore[untyped-decorator]
def _address(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """The address of a copy in the caller's frame: this is no function of its own."""
    at = cgutils.alloca_once_value(builder, _nameless(builder, signature.args[0], arguments[0]))
    # LLVM must not see that the state was written here, or it may take what never changes to be
    # what was there before: empty assembly hides where the address comes from.
    kind = ir.FunctionType(at.type, [at.type])
    return builder.asm(kind, "", "=r,0,~{memory}", [at], side_effect=True)


def _nameless(builder: Any, of: Any, value: Any) -> Any:
    """``value`` without the addresses of the functions that it holds: code that has them cannot be
    kept, for they differ from process to process."""
    if isinstance(of, types.Dispatcher):
        return ir.Constant(value.type, None)
    if isinstance(of, BaseNamedTuple):
        for i, each in enumerate(of):
            if isinstance(each, (types.Dispatcher, BaseNamedTuple)):
                part = _nameless(builder, each, builder.extract_value(value, i))
                value = builder.insert_value(value, part, i)
    return value
