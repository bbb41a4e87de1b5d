"""Parsing the values of a configuration, with errors that name the key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any, TypeVar

from engine import DimsweepError, units

_E = TypeVar("_E", bound=Enum)
_T = TypeVar("_T")


@contextmanager
def key(name: str) -> Iterator[None]:
    """Errors from within get ``name`` put in front of their place."""
    try:
        yield
    except DimsweepError as error:
        raise error.at(name) from error.__cause__


def one_per_dim(value: Any, n: int, parse: Callable[[Any], _T]) -> list[_T]:
    """``value`` (one, or a list with one for each of ``n`` dimensions), each parsed."""
    if not isinstance(value, (list, tuple)):
        return [parse(value)] * n
    if len(value) != n:
        raise DimsweepError(f"{len(value)} values for {n} dimensions")
    parsed = []
    for i, item in enumerate(value):
        with key(f"[{i}]"):
            parsed.append(parse(item))
    return parsed


def bandwidth(value: Any) -> float:
    """Bytes per second."""
    return units.parse(value, units.BANDWIDTH)


def choice(value: Any, kind: type[_E]) -> _E:
    """The member of ``kind`` called ``value``."""
    try:
        return kind(value)
    except ValueError:
        raise DimsweepError(f"{value!r} is none of {', '.join(map(str, kind))}") from None


def optional(value: Any, unit: units.Unit) -> float | None:
    """A quantity, or ``None``."""
    return None if value is None else units.parse(value, unit)
