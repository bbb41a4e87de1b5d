"""A digest of a compiled function: a hash of its code and of the code of all functions it calls.

:mod:`engine.compiler` names cache folders by it.  The digest covers a function's bytecode, its
constants, and the functions and values that it uses by global name.  Comments, docstrings, lines
and paths do not count.  The module names of functions and named tuples count, because stored code
refers to them by name.
"""

import ast
import enum
import hashlib
import importlib.util
import inspect
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, get_type_hints

import numpy as np
from numba import types
from numba.core.dispatcher import Dispatcher
from numba.extending import _Intrinsic

_OURS = __name__.partition(".")[0]


def fingerprint(function: Callable[..., Any]) -> str:
    """Return a digest of the code of ``function`` and of every function and value that it uses.

    Raises :class:`TypeError` for a global whose meaning to compiled code is unknown: different
    values of it could not be distinguished.
    """
    text = hashlib.blake2b(function.__qualname__.encode(), digest_size=8)
    numbers: dict[int, int] = {}
    waiting: list[Any] = []  # no recursion: kernels may call each other in circles

    def describe(it: Any) -> Any:
        if isinstance(it, tuple):
            return type(it).__name__, [describe(each) for each in it]
        if not isinstance(it, (FunctionType, Dispatcher, _Intrinsic)):
            return _value(it)
        if id(it) not in numbers:
            numbers[id(it)] = len(numbers)
            waiting.append(it)
        return "function", numbers[id(it)]

    describe(function)
    text.update(repr(_named_tuples(function)).encode())
    while waiting:
        own, uses = _parts(waiting.pop())
        text.update(repr((own, [(name, describe(it)) for name, it in uses])).encode())
    return text.hexdigest()


@cache
def fingerprint_of_modules(names: tuple[str, ...]) -> str:
    """Return a digest of the syntax of whole modules, without docstrings and comments."""
    text = hashlib.blake2b(digest_size=8)
    for name in names:
        found = importlib.util.find_spec(name)
        assert found is not None and found.origin is not None
        tree = ast.parse(Path(found.origin).read_bytes())
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                node.body = [each for each in node.body if not _is_text(each)]
        text.update(ast.dump(tree).encode())
    return text.hexdigest()


def _is_text(node: ast.stmt) -> bool:
    """Return whether a statement is a bare string, such as a docstring."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _parts(function: Any) -> tuple[Any, list[tuple[str, Any]]]:
    """Return a function's module and bytecode, and the (name, value) pairs that it uses."""
    if isinstance(function, Dispatcher):
        return sorted(function.targetoptions.items()), [("compiled", function.py_func)]
    if isinstance(function, _Intrinsic):
        return "intrinsic", [("defined by", function._defn)]
    code = function.__code__
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    uses = [*zip(code.co_freevars, cells, strict=True), *_globals(code, function.__globals__)]
    uses += [("default", value) for value in function.__defaults__ or ()]
    uses += sorted((function.__kwdefaults__ or {}).items())
    return (function.__module__, _code(code, function.__doc__)), uses


def _named_tuples(it: Any) -> list[Any]:
    """Return the named-tuple types, nested, of a function's parameters or a tuple's fields."""
    if isinstance(it, Dispatcher):
        it = it.py_func
    kinds = [kind for kind in get_type_hints(it).values() if hasattr(kind, "_fields")]
    return [(kind.__module__, kind.__name__, _named_tuples(kind)) for kind in kinds]


def _code(code: CodeType, docstring: str | None = None) -> Any:
    """Return the bytecode, names and constants of ``code``, including inner functions."""
    constants = []
    for each in code.co_consts:
        if isinstance(each, CodeType):
            constants.append(_code(each))
        elif docstring is None or each != docstring:
            constants.append(sorted(map(repr, each)) if isinstance(each, frozenset) else each)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    # Numba takes this flag from what is called while a profiler runs; each function begins with it.
    flags = code.co_flags | inspect.CO_OPTIMIZED
    return code.co_argcount, flags, code.co_code, names, constants


def _globals(code: CodeType, known: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield (name, value) of the globals that ``code`` may use, and attributes of our modules."""
    for name in code.co_names:
        if name not in known:
            continue
        yield name, known[name]
        if isinstance(known[name], ModuleType) and known[name].__name__.split(".")[0] == _OURS:
            own = vars(known[name])
            yield from ((each, own[each]) for each in code.co_names if each in own)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _globals(inner, known)


def _value(it: Any) -> Any:
    """Return a value, other than a function, reduced to plain data that its digest depends on."""
    if isinstance(it, enum.Enum):
        return type(it).__name__, it.value
    if isinstance(it, list):
        return type(it).__name__, [_value(each) for each in it]
    if isinstance(it, (int, float, complex, str, bytes, type(None), np.generic, np.dtype)):
        return type(it).__name__, it
    if isinstance(it, np.ndarray):
        return it.dtype, it.shape, it.tobytes()
    if isinstance(it, type):
        members = [(each.name, each.value) for each in it] if issubclass(it, enum.Enum) else None
        return it.__name__, members, getattr(it, "_fields", None)
    if isinstance(it, (ModuleType, BuiltinFunctionType, np.ufunc)):
        return it.__name__
    if isinstance(it, types.Type):
        return str(it)
    raise TypeError(f"it is not known what {it!r} means to compiled code")
