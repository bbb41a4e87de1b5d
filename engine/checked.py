"""Fields of a record that are words or whole numbers: converted, or refused."""

from dataclasses import fields
from enum import Enum
from functools import cache
from operator import index
from types import NoneType
from typing import Any, get_args, get_type_hints

from dimsweep.engine.errors import DimsweepError, suggestion


def convert(record: Any) -> None:
    """Make members of enumerations and integers of the fields of a frozen dataclass that are typed
    so: ``order="themis"`` is the member.

    Raises :class:`DimsweepError` that names the field for a word that is no member, with the one
    that it is most like, and for a number that is not whole.
    """
    for name, (kind, optional) in _converted(type(record)).items():  # type: ignore[arg-type]
        value = getattr(record, name)
        if type(value) is kind or (optional and value is None):
            continue
        known = _member(kind, value, name) if issubclass(kind, Enum) else _whole(value, name)
        object.__setattr__(record, name, known)


@cache
def _converted(record: type) -> dict[str, tuple[type, bool]]:
    """By its name, the type of each such field, and whether it may be None."""
    hints, found = get_type_hints(record), dict[str, tuple[type, bool]]()
    for field in fields(record):
        kinds = get_args(hints[field.name]) or (hints[field.name],)
        own = [kind for kind in kinds if kind is not NoneType]
        of_one_kind = len(own) == 1 and isinstance(own[0], type) and own[0] is not bool
        if of_one_kind and issubclass(own[0], (Enum, int)):
            found[field.name] = own[0], NoneType in kinds
    return found


def _member(kind: type[Enum], value: object, where: str) -> Enum:
    try:
        return kind(value)
    except ValueError:
        hint = suggestion(str(value), map(str, kind))
        raise DimsweepError(f"{value!r} is no {where}", where=where, hint=hint) from None


def _whole(value: Any, where: str) -> int:
    try:
        return index(value)
    except TypeError:
        raise DimsweepError(f"{value!r} is no whole number", where=where) from None
