"""The base class of all mappings of the configuration (parts): typed, frozen, no unknown keys.

A part is a Pydantic model.  A value that is written as text (a quantity with its unit, a choice) is
parsed when the part is made.  It keeps its text, so a part can be written as it was read.  Every
error is a :class:`DimsweepError` that names the key.
"""

import dataclasses
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import Enum
from functools import cache, wraps
from types import UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    ParamSpec,
    Self,
    TypeVar,
    Union,
    get_args,
    get_origin,
)

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    Strict,
    ValidationError,
    create_model,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

from dimsweep.engine import DimsweepError, format_yaml, prefixing_errors, suggest_names, units
from dimsweep.engine.formats import explained
from dimsweep.engine.settings import Bounds, Setting, list_meanings, list_settings

Quantity = units.Quantity
Duration = units.Duration
Bits = units.Bits
naming_key = prefixing_errors  # `with key("npu"):` puts "npu" in front of the place of an error

_T = TypeVar("_T")
_P = ParamSpec("_P")


def preserve_errors(check: Callable[_P, _T]) -> Callable[_P, _T]:
    """Wrap a Pydantic validator so that a :class:`DimsweepError` is raised unchanged."""

    @wraps(check)
    def checked(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return check(*args, **kwargs)
        except DimsweepError as error:
            raise ValueError(error) from error

    return checked


class KeyBounds(Bounds):
    """Bounds of a key's value, used as ``Annotated[WholeNumber, KeyBounds(at_least=2)]``."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        def refuse_outside(value: Any) -> Any:
            self.check(value)
            return value

        return core_schema.no_info_after_validator_function(
            preserve_errors(refuse_outside), handler(source)
        )


WholeNumber = Annotated[int, Strict()]  # not true, not 1.0, not "1"
Flag = Annotated[bool, Strict()]
Number = Annotated[float, Strict()]
CountKey = Annotated[WholeNumber, KeyBounds(at_least=1)]
IndexKey = Annotated[WholeNumber, KeyBounds(at_least=0)]


class _FileNameMark:
    """Mark in the type of a key whose value is the name of a file to read."""


FileName = Annotated[str, _FileNameMark()]


def describe_values(text: str) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Return a decorator that attaches ``text``, the description of accepted values, to a parser.

    The tables of keys in the documentation print the text.
    """

    def note(parse: Callable[_P, _T]) -> Callable[_P, _T]:
        parse.takes = text  # type: ignore[attr-defined]
        return parse

    return note


class ValueParser:
    """How the value of a field is parsed from plain data and written back.

    Use it in ``Annotated[type, ValueParser(parse)]``.

    Parameters
    ----------
    parse
        Turns a written value into an object; raises :class:`DimsweepError` for an invalid one.
    write
        Turns the object back into plain data; :func:`to_plain` by default.
    choices
        All valid values, if they are names.
    takes
        Description of valid values for the tables of keys, such as "rate, such as 100 Gb/s".
    """

    def __init__(
        self,
        parse: Callable[[Any], Any],
        write: Callable[[Any], Any] | None = None,
        choices: Iterable[str] = (),
        takes: str = "",
    ) -> None:
        self.parse, self._write = parse, write or to_plain
        self.takes = takes or getattr(parse, "takes", "")
        # A registry may grow later, so it is not copied.
        self.choices = choices if isinstance(choices, Mapping) else tuple(choices)

    def __get_pydantic_core_schema__(self, _: Any, __: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            preserve_errors(self.parse),
            serialization=core_schema.plain_serializer_function_ser_schema(self._write),
        )


def to_plain(value: Any) -> Any:
    """Return a parsed value as plain data, as the user writes it."""
    if isinstance(value, units.Written):
        return value.text
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Enum):
        return str(value)
    if isinstance(value, Mapping):
        return {key: to_plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(each) for each in value]
    if isinstance(value, frozenset):
        return sorted(to_plain(each) for each in value)
    return value


def quantity_parser(unit: units.Unit, *, zero: bool = False) -> Callable[[Any], Quantity]:
    """Return a parser of quantities in ``unit``; it rejects zero unless ``zero`` is true."""

    def parse(value: Any) -> Quantity:
        text = value.text if isinstance(value, Quantity) else value
        return Quantity(units.parse(text, unit, zero=zero), text)

    return describe_values(f"{unit.kind}, such as {unit.examples}")(parse)


@describe_values(f"time, such as {units.TIME.examples}")
def parse_duration(value: Any) -> Duration:
    """Parse a time such as ``"1.7 us"``."""
    text = value.text if isinstance(value, Duration) else value
    return Duration(units.parse_time(text), text)


@describe_values("rate, such as 100 Gb/s")
def parse_bit_rate(value: Any) -> Bits:
    """Parse a rate such as ``"50 Mb/s"``."""
    text = value.text if isinstance(value, Bits) else value
    return Bits(round(8 * units.parse(text, units.BANDWIDTH, zero=True)), text)


def parse_name(value: Any, known: Iterable[object]) -> str:
    """Return the text of a value that is one of the ``known`` names or enumeration members.

    Raises :class:`DimsweepError` for any other value. A number is never a name.
    """
    names = list(map(str, known))
    if not isinstance(value, str | Enum) or str(value) not in names:
        problem, hint = f"unknown value {format_yaml(value)}", suggest_names(str(value), names)
        raise DimsweepError(problem, hint=hint, code="unknown-name")
    return str(value)


def member_parser(
    kind: Callable[[Any], _T], names: Iterable[object] | None = None
) -> Callable[[Any], _T]:
    """Return a parser from a name to a member of the enumeration ``kind``.

    Only ``names`` are accepted, if given.
    """
    known: Any = kind if names is None else names
    return lambda value: kind(parse_name(value, known))


def member_type(kind: type[_T]) -> ValueParser:
    """Return the :class:`ValueParser` of a field that holds a member of an enumeration."""
    return ValueParser(member_parser(kind), choices=map(str, kind))  # type: ignore[call-overload]


def list_parser(parse: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a parser of one value for all dimensions, or of a list of one per dimension.

    ``parse`` parses one value; a list becomes a tuple.
    """

    def parse_all(value: Any) -> Any:
        if not isinstance(value, (list, tuple)):
            return parse(value)
        parsed = []
        for i, each in enumerate(value):
            with naming_key(f"[{i}]"):
                parsed.append(parse(each))
        return tuple(parsed)

    takes = getattr(parse, "takes", "")
    return describe_values(f"{takes}; one for all, or a list")(parse_all) if takes else parse_all


def expand_per_dimension(value: Any, n: int, where: str) -> tuple[Any, ...]:
    """Return a tuple of ``n`` values from one value for all dimensions, or from a tuple.

    Raises :class:`DimsweepError` at the key ``where`` for a tuple of another length.
    """
    if not isinstance(value, tuple):
        return (value,) * n
    if len(value) != n:
        problem = f"{len(value)} value{'s'[: len(value) != 1]} for {n} dimension{'s'[: n != 1]}"
        hint = f"give one value for all, or a list of {n}"
        raise DimsweepError(problem, where=where, hint=hint, code="mismatch")
    return value


parse_bandwidth, parse_bytes, parse_compute_rate = (
    quantity_parser(unit) for unit in (units.BANDWIDTH, units.BYTES, units.COMPUTE_RATE)
)
Bandwidth = Annotated[Quantity, ValueParser(parse_bandwidth)]
Bytes = Annotated[Quantity, ValueParser(parse_bytes)]
BytesOrNone = Annotated[Quantity, ValueParser(quantity_parser(units.BYTES, zero=True))]
ComputeRate = Annotated[Quantity, ValueParser(parse_compute_rate)]
Operations = Annotated[Quantity, ValueParser(quantity_parser(units.COMPUTE))]
Frequency = Annotated[Quantity, ValueParser(quantity_parser(units.FREQUENCY))]
Seconds = Annotated[Quantity, ValueParser(quantity_parser(units.LONG_TIME))]
Money = Annotated[Quantity, ValueParser(quantity_parser(units.MONEY))]
MoneyOrNone = Annotated[Quantity, ValueParser(quantity_parser(units.MONEY, zero=True))]
Power = Annotated[Quantity, ValueParser(quantity_parser(units.POWER, zero=True))]
PowerPerBandwidth = Annotated[Quantity, ValueParser(quantity_parser(units.POWER_PER_BANDWIDTH))]
PriceOfEnergy = Annotated[Quantity, ValueParser(quantity_parser(units.PRICE_OF_ENERGY, zero=True))]
Time = Annotated[Duration, ValueParser(parse_duration)]
BitRate = Annotated[Bits, ValueParser(parse_bit_rate)]
Bandwidths = Annotated[Quantity | tuple[Quantity, ...], ValueParser(list_parser(parse_bandwidth))]
Times = Annotated[Duration | tuple[Duration, ...], ValueParser(list_parser(parse_duration))]


_LEAVES = (str, int, float, type(None))  # types of most values of a configuration


def walk_values(node: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each value in plain data with its dotted key; containers precede their content."""
    pairs: Iterable[tuple[str, Any]] = ()
    if isinstance(node, Mapping):
        pairs = ((f"{place}.{name}".removeprefix("."), each) for name, each in node.items())
    elif isinstance(node, (list, tuple)):
        pairs = ((f"{place}[{i}]", each) for i, each in enumerate(node))
    for inner, each in pairs:
        yield inner, each
        if not isinstance(each, _LEAVES):
            yield from walk_values(each, inner)


def walk_keys(node: Any) -> Iterator[tuple[str, Any]]:
    """Yield each dotted key of nested plain data with its value; lists are not entered."""
    return ((at, each) for at, each in walk_values(node) if "[" not in at)


class Part(BaseModel):
    """Base class of the mappings of the configuration: frozen, typed keys, no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)
    MIRRORS: ClassVar[tuple[type, ...]] = ()  # the dataclasses whose settings are keys of the part
    RENAMED: ClassVar[Mapping[str, str]] = {}  # today's names of the keys of earlier versions
    NESTED: ClassVar[str] = ""  # hint for an unknown key whose value is a mapping

    @model_validator(mode="before")
    @classmethod
    @preserve_errors
    def _refuse_unknown_keys(cls, value: Any) -> Any:
        if isinstance(value, cls):
            return value
        extra = cls._extra_part(value) if isinstance(value, Mapping) else None
        known = [*cls.model_fields, *(extra.model_fields if extra else ())]
        if not isinstance(value, Mapping):
            problem = f"{format_yaml(value)} is not a mapping of keys"
            raise DimsweepError(problem, hint=f"known: {', '.join(known)}", code="wrong-type")
        for name in value:
            if name not in known:
                now, (first, _, rest) = cls.RENAMED.get(name), str(name).partition(".")
                hint = f"it is now called {now!r}" if now else suggest_names(str(name), known)
                if cls.NESTED and isinstance(value[name], Mapping):
                    hint = cls.NESTED
                if rest and first in known:
                    hint = f"a file nests its keys: {first}: {{{rest.replace('.', ': {')}: ..."
                    hint += "}" * (1 + rest.count("."))
                raise DimsweepError("unknown key", where=str(name), hint=hint, code="unknown-key")
        if extra is None:
            return value
        own = {name: each for name, each in value.items() if name in extra.model_fields}
        parsed = dict(extra.from_plain(own))
        return {**value, **{name: parsed[name] for name in own}}

    @classmethod
    def _extra_part(cls, value: Mapping[str, Any]) -> type["Part"] | None:
        """Return a class with further keys that are valid next to the values given, or None."""
        return None

    @classmethod
    def from_plain(cls, value: Any) -> Self:
        """Build the part from a mapping of its keys to plain values.

        Raises :class:`DimsweepError` naming the first wrong key.
        """
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            raise explained(error) from error

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """Return the default of each key as plain data; "???" for a key that must be given."""
        found: dict[str, Any] = {}
        for name, field in cls.model_fields.items():
            default = "???" if field.is_required() else field.get_default(call_default_factory=True)
            found[name] = (
                type(default).defaults() if isinstance(default, Part) else to_plain(default)
            )
        return found

    @classmethod
    def meanings(cls) -> dict[str, str]:
        """Return the meaning of each key, from ``#:`` comments here or at the engine's setting."""
        fields = cls.model_fields
        found = {name: each.description for name, each in fields.items() if each.description}
        for record in (*cls.MIRRORS, cls):
            found |= list_meanings(record)
        return {name: found[name] for name in fields if name in found}

    def plain(self) -> dict[str, Any]:
        """Return the part as plain data, as the user writes it."""
        return self.model_dump(mode="json")

    def settings(self, kind: type) -> dict[str, Any]:
        """Return the values of the keys that are also fields of the dataclass ``kind``, by name."""
        keys = type(self).model_fields
        return {
            each.name: getattr(self, each.name) for each in list_settings(kind) if each.name in keys
        }

    def file_keys(self, place: str = "") -> Iterator[tuple[str, str | None]]:
        """Yield the dotted key and the value of each key that names a file.

        ``place`` is the part's own dotted key.
        """
        naming = _file_name_keys(type(self))
        for name in type(self).model_fields:
            value, at = getattr(self, name), f"{place}.{name}".removeprefix(".")
            if isinstance(value, Part):
                yield from value.file_keys(at)
            for i, each in enumerate(value if isinstance(value, tuple) else ()):
                if isinstance(each, Part):
                    yield from each.file_keys(f"{at}[{i}]")
            if name in naming:
                yield at, value


def is_file(kind: Any) -> bool:
    """Return whether values of the annotated type ``kind`` are names of files."""
    return any(isinstance(mark, _FileNameMark) for mark in get_args(kind))


@cache
def _file_name_keys(kind: type[Part]) -> frozenset[str]:
    """Return the keys of the part class ``kind`` whose values are names of files."""
    return frozenset(
        name
        for name, field in kind.model_fields.items()
        if any(map(is_file, (Annotated[str, *field.metadata, None], *get_args(field.annotation))))
    )


def default(value: Any) -> Any:
    """Return a field with a default: a plain value as users write it, or a class to instantiate."""
    return Field(default_factory=value) if isinstance(value, type) else Field(default=value)


def member_set_type(kind: type[_T]) -> ValueParser:
    """Return the :class:`ValueParser` of a field with a set of members of an enumeration."""
    one, names = member_parser(kind), [str(each) for each in kind]  # type: ignore[attr-defined]

    def parse(value: Any) -> frozenset[_T]:
        if not isinstance(value, (list, tuple, frozenset)):
            hint = f"give a list of some of {', '.join(names)}"
            raise DimsweepError(f"{value!r} is not a list", hint=hint, code="wrong-type")
        return frozenset(map(one, value))

    return ValueParser(parse, sorted, choices=names)


# Types of keys for plain numbers and truth values; no other type is converted.
_STRICT: dict[Any, Any] = {int: WholeNumber, bool: Flag, float: Number}


def _whole_number_parser(unit: units.Unit) -> tuple[Callable[[Any], Any], type, str] | None:
    """Return parser, type and description of whole numbers in ``unit``; None for other units."""
    whole = {
        units.TIME: (parse_duration, Duration, "ps"),
        units.BANDWIDTH: (parse_bit_rate, Bits, "b/s"),
    }
    return whole.get(unit)


def _build_key(setting: Setting) -> tuple[Any, Any]:
    """Return the type and the default of the key for an engine setting.

    The default has its unit.
    """
    kind, start = setting.type, setting.default
    bounds, unit = setting.bounds, setting.unit
    if unit is not None:
        of_int = _whole_number_parser(unit) if kind is int else None
        if of_int is not None:
            parse, made, base = of_int
        else:
            may_be_none = start == 0 or (bounds is not None and 0 in bounds)
            parse, made, base = quantity_parser(unit, zero=may_be_none), Quantity, unit.base
        if isinstance(start, int | float) and not isinstance(start, units.Written):
            start = made(start, f"{start:.15g} {base}")
        if bounds is not None:
            parse = bounded_parser(parse, bounds, unit, whole=kind is int)
        kind = Annotated[made, ValueParser(parse)]
    else:
        kind = _key_type(kind)
        if bounds is not None:
            kind = Annotated[kind, KeyBounds(**vars(bounds))]
    start = ... if start is dataclasses.MISSING else start
    return (kind | None if setting.optional else kind), start


def _key_type(kind: Any) -> Any:
    """Return the type of the key for an engine setting of the type ``kind``."""
    if isinstance(kind, type) and issubclass(kind, Enum):
        return Annotated[kind, member_type(kind)]
    if get_origin(kind) is frozenset:
        return Annotated[kind, member_set_type(*get_args(kind))]
    if get_origin(kind) is tuple:
        return tuple[tuple(each if each is ... else _key_type(each) for each in get_args(kind))]  # type: ignore[misc]
    if get_origin(kind) in (Union, UnionType):
        return Union[tuple(map(_key_type, get_args(kind)))]  # noqa: UP007
    return _STRICT.get(kind, kind)


def bounded_parser(
    parse: Callable[[Any], Any],
    bounds: Bounds,
    unit: units.Unit | None = None,
    *,
    whole: bool = False,
) -> Callable[[Any], Any]:
    """Return a parser that calls ``parse`` and rejects numbers outside of ``bounds``."""

    def parse_within(value: Any) -> Any:
        found = parse(value)
        bounds.check(found, unit=unit)
        return found

    words = bounds.words(unit, whole=whole)
    return describe_values(f"{getattr(parse, 'takes', '')}; {words}")(parse_within)


def mirror(
    *records: type,
    without: Collection[str] = (),
    unset: Collection[str] | None = (),
    base: type[Part] = Part,
    more: Mapping[str, Any] | None = None,
    **types: Any,
) -> Any:
    """Return a part (a class of keys) whose keys are the settings of dataclasses of the engine.

    Parameters
    ----------
    records
        The dataclasses. If several have a setting of one name, the first defines the key.
    without
        Settings that the part lacks.
    unset
        Settings that are null unless given; None for all.
    base
        The class that it extends.
    more
        Types of further keys, which are null unless given.
    **types
        Types of keys that differ from those of their settings.
    """
    fields: dict[str, Any] = {name: (kind, None) for name, kind in (more or {}).items()}
    for setting in (each for record in records for each in list_settings(record)):
        name = setting.name
        if name in without or name in fields:
            continue
        kind, start = _build_key(setting)
        kind = types.get(name, kind)
        fields[name] = (kind | None, None) if unset is None or name in unset else (kind, start)
    part = create_model(records[0].__name__, __base__=base, **fields)
    part.MIRRORS = (*base.MIRRORS, *records)
    return part


class VariantParser:
    """Parser and writer of objects of several dataclasses, chosen by name.

    An object is written as its name, or as a mapping of its fields and its name.

    Parameters
    ----------
    kinds
        The dataclasses by name.
    key
        The key of the mapping that holds the name.
    noun
        The noun for an object in errors, such as "transport".
    **types
        Types of fields whose keys differ from the field, such as quantities.
    """

    def __init__(self, kinds: Mapping[str, type[Any]], key: str, noun: str, **types: Any) -> None:
        self._kinds, self._key, self._noun = kinds, key, noun
        # Cached by class and not by name: a plug-in may be loaded again.
        self._part: Callable[[Any], type[Part]] = cache(lambda cls: mirror(cls, **types))

    def parse(self, value: Any) -> Any:
        """Return the object that a name, or a mapping with the name, describes."""
        if type(value) in self._kinds.values():
            return value
        given = dict(value) if isinstance(value, Mapping) else {self._key: value}
        kind = given.pop(self._key, None)
        if not isinstance(kind, str) or kind not in self._kinds:
            raise DimsweepError(
                f"unknown {self._noun} {kind!r}",
                where=self._key if isinstance(value, Mapping) else "",
                hint=suggest_names(str(kind), self._kinds),
                code="unknown-name",
            )
        return self._kinds[kind](**dict(self._part(self._kinds[kind]).from_plain(given)))

    def write(self, found: Any) -> Any:
        """Return an object, or a tuple of objects, as plain data."""
        if isinstance(found, tuple):
            return [self.write(each) for each in found]
        (kind,) = (kind for kind, cls in self._kinds.items() if type(found) is cls)
        fields = to_plain(dataclasses.asdict(found))
        return {self._key: kind, **fields} if fields else kind


# Axes of a plan are placed innermost first, and jobs take their NPUs one after another.
_ORDERED = ("parallel", "jobs")


def has_order(name: object) -> bool:
    """Return whether the order of keys matters in the mapping at the dotted key ``name``."""
    return str(name).rsplit(".", 1)[-1] in _ORDERED


def encode_order(node: Any, *, ordered: bool = False) -> Any:
    """Return plain data in which mappings whose order matters are lists of pairs.

    Data in another order then differ, and so do their sorted texts. ``ordered`` has the dotted keys
    of these mappings (``workload.parallel``); a value there may also be a list of mappings.
    """
    if isinstance(node, Mapping):
        found = {name: encode_order(value, ordered=has_order(name)) for name, value in node.items()}
        return [list(pair) for pair in found.items()] if ordered else found
    if isinstance(node, (list, tuple)):
        return [encode_order(each, ordered=ordered) for each in node]
    return node


def canonical_text(node: Any) -> str:
    """Return plain data as JSON with sorted keys; equal data have equal texts."""
    return json.dumps(encode_order(node), sort_keys=True, default=str)


_RANGE = re.compile(r"(\d+)\s*-\s*(\d+)(?:\s*:\s*([1-9]\d*))?")


def parse_npu_numbers(value: Any) -> tuple[int | str, ...]:
    """Parse a list of NPU numbers and ranges such as 8-15 or 0-31:2, or a single one of them."""
    listed = value if isinstance(value, (list, tuple)) else [value]
    for i, each in enumerate(listed):
        fits = isinstance(each, str) and _RANGE.fullmatch(each)
        if not fits and (not isinstance(each, int) or isinstance(each, bool)):
            problem, hint = f"{format_yaml(each)} is not an NPU", "give a number or a range: 8-15"
            raise DimsweepError(problem, where=f"[{i}]", hint=hint, code="bad-syntax")
    return tuple(listed)


def expand_npu_numbers(listed: tuple[int | str, ...], n_npus: int) -> tuple[int, ...]:
    """Return all NPU numbers of a list with ranges.

    A range is cut off at ``n_npus``, one beyond the last NPU, so that a check by the caller finds
    it.
    """
    npus = list[int]()
    for each in listed:
        ends = _RANGE.fullmatch(each) if isinstance(each, str) else None
        first, last = (int(ends[1]), min(int(ends[2]), n_npus)) if ends else (int(each),) * 2
        npus += range(first, last + 1, int(ends[3] or 1) if ends else 1)
    return tuple(npus)
