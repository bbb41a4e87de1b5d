"""Small JSON and YAML files, and what Pydantic finds wrong in one, told with file and key."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import TypeAdapter, ValidationError

from engine.errors import DimsweepError
from engine.formats.content import read_text

_T = TypeVar("_T")
_EXPECTED = {
    "int_type": "whole number",
    "int_from_float": "whole number",
    "float_type": "number",
    "bool_type": "truth value",
    "string_type": "text",
    "list_type": "list",
    "tuple_type": "list",
    "dict_type": "mapping",
}


def read_json(path: Path) -> dict[str, Any]:
    """Raises :class:`DimsweepError` for a file that cannot be read, or holds no JSON object."""
    return _mapping(path, json.loads, "JSON")


def read_yaml(path: Path) -> dict[str, Any]:
    """Raises :class:`DimsweepError` for a file that cannot be read, or holds no YAML mapping."""
    return _mapping(path, _load_yaml, "YAML")


def refuse_tags(text: str) -> None:
    """Raise :class:`yaml.YAMLError` for YAML whose values have tags (``!!timestamp x``): PyYAML
    fails over those that do not suit their values in ways that it does not document."""
    for event in yaml.parse(text, yaml.SafeLoader) if "!" in text else ():
        if tag := getattr(event, "tag", None):
            raise yaml.YAMLError(f"the tag {tag!r}, and no tags are read{event.start_mark}")


def _load_yaml(text: str) -> object:
    refuse_tags(text)
    return yaml.safe_load(text)


def _mapping(path: Path, parse: Callable[[str], object], form: str) -> dict[str, Any]:
    try:
        content = parse(read_text(path, "file"))
    except (ValueError, yaml.YAMLError) as error:
        raise DimsweepError(f"the file is not {form}: {error}", where=str(path)) from error
    except RecursionError as error:
        raise DimsweepError("the file is nested too deeply", where=str(path)) from error
    if not isinstance(content, dict):
        raise DimsweepError("the file holds no mapping of keys", where=str(path))
    return content


def validated(kind: type[_T], content: Any, path: Path) -> _T:
    """``content`` of the file as a ``kind``.  Raises :class:`DimsweepError` naming file and key."""
    try:
        return TypeAdapter(kind).validate_python(content)
    except ValidationError as error:
        fault = explained(error)
        raise DimsweepError(fault.what, where=f"{path}: {fault.where}", hint=fault.hint) from error


def explained(error: ValidationError) -> DimsweepError:
    """The first thing that is wrong, with its key."""
    first = error.errors(include_url=False)[0]
    place = ""
    for step in first["loc"]:
        place += f"[{step}]" if isinstance(step, int) else f".{step}"
    place = place.removeprefix(".")
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, ValueError) and cause.args and isinstance(cause.args[0], DimsweepError):
        found = cause.args[0]
        return found.at(place) if place else found
    if first["type"] == "missing":
        return DimsweepError("this key needs a value", where=place)
    if first["type"] in _EXPECTED:
        return DimsweepError(f"{first['input']!r} is no {_EXPECTED[first['type']]}", where=place)
    if first["type"] == "literal_error":
        expected = first["ctx"]["expected"]
        return DimsweepError(f"{first['input']!r} is none of {expected}", where=place)
    return DimsweepError(f"{first['input']!r}: {first['msg']}", where=place)
