"""What the processor does in one instruction, for compiled code."""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

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


def _lowest(_typing: Any, word: types.Integer) -> tuple[Any, _Generate]:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(1))

    return types.int64(types.uint64), generate


#: Fetch a row of a table into the cache, while other things are done.
prefetch: Callable[..., None] = intrinsic(_prefetch)
#: The position of the lowest bit that is set in an unsigned word of 64 bits, which is not 0.
lowest: Callable[..., int] = intrinsic(_lowest)
