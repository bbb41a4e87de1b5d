"""Tables of configuration keys for the documentation: type, default and meaning of each key.

A table is derived from a part (a class of keys), so a page with a table changes with the fields;
see ``tests/support/pages.py``.
"""

import json
import re
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from dimsweep.engine import DimsweepError, suggest_names
from dimsweep.engine.settings import Bounds
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.config.workload import KINDS, Workload
from dimsweep.sweeper.part import Part, ValueParser, is_file

_ROLE = re.compile(r":\w+:`~?([^`]*)`")
_PLAIN = {bool: "true or false", int: "whole number", float: "number", str: "text"}


def key_table(place: str) -> str:
    """Return the Markdown table of the keys of the part (a class of keys) at a dotted key.

    Below ``workload`` it is the first kind of workload with such a part.
    """
    part = find_part(place)
    meanings, defaults = part.meanings(), part.defaults()
    rows = ["| key | takes | default | meaning |", "|---|---|---|---|"]
    for name in part.model_fields:
        start = f"`{_format_default(defaults[name])}`"
        if defaults[name] == "???" or (defaults[name] and isinstance(defaults[name], dict)):
            start = ""  # it must be given, or has keys with defaults
        meaning = _ROLE.sub(r"`\1`", meanings.get(name, ""))
        takes = "; ".join(dict.fromkeys(_describe_type(key_type(part, name))))
        rows.append(f"| `{name}` | {takes} | {start} | {meaning} |")
    return "\n".join(rows).replace("|  |", "| |") + "\n"


def find_part(place: str) -> type[Part]:
    """Return the class of keys at a dotted key; raises :class:`DimsweepError` if there is none."""
    part: type[Part] = Config
    for name in place.split("."):
        kinds = [part, *(KINDS.values() if part is Workload else ())]
        found = [each for kind in kinds for each in walk_parts(key_type(kind, name))]
        if not found:
            hint = suggest_names(name, part.model_fields)
            problem = f"{name!r} is not a key with keys below it"
            raise DimsweepError(problem, where=place, hint=hint, code="unknown-key")
        part = found[0]
    return part


def key_type(part: Any, name: str) -> Any:
    """Return the annotated type of a key; None if ``part`` lacks the key."""
    field = getattr(part, "model_fields", {}).get(name)
    return field and Annotated[field.annotation, *field.metadata, None]


def walk_parts(kind: Any) -> Iterator[type[Part]]:
    """Yield the classes of keys (parts) that occur in a type."""
    if isinstance(kind, type) and issubclass(kind, Part):
        yield kind
    for each in get_args(kind):
        yield from walk_parts(each)


def _describe_type(kind: Any) -> Iterator[str]:
    """Yield a description of each kind of value that a type accepts."""
    origin, inside = get_origin(kind), get_args(kind)
    if origin is Annotated:
        parsed = next((each for each in inside[1:] if isinstance(each, ValueParser)), None)
        bounds = next((each for each in inside[1:] if isinstance(each, Bounds)), None)
        if is_file(kind):
            yield "file"
        elif parsed is not None and (parsed.choices or parsed.takes):
            yield ", ".join(f"`{each}`" for each in parsed.choices) or parsed.takes
        else:
            words = list(_describe_type(inside[0]))
            yield from [f"{each}, {bounds.words()}" for each in words] if bounds else words
    elif origin in (Union, UnionType):
        for each in inside:
            if each is not NoneType:
                yield from _describe_type(each)
    elif origin is Literal:
        yield ", ".join(f"`{each}`" for each in inside)
    elif origin in (tuple, list, frozenset):
        yield f"list of: {'; '.join(dict.fromkeys(_describe_type(inside[0])))}"
    elif origin is dict or (isinstance(kind, type) and issubclass(kind, Part)):
        yield "mapping"
    elif kind in _PLAIN:
        yield _PLAIN[kind]


def _format_default(value: Any) -> str:
    """Return a default value as a user would write it."""
    return value if isinstance(value, str) and value else json.dumps(value)
