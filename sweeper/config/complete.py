"""What an override may become that somebody is typing."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from engine import DimsweepError
from sweeper.config.compose import composed_files
from sweeper.config.parts.places import groups


def completions(typed: Sequence[str], incomplete: str) -> list[str]:
    """How ``incomplete`` may go on after the overrides that are ``typed`` already.

    A key goes on by one level (``collective.`` or ``collective.chunks=``), as the options that are
    typed have keys; a group of options goes on with them (``workload=gpt3_175b``).
    """
    if "=" in incomplete:
        name = incomplete.partition("=")[0]
        found = [f"{name}={option}" for option in groups().get(name, ())]
    else:
        found = list(_keys(_composed(typed), incomplete.rpartition(".")[0]))
        found += [f"{name}=" for name in groups() if "." not in incomplete]
        found = list(dict.fromkeys(found))
    return [word for word in found if word.startswith(incomplete)]


def _composed(typed: Sequence[str]) -> Any:
    """All keys under the overrides; without them where they cannot be composed."""
    try:
        return composed_files(typed)
    except DimsweepError:
        return composed_files(())


def _keys(node: Any, parent: str) -> Iterator[str]:
    for name in parent.split(".") if parent else ():
        node = node.get(name) if isinstance(node, Mapping) else None
    known = groups() if not parent else ()
    for name, value in node.items() if isinstance(node, Mapping) else ():
        key = f"{parent}.{name}".removeprefix(".")
        if isinstance(value, Mapping) and value:
            yield f"{key}."
        if name in known or not isinstance(value, Mapping) or not value:
            yield f"{key}="
