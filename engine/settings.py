"""Settings: the fields of a frozen dataclass that users set.

A setting is described once, at its field: a type, in ``Annotated`` with a unit of
:mod:`engine.units` and with :class:`Bounds` where it has them; a default; and its meaning, in the
``#:`` lines above it.  :func:`check_settings` checks an object.  The configuration's keys, their
errors, completion and the tables of keys in the documentation are derived from
:func:`list_settings` and :func:`list_meanings`.
"""

import dataclasses
import inspect
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from operator import index
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from dimsweep.engine.errors import DimsweepError, suggest_names
from dimsweep.engine.units import (
    PICOSECONDS,
    TIME,
    Unit,
    format_duration,
    format_quantity,
    format_time,
    has_scale,
)

_LONG = 3600  # seconds, from which on a time is written in hours or days
_FIELD = re.compile(r"    (\w+)\s*:")
_MEANING = re.compile(r"    #: ?(.*)")


@dataclass(frozen=True)
class Bounds:
    """The valid range of a finite number; ``hint`` is the advice for a number outside the range.

    ``at_least`` and ``at_most`` belong to the range, ``above`` and ``below`` do not.
    """

    at_least: float = -math.inf
    at_most: float = math.inf
    above: float = -math.inf
    below: float = math.inf
    hint: str = ""

    def __contains__(self, value: float) -> bool:
        return self.at_least <= value <= self.at_most and self.above < value < self.below

    def words(self, unit: Unit | None = None, *, whole: bool = False) -> str:
        """Return the range in words, in ``unit``; ``whole``: its times are in picoseconds."""
        least, most, above, below = (
            _in_unit(each, unit, whole=whole)
            for each in (self.at_least, self.at_most, self.above, self.below)
        )
        if self.at_least > -math.inf and self.at_most < math.inf:
            return f"from {least} to {most}"
        found = [f"{least} or more"] * (self.at_least > -math.inf)
        found += [f"more than {above}"] * (self.above > -math.inf)
        if self.at_most < math.inf:
            found.append(f"at most {most}" if found else f"{most} or less")
        found += [f"less than {below}"] * (self.below < math.inf)
        return " and ".join(found) or "finite"

    def check(self, value: float, where: str = "", unit: Unit | None = None) -> None:
        """Raise :class:`DimsweepError` naming ``where`` if ``value`` is outside the range."""
        if value in self:
            return
        whole = isinstance(value, int)
        words = self.words(unit, whole=whole)
        words += " and finite" if value == self.at_most == math.inf else ""
        shown = _in_unit(value, unit, whole=whole)
        raise DimsweepError(
            f"{shown}; it must be {words}", where=where, hint=self.hint, code="out-of-range"
        )


def _in_unit(value: float, unit: Unit | None, *, whole: bool) -> str:
    """Format a number with its unit; ``whole``: a time is in picoseconds instead of seconds."""
    if unit is None or not math.isfinite(value):
        return f"{value:.15g}"
    if unit is TIME and whole:
        seconds = value / PICOSECONDS
        return format_time(value) if seconds < _LONG else format_duration(seconds)
    return format_quantity(value, unit) if has_scale(unit) else f"{value:.15g} {unit.base}"


#: Numbers with the bounds that most settings have.
Count = Annotated[int, Bounds(at_least=1)]
Index = Annotated[int, Bounds(at_least=0)]
Share = Annotated[float, Bounds(above=0, at_most=1)]
Probability = Annotated[float, Bounds(at_least=0, at_most=1)]
Positive = Annotated[float, Bounds(above=0)]


class Setting(NamedTuple):
    """One field of a settings dataclass, as users may set it.

    ``type`` excludes ``Annotated`` and None, ``optional`` says whether None is valid, and
    ``default`` is ``MISSING`` if the field must be given.
    """

    name: str
    type: Any
    optional: bool
    unit: Unit | None
    bounds: Bounds | None
    default: Any


@cache
def list_settings(record: type) -> tuple[Setting, ...]:
    """Return the settings of a dataclass in the order of its fields."""
    hints = get_type_hints(record, include_extras=True)
    return tuple(_setting(field, hints[field.name]) for field in dataclasses.fields(record))


def _setting(field: Any, hint: Any) -> Setting:
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    own = [kind for kind in kinds if kind is not NoneType]
    kind: Any = own[0] if len(own) == 1 else Union[tuple(own)]  # noqa: UP007
    marks = getattr(kind, "__metadata__", ())
    default = field.default
    if field.default_factory is not dataclasses.MISSING:
        default = field.default_factory()
    return Setting(
        field.name,
        kind.__origin__ if marks else kind,
        len(own) < len(kinds),
        next((mark for mark in marks if isinstance(mark, Unit)), None),
        next((mark for mark in marks if isinstance(mark, Bounds)), None),
        default,
    )


@cache
def list_meanings(record: type) -> Mapping[str, str]:
    """Return the ``#:`` lines above each field of a dataclass, by field name.

    Fields of base classes are included.
    """
    found: dict[str, str] = {}
    for cls in reversed(record.__mro__):
        said: list[str] = []
        for line in _source(cls):
            if (comment := _MEANING.match(line)) is not None:
                said.append(comment[1])
                continue
            if said and (field := _FIELD.match(line)) is not None:
                found[field[1]] = " ".join(said)
            said = []
    return found


def _source(cls: type) -> list[str]:
    """Return the source lines of a class, not indented; empty if the source is unavailable."""
    try:
        return inspect.cleandoc("\n" + inspect.getsource(cls)).splitlines()
    except (OSError, TypeError):
        return []


def check_settings(record: Any) -> None:
    """Convert the values of a frozen dataclass to their declared types, and check their bounds.

    Fields that are typed as an enumeration or as integers become members and integers:
    ``order="themis"`` becomes the member.  Raises :class:`DimsweepError` that names the field for
    an unknown member (with the nearest valid one), for a number that is not whole, and for a number
    out of its bounds.
    """
    for name, kind, optional, bounds, unit in _checked(type(record)):  # type: ignore[arg-type]
        value = getattr(record, name)
        if optional and value is None:
            continue
        if kind is not None and type(value) is not kind:
            value = (
                _member(kind, value, name)
                if issubclass(kind, Enum)
                else _parse_whole_number(value, name)
            )
            object.__setattr__(record, name, value)
        if bounds is not None and value not in bounds:
            bounds.check(value, name, unit)


@cache
def _checked(
    record: type,
) -> tuple[tuple[str, type | None, bool, Bounds | None, Unit | None], ...]:
    """Return name, target type, optional, bounds and unit of each field that needs a check."""
    found = []
    for name, kind, optional, unit, bounds, _ in list_settings(record):
        is_converted = isinstance(kind, type) and kind is not bool and issubclass(kind, (Enum, int))
        if is_converted or bounds is not None:
            found.append((name, kind if is_converted else None, optional, bounds, unit))
    return tuple(found)


def _member(kind: type[Enum], value: object, where: str) -> Enum:
    try:
        return kind(value)
    except ValueError:
        hint = suggest_names(str(value), map(str, kind))
        raise DimsweepError(
            f"{value!r} is no {where}", where=where, hint=hint, code="unknown-name"
        ) from None


def _parse_whole_number(value: Any, where: str) -> int:
    try:
        return index(value)
    except TypeError:
        raise DimsweepError(
            f"{value!r} is no whole number", where=where, code="wrong-type"
        ) from None
