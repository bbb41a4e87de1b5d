"""Sources of the numbers in presets, from their key ``sources`` and from conf/sources.yaml."""

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import Field

from dimsweep.engine import DimsweepError, suggest_names
from dimsweep.engine.network import LEVELS
from dimsweep.sweeper.config.catalogue import Price, Watts
from dimsweep.sweeper.config.options import read_options
from dimsweep.sweeper.part import (
    Part,
    ValueParser,
    default,
    member_parser,
    member_type,
    naming_key,
    walk_keys,
)
from dimsweep.sweeper.places import find_option, list_folders, list_groups

SOURCES = "sources"  # a key of preset files that the configuration lacks
GROUPS = ("npu", "topology", "memory", "cost", "reliability")  # whose numbers all have a source


class Evidence(StrEnum):
    """Kinds of sources, from the most to the least reliable."""

    DATA_SHEET = "data sheet"
    MEASURED = "measured"
    PUBLISHED_STUDY = "published study"
    LISTED = "list"  # of prices or watts, each with a level of its own
    ESTIMATE = "estimate"


class Reading(StrEnum):
    """Ways in which a document was read."""

    COPY = "in a stored copy"
    QUOTED = "as others quote it"


def _parse_reading(value: Any) -> Reading | None:
    return None if value is None else member_parser(Reading)(value)


class Document(Part):
    """A document of conf/sources.yaml that numbers are taken from, such as a data sheet."""

    document: Annotated[str, Field(min_length=1)]
    #: Year, or year and month.
    date: Annotated[str, Field(pattern=r"^\d{4}(-(0[1-9]|1[0-2]))?$")]
    evidence: Annotated[Evidence, member_type(Evidence)] = default("estimate")
    url: Annotated[str, Field(pattern=r"^https://\S+$")] | None = None
    #: How it was read, if not at its address or as a paper.
    read: Annotated[Reading | None, ValueParser(_parse_reading)] = None


class Figure(NamedTuple):
    """A number of a preset, with its key and its source."""

    key: str  # within the group
    value: str
    source: Document | None
    note: str = ""  # the document's statement on it


def without_sources(node: DictConfig) -> DictConfig:
    """Return the keys of a preset without their sources."""
    keys: Any = node
    return OmegaConf.masked_copy(node, [name for name in keys if name != SOURCES])


def find_preset(group: str, name: str) -> Path:
    """Return the file of an option of a config group.

    Raises :class:`DimsweepError` for an unknown option.
    """
    known = list_groups()
    if group not in known or group == "study":
        problem, hint = f"unknown group of presets {group!r}", suggest_names(group, known)
        raise DimsweepError(problem, hint=hint, code="unknown-name")
    if (file := find_option(group, name)) is not None:
        return file
    problem, hint = f"unknown {group} {name!r}", suggest_names(name, known[group])
    raise DimsweepError(problem, hint=hint, code="unknown-name")


def read_values(group: str, name: str) -> dict[str, Any]:
    """Return the keys of an option, merged over the options in its defaults list, as plain data."""
    return _merge_defaults(group, name)[0]


def read_figures(group: str, name: str) -> list[Figure]:
    """Return the numbers of an option, each with the source that the option's file names.

    Raises :class:`DimsweepError` for a source that conf/sources.yaml lacks.
    """
    values, sources = _merge_defaults(group, name)
    known = read_documents() if sources else {}
    found = dict(_part_sources(values)) | {
        key: _parse_source(text, known, f"{group}/{name}: {SOURCES}.{key}")
        for key, text in sources.items()
    }
    return [
        Figure(key, value, *_find_nearest_source(key, found)) for key, value in walk_numbers(values)
    ]


def _part_sources(values: Mapping[str, Any]) -> Iterator[tuple[str, tuple[Document, str]]]:
    """Yield the keys and sources of the prices and powers of parts.

    The source of a price is the source of its part.
    """
    parts = values.get("parts")
    for name, part in parts.items() if isinstance(parts, Mapping) else ():
        for key, kind in (("price", Price), ("watts", Watts)):
            if isinstance(part, Mapping) and part.get(key) is not None:
                with naming_key(f"parts.{name}.{key}"):
                    amount = kind.from_plain(part[key]).build()
                document = f"{amount.source} ({LEVELS[amount.level]})"
                source = Document(document=document, date=amount.date, evidence=Evidence.LISTED)
                yield (f"parts.{name}" if key == "price" else f"parts.{name}.{key}"), (source, "")


def walk_numbers(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield key and text of each number, quantity, shape, or list of these; dates are skipped."""
    for at, value in walk_keys(values):
        if at.endswith(".date"):
            continue
        if not isinstance(value, bool | Mapping) and _is_number(value):
            yield at, _format_value(value)


def is_at_or_above(source: str, at: str) -> bool:
    """Return whether the key ``source`` is the key ``at`` of a number or a key above it."""
    return at == source or at.startswith(f"{source}.")


def read_documents() -> dict[str, Document]:
    """Return the documents of all files conf/sources.yaml, by name.

    A document in the current folder replaces an installed one.
    """
    found: dict[str, Document] = {}
    for home in reversed(list_folders("conf")):
        if (file := home / "sources.yaml").is_file():
            found |= _read_document_file(file, file.stat().st_mtime_ns)
    return found


@lru_cache(maxsize=8)
def _read_document_file(file: Path, _changed: int) -> dict[str, Document]:
    """Return the documents of a file; the result is cached until ``_changed`` changes."""
    documents = OmegaConf.to_container(read_options(file).node)
    assert isinstance(documents, dict)
    found = {}
    for name, document in documents.items():
        with naming_key(f"{file}: {name!s}"):
            found[str(name)] = Document.from_plain(document)
    return found


def _merge_defaults(
    group: str, name: str, above: tuple[str, ...] = ()
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return values and sources of an option, merged over the options in its defaults list."""
    file = find_preset(group, name)
    if name in above:
        problem = "its defaults have no end: the file includes itself"
        raise DimsweepError(problem, where=str(file), code="conflict")
    node = read_options(file).node
    values: Any = DictConfig({})
    sources: dict[str, str] = {}
    for entry in node.get("defaults") or ():
        if isinstance(entry, str) and entry.startswith("kind/"):  # of workloads: the schema's own
            values = OmegaConf.merge(values, {"kind": entry.removeprefix("kind/")})
        elif isinstance(entry, str) and entry != "_self_":
            below, more = _merge_defaults(group, entry, (*above, name))
            values, sources = OmegaConf.merge(values, below), {**sources, **more}
    own = without_sources(node)
    own.pop("defaults", None)
    try:
        plain = OmegaConf.to_container(OmegaConf.merge(values, own), resolve=False)
    except OmegaConfBaseException as error:
        reason = str(error).partition("\n")[0]
        problem = f"its keys contradict the keys of its defaults: {reason}"
        raise DimsweepError(problem, where=str(file), code="wrong-type") from error
    assert isinstance(plain, dict)
    return {str(at): value for at, value in plain.items()}, {**sources, **_read_sources(node, file)}


def _read_sources(node: DictConfig, file: Path) -> dict[str, str]:
    own = node.get(SOURCES)
    if own is None:
        return {}
    if not isinstance(own, DictConfig) or not all(isinstance(text, str) for text in own.values()):
        problem = "it is not a mapping of keys to names of documents"
        hint = "such as {memory: h200_sheet (a quotation)}, with a name from conf/sources.yaml"
        raise DimsweepError(problem, where=f"{file}: {SOURCES}", hint=hint, code="wrong-type")
    return {str(at): text for at, text in own.items()}


def _parse_source(text: str, known: Mapping[str, Document], where: str) -> tuple[Document, str]:
    """Return the document named in ``NAME (statement)``, and the statement."""
    named = re.fullmatch(r"(\w+)(?: \((.*)\))?", text)
    if named is None or named[1] not in known:
        name = named[1] if named else text
        problem, hint = f"conf/sources.yaml has no document {name!r}", suggest_names(name, known)
        raise DimsweepError(problem, where=where, hint=hint, code="unknown-name")
    return known[named[1]], named[2] or ""


def _find_nearest_source(
    key: str, sources: Mapping[str, tuple[Document, str]]
) -> tuple[Document, str] | tuple[None, str]:
    """Return the source at the nearest key at or above ``key``; (None, "") if there is none."""
    above = [source for source in sources if is_at_or_above(source, key)]
    return sources[max(above, key=len)] if above else (None, "")


def _is_number(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_is_number, value))
    return isinstance(value, (int, float)) or bool(re.match(r"\d|\w+\(\d", str(value)))


def _format_value(value: Any) -> str:
    return f"[{', '.join(map(_format_value, value))}]" if isinstance(value, list) else str(value)
