"""Extensions of Numba for the kernels.

Each changes only how kernels are compiled: arrays without negative indices, state passed by
reference, functions compiled only for states that need them, and single CPU instructions.
``engine/kernels/README.md`` explains when to use which.
"""

import hashlib
import operator
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from llvmlite import ir
from numba import config
from numba.core import cgutils, types
from numba.core.datamodel import default_manager
from numba.core.datamodel.models import ArrayModel, PrimitiveModel
from numba.core.imputils import impl_ret_borrowed
from numba.core.types.containers import BaseNamedTuple, BaseTuple, UniTuple
from numba.core.typing import signature
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    infer_getattr,
    intrinsic,
    lower_builtin,
    lower_getattr_generic,
    overload,
    register_model,
    type_callable,
)


class FrontIndexedArray(types.Array):
    """An array type without negative indices; a view of it is an ordinary array."""


register_model(FrontIndexedArray)(ArrayModel)


def index_from_front(array: Any) -> FrontIndexedArray:
    """Return the type of ``array`` without negative indices."""
    readonly = not array.mutable
    return FrontIndexedArray(array.dtype, array.ndim, array.layout, readonly, aligned=array.aligned)


@lower_builtin(operator.getitem, FrontIndexedArray, types.Integer)  # type: ignore[untyped-decorator]
def _get_item(context: Any, builder: Any, of: Any, arguments: Any) -> Any:
    from numba.np import arrayobj  # few that import the engine compile

    kinds, values = _cast_indices(context, builder, of, arguments)
    return arrayobj.getitem_arraynd_intp(context, builder, kinds, values)


@lower_builtin(operator.getitem, FrontIndexedArray, BaseTuple)  # type: ignore[untyped-decorator]
def _get_items(context: Any, builder: Any, of: Any, arguments: Any) -> Any:
    from numba.np import arrayobj  # as above

    kinds, values = _cast_indices(context, builder, of, arguments)
    return arrayobj.getitem_array_tuple(context, builder, kinds, values)


@lower_builtin(operator.setitem, FrontIndexedArray, types.Any, types.Any)  # type: ignore[untyped-decorator]
def _set_item(context: Any, builder: Any, of: Any, arguments: Any) -> Any:
    from numba.np import arrayobj  # as above

    kinds, values = _cast_indices(context, builder, of, arguments)
    return arrayobj.setitem_array(context, builder, kinds, values)


def _cast_indices(context: Any, builder: Any, of: Any, arguments: Any) -> tuple[Any, Any]:
    """Cast the indices of an access to unsigned integers, which Numba uses unchecked."""
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


_State = TypeVar("_State")


class Reference(types.Type):
    """The Numba type of a pointer to a constant named tuple of type ``to``."""

    def __init__(self, to: Any) -> None:
        self.to = to
        digest = hashlib.blake2b(str(to).encode(), digest_size=4).hexdigest()
        super().__init__(f"{to.instance_class.__name__}_{digest}")  # short: it is part of names

    @property
    def key(self) -> Any:
        """Type of the referenced tuple, by which Numba compares references."""
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
            return index_from_front(field)
        return Reference(field) if isinstance(field, BaseNamedTuple) else field


@lower_getattr_generic(Reference)  # type: ignore[untyped-decorator]
def _get_attribute(
    context: Any, builder: Any, reference: Reference, address: Any, name: str
) -> Any:
    """Compile attribute access: the address of a nested named tuple, else the field's value."""
    index = reference.to.fields.index(name)
    at = cgutils.gep_inbounds(builder, address, 0, index)
    if isinstance(reference.to[index], BaseNamedTuple):
        return at
    held = _load(builder, at, _value_type(reference.to[index]))
    return impl_ret_borrowed(context, builder, reference.to[index], held)


def _load(builder: Any, at: Any, of: Any) -> Any:
    """Load a value from memory word by word, so that LLVM can drop unused words."""
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
    """Pass ``state`` by reference to called kernels; without Numba see :func:`attribute_view`."""
    return attribute_view(state)


class _Row(np.void):  # type: ignore[misc]  # final for type checkers only
    """A record of a table with attribute access to its fields, for runs without compilation."""

    def __getattribute__(self, name: str) -> Any:
        dtype = np.void.__getattribute__(self, "dtype")
        if name not in (dtype.names or ()):
            return np.void.__getattribute__(self, name)
        value: Any = np.void.__getitem__(self, name)
        if isinstance(value, np.void):
            return value.view((_Row, value.dtype))
        return value.item() if isinstance(value, np.generic) else value

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value


def attribute_view(state: _State) -> _State:
    """Return ``state``; if Numba is off (NUMBA_DISABLE_JIT=1), with records as :class:`_Row`."""
    found: Any = state
    if config.DISABLE_JIT and isinstance(found, np.ndarray) and found.dtype.names:
        found = found.view((_Row, found.dtype))
    elif config.DISABLE_JIT and isinstance(found, tuple) and hasattr(found, "_make"):
        found = found._make(map(attribute_view, found))
    readable: _State = found
    return readable


@type_callable(by_reference)  # type: ignore[untyped-decorator]
def _reference_type(context: Any) -> Any:
    return lambda state: Reference(state) if isinstance(state, BaseNamedTuple) else None


@lower_builtin(by_reference, BaseNamedTuple)  # type: ignore[untyped-decorator]
def _address(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Return the address of a copy of the tuple in the frame of the caller (inlined there)."""
    at = cgutils.alloca_once_value(
        builder, _strip_addresses(builder, signature.args[0], arguments[0])
    )
    # LLVM must not see that the state was written here, or it may take what never changes to be
    # what was there before: empty assembly hides where the address comes from.
    kind = ir.FunctionType(at.type, [at.type])
    return builder.asm(kind, "", "=r,0,~{memory}", [at], side_effect=True)


def _strip_addresses(builder: Any, of: Any, value: Any) -> Any:
    """Replace function pointers in ``value`` by null, so that compiled code can be cached.

    The addresses of functions differ from process to process.
    """
    if isinstance(of, types.Dispatcher):
        return ir.Constant(value.type, None)
    if isinstance(of, BaseNamedTuple):
        for i, each in enumerate(of):
            if isinstance(each, (types.Dispatcher, BaseNamedTuple)):
                part = _strip_addresses(builder, each, builder.extract_value(value, i))
                value = builder.insert_value(value, part, i)
    return value


_F = TypeVar("_F", bound=Callable[..., Any])

UNUSED = np.dtype([("unused", "i1")])


def where_used(table: str, otherwise: Any = None) -> Callable[[_F], _F]:
    """Decorate a kernel so that it is compiled only for states whose ``table`` has rows.

    For other states (passed by reference) it does nothing and returns ``otherwise``.
    """

    def decorate(kernel: Any) -> Any:
        # Default arguments are part of the digest of a kernel (engine.fingerprint).
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


_Generate = Callable[..., Any]


def _prefetch(_typing: Any, table: types.Array, row: types.Integer) -> tuple[Any, _Generate]:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        address = builder.bitcast(builder.gep(array.data, [arguments[1]]), byte)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        # To be written, into the nearest cache, of data.
        builder.call(function, [address, number(1), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(table, types.int64), generate


def _long(_typing: Any, number: types.Integer) -> tuple[Any, _Generate]:
    def generate(_context: Any, _builder: Any, _signature: Any, arguments: Any) -> Any:
        return arguments[0]

    return types.int64(types.int64), generate


def _lowest(_typing: Any, word: types.Integer) -> tuple[Any, _Generate]:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(1))

    return types.int64(types.uint64), generate


def _instruction(defined: _Generate, attribute_view: _Generate) -> Any:
    return attribute_view if config.DISABLE_JIT else intrinsic(defined)


#: ``number`` with 64 bits, as a field of 32 bits is not.
long: Callable[[int], int] = _instruction(_long, int)
#: Fetch a row of a table into the cache, while other things are done.
prefetch: Callable[..., None] = _instruction(_prefetch, lambda table, row: None)
#: The position of the lowest bit that is set in an unsigned word of 64 bits, which is not 0.
lowest_bit: Callable[..., int] = _instruction(
    _lowest, lambda word: (int(word) & -int(word)).bit_length() - 1
)
