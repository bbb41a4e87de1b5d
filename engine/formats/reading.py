"""Read files of other tools: bytes, text, JSON and YAML checked by Pydantic, tables, and lines.

All readers of formats use these functions, so that their errors name file and place the same way.
"""

import codecs
import csv
import gzip
import io
import json
import math
import re
import zlib
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import yaml
from pydantic import TypeAdapter, ValidationError

from dimsweep.engine.errors import Code, DimsweepError, accessing, format_yaml, suggest_names

_GZIP = b"\x1f\x8b"
_LARGEST = 1 << 32  # bytes of an inflated file, which is kept in memory
_PIECE = 1 << 20  # bytes inflated at a time
_MARKS = {  # byte order marks, which Excel and PowerShell write, and the encoding that each means
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def read_bytes(path: Path, what: str) -> bytes:
    """Return the content of a file, decompressed if it is gzip.

    Parameters
    ----------
    path
        The file.
    what
        Its name in errors, such as "trace".

    Raises
    ------
    DimsweepError
        For a file that cannot be read, whose compression is damaged, or that inflates to more
        than 4 GiB.
    """
    try:
        with path.open("rb") as file:
            if file.peek(len(_GZIP)).startswith(_GZIP):
                return _inflated(gzip.GzipFile(fileobj=file), path, what)
            return file.read()
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        message = f"the compressed {what} is damaged: {error}"
        raise DimsweepError(message, where=str(path), code="damaged") from error
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        message = f"cannot read the {what}: {getattr(error, 'strerror', None) or error}"
        raise DimsweepError(message, where=str(path), code="inaccessible") from error
    except MemoryError:
        message = f"the {what} does not fit into memory"
        raise DimsweepError(message, where=str(path), code="too-many") from None


def _inflated(file: gzip.GzipFile, path: Path, what: str) -> bytes:
    """Return a gzip file's content, read in pieces: a single read would allocate the limit."""
    pieces, n_bytes = [], 0
    while piece := file.read(_PIECE):
        pieces.append(piece)
        n_bytes += len(piece)
        if n_bytes > _LARGEST:
            message = f"the compressed {what} inflates to more than {_LARGEST / (1 << 30):g} GiB"
            raise DimsweepError(message, where=str(path), code="too-many")
    return b"".join(pieces)


def read_head(path: Path, n_bytes: int) -> bytes:
    """Return the first ``n_bytes`` of a file, plain or gzip, without a UTF-8 byte order mark.

    Returns no bytes for a file that cannot be read.
    """
    try:
        with path.open("rb") as file:
            is_gzip = file.peek(len(_GZIP)).startswith(_GZIP)
            head = (gzip.GzipFile(fileobj=file) if is_gzip else file).read(n_bytes)
    except (OSError, ValueError, EOFError, zlib.error):
        return b""
    return head.removeprefix(codecs.BOM_UTF8)


def read_text(path: Path, what: str) -> str:
    """Return the text of a file, plain or gzip, without a byte order mark.

    Parameters
    ----------
    path
        The file, in UTF-8, or in UTF-16 if a mark says so.
    what
        Its name in errors.

    Raises
    ------
    DimsweepError
        As :func:`read_bytes` does, and for a file that is not text.
    """
    content = read_bytes(path, what)
    try:
        return decode_text(content)
    except UnicodeDecodeError as error:
        message = f"cannot read the {what}: it is not text"
        raise DimsweepError(
            message, where=str(path), hint="save it as UTF-8", code="bad-syntax"
        ) from error


def decode_text(content: bytes, errors: str = "strict") -> str:
    """Decode UTF-8, or the encoding of a byte order mark, which is left out.

    Raises :class:`UnicodeDecodeError` for other bytes, unless ``errors`` says otherwise.
    """
    encoding = next((name for mark, name in _MARKS.items() if content.startswith(mark)), "utf-8")
    return content.decode(encoding, errors)


_T = TypeVar("_T")
# Expected value by Pydantic's kind of error, with an example.
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
_MOST = 1e15  # numbers up to it are exact in a "did you mean" hint
GIVE = "give it in a file, or as KEY=VALUE on the command line"
_LIMITS = {
    "greater_than_equal": ("ge", "{} or more"),
    "greater_than": ("gt", "more than {}"),
    "less_than_equal": ("le", "{} or less"),
    "less_than": ("lt", "less than {}"),
}

# Pydantic adds these to the keys of a place whose value may have several types.
_ALTERNATIVES = {"constrained-int", "constrained-float", "int", "float", "str", "bool"}


def read_json(path: Path, what: str = "file") -> dict[str, Any]:
    """Return the JSON object in a file, plain or gzip; ``what`` names the file in errors.

    Raises :class:`DimsweepError` for a file that cannot be read, or holds anything else.
    """
    return parse_json(read_text(path, what), path, what)


def parse_json(text: str, where: object, what: str = "file") -> dict[str, Any]:
    """Return the JSON object in a text; ``where`` names the file or line in errors.

    Raises :class:`DimsweepError` for any other text.
    """
    return _mapping(text, where, json.loads, f"the {what} is not JSON")


def read_yaml(path: Path) -> dict[str, Any]:
    """Return the YAML mapping in a file.

    Raises :class:`DimsweepError` for a file that cannot be read, or holds anything else.
    """
    return _mapping(read_text(path, "file"), path, _load_yaml, "the file is not YAML")


# YAML 1.1 misreads these numbers: 010 is eight, and 1:30 is ninety.
_SUSPECT = re.compile(r"!|\b0\d|\d:\d")  # texts without a match have no surprises
_TRAPS = re.compile(r"[-+]?0[0-7_]+|[-+]?[1-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")


def refuse_surprises(text: str) -> None:
    """Raise :class:`yaml.YAMLError` for YAML whose values are easily misread.

    Refused are tags (``!!timestamp x``), which make PyYAML fail in undocumented ways, octal
    numbers, and numbers to the base of sixty.
    """
    for event in yaml.parse(text, yaml.SafeLoader) if _SUSPECT.search(text) else ():
        if tag := getattr(event, "tag", None):
            problem = f"tags such as {tag!r} are not supported"
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
    """Return an error of YAML's parser as a :class:`DimsweepError` with file, line and hint."""
    problem, mark = getattr(error, "problem", None), getattr(error, "problem_mark", None)
    what, hint = problem or str(error).partition("\n")[0], ""
    where = f"{file}:{mark.line + 1}:{mark.column + 1}" if mark else str(file)
    if "'\\t'" in what:
        what, hint = "a line begins with a tab", "indent with spaces"
    elif "found duplicate key" in what:
        what, hint = f"the key {what.split()[-1]} occurs twice", "remove one of the two"
    elif "cannot start any token" in what:
        hint = "quote a text that begins with a sign"
    elif "could not find expected ':'" in what or "<block mapping start>" in what:
        hint = "each line is KEY: VALUE, with a space after the colon, indented as its neighbours"
    elif what.startswith("YAML reads"):
        hint = "write it without the zeros in front, or in quotes if it is a text"
    elif "another document" in what:
        hint = "a file holds one document; remove ---"
    elif isinstance(error, UnicodeDecodeError):
        hint = "save it as UTF-8"
    return DimsweepError(f"it is not YAML: {what}", where=where, hint=hint, code="bad-syntax")


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
        raise DimsweepError(f"{otherwise}: {error}", where=str(where), code="bad-syntax") from error
    except RecursionError as error:
        raise DimsweepError(
            "the file is nested too deeply", where=str(where), code="bad-syntax"
        ) from error
    if not isinstance(content, dict):
        hint = "such as " + ('{"a": 1}' if parse is json.loads else "a: 1")
        raise DimsweepError(
            "the file is not a mapping of keys to values",
            where=str(where),
            hint=hint,
            code="wrong-type",
        )
    return content


def validated(kind: type[_T], content: Any, path: object) -> _T:
    """Return ``content``, read from the file or line ``path``, as an object of type ``kind``.

    Raises :class:`DimsweepError` naming file and key.
    """
    try:
        return TypeAdapter(kind).validate_python(content)
    except ValidationError as error:
        raise explained(error, missing="add it to the file").in_place(path) from error


def explained(error: ValidationError, missing: str = GIVE) -> DimsweepError:
    """Return Pydantic's first fault as an error with its key.

    ``missing`` is the hint for a key without a value.
    """
    first = error.errors(include_url=False)[0]
    place = ""
    for step in first["loc"]:
        if isinstance(step, int):
            place += f"[{step}]"
        elif step not in _ALTERNATIVES and not step.startswith("function-after["):
            place += f".{step}"
    place = place.removeprefix(".")
    cause, kind, given = (
        first.get("ctx", {}).get("error"),
        first["type"],
        format_yaml(first["input"]),
    )
    if isinstance(cause, ValueError) and cause.args and isinstance(cause.args[0], DimsweepError):
        found = cause.args[0]
        return found.with_prefix(place) if place else found
    if kind == "value_error":  # raised by a validator with a complete text
        return DimsweepError(str(cause), where=place)
    if kind == "missing":
        return DimsweepError("this key needs a value", where=place, hint=missing, code="missing")
    if kind in _EXPECTED:
        expected, such_as = _EXPECTED[kind]
        hint = _cure(expected, first["input"]) or such_as
        return DimsweepError(
            f"{given} is not a {expected}", where=place, hint=hint, code="wrong-type"
        )
    if kind in _LIMITS:
        name, words = _LIMITS[kind]
        limit = words.format(f"{first['ctx'][name]:.15g}")
        return DimsweepError(f"{given}; it must be {limit}", where=place, code="out-of-range")
    if kind == "too_short" and not first["input"]:
        return DimsweepError("it is empty", where=place, code="missing")
    if kind == "literal_error":
        expected = first["ctx"]["expected"]
        known = re.findall(r"'([^']*)'", expected)
        hint = suggest_names(str(first["input"]), known)
        return DimsweepError(
            f"{given} is none of {expected}", where=place, hint=hint, code="unknown-name"
        )
    return DimsweepError(f"{given}: {first['msg']}", where=place)


def _cure(expected: str, given: object) -> str:
    """Return a "did you mean" hint for a value of the wrong type, or ""."""
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


Row = dict[str, str]


def read_table(
    file: Path, columns: Collection[str], more: Collection[str] | None = None
) -> list[tuple[str, Row]]:
    """Read the rows of a table in a CSV file.

    Empty lines and lines that begin with # are skipped.

    Parameters
    ----------
    file
        The table, with commas, semicolons or tabs between cells.
    columns
        Names of required columns, in small letters; the header's case is then ignored.
    more
        Names of optional columns; None allows any others.

    Returns
    -------
    list of (str, dict)
        The place of each row (file and line), and its text by column.

    Raises
    ------
    DimsweepError
        Naming the file, and the line, of a malformed table.
    """
    text = read_text(file, "table")
    lines = ("\n" if line.startswith("#") else line for line in io.StringIO(text, newline=""))
    with accessing(file, "it is not a table", csv.Error):
        reader = csv.reader(lines, delimiter=delimiter_of(text), skipinitialspace=True, strict=True)
        header = [name.strip() for name in next(filter(None, reader), [])]
        header = [name.lower() for name in header] if columns else header
        _check(header, file, columns, more)
        rows = ((f"{file}: line {reader.line_num}", row) for row in reader if row)
        return [(where, _row(header, row, where)) for where, row in rows]


def delimiter_of(text: str) -> str:
    """Return a table's separator: the most frequent comma, semicolon or tab in its header."""
    return max(",;\t", key=first_line(text).count)


def first_line(text: str) -> str:
    """Return the first line of a text that is neither empty nor a comment, or ""."""
    return next((line for line in text.splitlines() if line.strip() and line[0] != "#"), "")


def _check(
    header: list[str], file: Path, columns: Collection[str], more: Collection[str] | None
) -> None:
    if missing := [name for name in columns if name not in header]:
        problem, hint = f"missing column {', '.join(missing)}", f"required: {', '.join(columns)}"
        raise DimsweepError(problem, where=str(file), hint=hint, code="missing")
    for name in header:
        if more is not None and name not in (known := [*columns, *more]):
            hint = suggest_names(name, known)
            raise DimsweepError(
                f"unknown column {name!r}", where=str(file), hint=hint, code="unknown-name"
            )
        if name and header.count(name) > 1:
            raise DimsweepError(
                f"the column {name} occurs twice", where=str(file), code="duplicate"
            )


def _row(header: list[str], cells: list[str], where: str) -> Row:
    if len(cells) != len(header):
        problem = f"the row has {len(cells)} cells, the header {len(header)} columns"
        raise DimsweepError(
            problem, where=where, hint="quote cells that contain the separator", code="bad-syntax"
        )
    return dict(zip(header, map(str.strip, cells), strict=True))


class Line(NamedTuple):
    """A line of a text file: its words, and its place (file and line) in errors."""

    words: list[str]
    where: str

    def error(self, problem: str, hint: str = "", code: Code = "bad-syntax") -> DimsweepError:
        """Return an error with the place of this line."""
        return DimsweepError(problem, where=self.where, hint=hint, code=code)

    def whole_number(self, place: int, name: str, least: int, most: int) -> int:
        """Return word ``place`` of the line as a whole number from ``least`` to ``most``.

        ``name`` is the number's name in errors.
        """
        word = self.words[place] if place < len(self.words) else ""
        return whole_number(word, name, self.where, least, most)

    def number(self, place: int, name: str, most: float) -> float:
        """Return word ``place`` of the line as a number from 0 to ``most``."""
        word = self.words[place] if place < len(self.words) else ""
        try:
            found = float(word)
        except ValueError:
            found = math.nan
        if not 0 <= found <= most:
            problem = f"{name} is {word[:40]!r}"
            raise self.error(problem, f"expected a number from 0 to {most:g}", "out-of-range")
        return found


def read_lines(path: Path, what: str, comment: str = "#") -> Iterator[Line]:
    """Yield the lines of a file, except empty lines and lines that begin with ``comment``.

    Raises :class:`DimsweepError` for a file that cannot be read; ``what`` is its name in errors.
    """
    for number, text in enumerate(read_text(path, what).splitlines(), 1):
        words = text.split()
        if words and not words[0].startswith(comment):
            yield Line(words, f"{path}: line {number}")


def whole_number(word: str, name: str, where: str, least: int, most: int) -> int:
    """Return a decimal ``word`` as a number from ``least`` to ``most``, or raise an error.

    The :class:`DimsweepError` has the number's ``name`` and its place ``where``.
    """
    if not (word.isascii() and word.isdigit() and len(word) <= 20 and least <= int(word) <= most):
        hint = f"expected a whole number from {least:,} to {most:,}"
        raise DimsweepError(f"{name} is {word[:40]!r}", where=where, hint=hint, code="out-of-range")
    return int(word)
