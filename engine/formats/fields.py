"""Small JSON and YAML files, and what Pydantic finds wrong in one, told with file and key."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import TypeAdapter, ValidationError

from dimsweep.engine.errors import DimsweepError, in_yaml, suggestion
from dimsweep.engine.formats.content import read_text

_T = TypeVar("_T")
# What each kind of error of Pydantic's expects, and what would be right.
_EXPECTED = {
    "int_type": ("whole number", "such as 8, without a point or an exponent"),
    "int_from_float": ("whole number", "such as 8, without a point or an exponent"),
    "int_parsing": ("whole number", "such as 8, without a point or an exponent"),
    "float_type": ("number", "such as 0.05, which is 5 %"),
    "float_parsing": ("number", "such as 0.05, which is 5 %"),
    "finite_number": ("finite number", "neither inf nor nan"),
    "bool_type": ("truth value", "true or false"),
    "string_type": ("text", "a single word, or a number in quotes"),
    "list_type": ("list", "such as [a, b]"),
    "tuple_type": ("list", "such as [a, b]"),
    "dict_type": ("mapping", "such as {KEY: VALUE}"),
}
_MOST = 1e15  # up to it a number that is asked about is exact
GIVE = "give it in a file, or as KEY=VALUE on the command line"
_LIMITS = {
    "greater_than_equal": ("ge", "{} or more"),
    "greater_than": ("gt", "more than {}"),
    "less_than_equal": ("le", "{} or less"),
    "less_than": ("lt", "less than {}"),
}

# What Pydantic puts among the keys where a value may be of several types.
_ALTERNATIVES = {"constrained-int", "constrained-float", "int", "float", "str", "bool"}


def read_json(path: Path, what: str = "file") -> dict[str, Any]:
    """The JSON object in a file, plain or gzip; ``what`` names it in errors.

    Raises :class:`DimsweepError` for a file that cannot be read, or holds no such object.
    """
    return parse_json(read_text(path, what), path, what)


def parse_json(text: str, where: object, what: str = "file") -> dict[str, Any]:
    """The JSON object in a text, which is at ``where``: a file, or a line of one.

    Raises :class:`DimsweepError` for any other text.
    """
    return _mapping(text, where, json.loads, f"the {what} is not JSON")


def read_yaml(path: Path) -> dict[str, Any]:
    """Raises :class:`DimsweepError` for a file that cannot be read, or holds no YAML mapping."""
    return _mapping(read_text(path, "file"), path, _load_yaml, "the file is not YAML")


# Numbers that YAML 1.1 reads otherwise than people do: 010 is eight, and 1:30 is ninety.
_SUSPECT = re.compile(r"!|\b0\d|\d:\d")  # no text without it needs a closer look
_TRAPS = re.compile(r"[-+]?0[0-7_]+|[-+]?[1-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")


def refuse_surprises(text: str) -> None:
    """Raise :class:`yaml.YAMLError` for YAML whose values are not what they seem: those with tags
    (``!!timestamp x``), over which PyYAML fails in ways that it does not document, octal numbers
    and numbers to the base of sixty."""
    for event in yaml.parse(text, yaml.SafeLoader) if _SUSPECT.search(text) else ():
        if tag := getattr(event, "tag", None):
            problem = f"the tag {tag!r}, and no tags are read"
        elif (
            isinstance(event, yaml.ScalarEvent)
            and event.implicit[0]
            and _TRAPS.fullmatch(event.value)
        ):
            problem = f"YAML reads {event.value} as {yaml.safe_load(event.value)}"
        else:
            continue
        mark: Any = event.start_mark
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=mark)


def explain_yaml(error: Exception, file: object) -> DimsweepError:
    """What YAML's parser says, in a sentence, with the line."""
    problem, mark = getattr(error, "problem", None), getattr(error, "problem_mark", None)
    what, hint = problem or str(error).partition("\n")[0], ""
    where = f"{file}:{mark.line + 1}:{mark.column + 1}" if mark else str(file)
    if "'\\t'" in what:
        what, hint = "a tab where a line begins", "indent with spaces"
    elif "found duplicate key" in what:
        what, hint = f"the key {what.split()[-1]} is there twice", "leave one of the two out"
    elif "cannot start any token" in what:
        hint = "quote a text that begins with a sign"
    elif "could not find expected ':'" in what or "<block mapping start>" in what:
        hint = "each line is KEY: VALUE, with a space after the colon, indented as those beside it"
    elif what.startswith("YAML reads"):
        hint = "write it without the zeros in front, or in quotes if it is a text"
    elif "another document" in what:
        hint = "a file is one document; leave --- out"
    elif isinstance(error, UnicodeDecodeError):
        hint = "save it as UTF-8"
    return DimsweepError(f"it is not YAML: {what}", where=where, hint=hint)


def _load_yaml(text: str) -> object:
    refuse_surprises(text)
    return yaml.safe_load(text)


def _mapping(
    text: str, where: object, parse: Callable[[str], object], otherwise: str
) -> dict[str, Any]:
    try:
        content = parse(text)
    except yaml.YAMLError as error:
        raise explain_yaml(error, where) from error
    except ValueError as error:
        raise DimsweepError(f"{otherwise}: {error}", where=str(where)) from error
    except RecursionError as error:
        raise DimsweepError("the file is nested too deeply", where=str(where)) from error
    if not isinstance(content, dict):
        hint = "such as " + ('{"a": 1}' if parse is json.loads else "a: 1")
        raise DimsweepError("the file holds no mapping of keys", where=str(where), hint=hint)
    return content


def validated(kind: type[_T], content: Any, path: object) -> _T:
    """``content`` of the file, or of a line of it, as a ``kind``.

    Raises :class:`DimsweepError` naming file and key.
    """
    try:
        return TypeAdapter(kind).validate_python(content)
    except ValidationError as error:
        raise explained(error, missing="add it to the file").within(path) from error


def explained(error: ValidationError, missing: str = GIVE) -> DimsweepError:
    """Return the first fault, with its key; ``missing`` is the hint for a key without a value."""
    first = error.errors(include_url=False)[0]
    place = ""
    for step in first["loc"]:
        if isinstance(step, int):
            place += f"[{step}]"
        elif step not in _ALTERNATIVES:
            place += f".{step}"
    place = place.removeprefix(".")
    cause, kind, given = first.get("ctx", {}).get("error"), first["type"], in_yaml(first["input"])
    if isinstance(cause, ValueError) and cause.args and isinstance(cause.args[0], DimsweepError):
        found = cause.args[0]
        return found.at(place) if place else found
    if kind == "value_error":  # of a validator, whose text says it all
        return DimsweepError(str(cause), where=place)
    if kind == "missing":
        return DimsweepError("this key needs a value", where=place, hint=missing)
    if kind in _EXPECTED:
        expected, such_as = _EXPECTED[kind]
        hint = _cure(expected, first["input"]) or such_as
        return DimsweepError(f"{given} is no {expected}", where=place, hint=hint)
    if kind in _LIMITS:
        name, words = _LIMITS[kind]
        limit = words.format(f"{first['ctx'][name]:.15g}")
        return DimsweepError(f"{given}; it must be {limit}", where=place)
    if kind == "too_short" and not first["input"]:
        return DimsweepError("it is empty", where=place)
    if kind == "literal_error":
        expected = first["ctx"]["expected"]
        known = re.findall(r"'([^']*)'", expected)
        hint = suggestion(str(first["input"]), known)
        return DimsweepError(f"{given} is none of {expected}", where=place, hint=hint)
    return DimsweepError(f"{given}: {first['msg']}", where=place)


def _cure(expected: str, given: object) -> str:
    """What a value of another type was to be, as a question; nothing where that is not to tell."""
    if expected == "text" and isinstance(given, (int, float)):
        return f"quotes make it one: \"'{str(given).lower()}'\""
    if isinstance(given, bool):
        return ""
    if expected == "list" and isinstance(given, (int, float)):
        return f"a list has brackets, also around one value; did you mean [{given}]?"
    if expected not in ("whole number", "number"):
        return ""
    text = str(given).strip()
    try:
        number = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        return ""
    if abs(number) > _MOST or (expected == "whole number" and not number.is_integer()):
        return ""
    return f"did you mean {number:.15g}?"
