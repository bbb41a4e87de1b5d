"""What an override may become that somebody is typing."""

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, get_args

from omegaconf import OmegaConf

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.config.compose import compose_keys
from dimsweep.sweeper.config.reference import key_type, walk_parts
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.config.workload import KINDS, Workload
from dimsweep.sweeper.part import ValueParser
from dimsweep.sweeper.places import list_groups

# Keys whose values are the names of a registry.
_REGISTERED = {
    "objective": ("dimsweep.sweeper.objective", "OBJECTIVES"),
    "memory.kind": ("dimsweep.engine.cluster.remote_memory", "MEMORIES"),
    "search.sampler": ("dimsweep.sweeper.search.choose", "SAMPLERS"),
    "workload.model.family": ("dimsweep.sweeper.config.workload.model", "FAMILIES"),
}


def complete_override(typed: Sequence[str], incomplete: str) -> list[str]:
    """How ``incomplete`` may go on after the overrides that are ``typed`` already.

    A key goes on by one level (``collective.`` or ``collective.chunks=``), as the options that are
    typed have keys; a group of options goes on with them (``workload=gpt3_175b``), and a key that
    is one of a few names with these (``fidelity=packet``), after a comma, too.  A word without a
    key may become the study, unless one is typed.
    """
    if any(word.startswith("plugins=") for word in typed):
        _compose_leniently(typed)  # finds the presets that they bring along
    known = list_groups()
    if "=" in incomplete:
        name, _, value = incomplete.partition("=")
        before = incomplete[: len(incomplete) - len(value.rpartition(",")[2])]
        values = known[name] if name in known else _values(typed, name)
        found = [before + value for value in values]
    else:
        found = list(_complete_key(_compose_leniently(typed), incomplete.rpartition(".")[0]))
        if "." not in incomplete:
            found += [f"{name}=" for name in known]
            named = any(word.startswith("study=") for word in typed)
            found += [] if named else known["study"]
        found = list(dict.fromkeys(found))
    return [word for word in found if word.startswith(incomplete)]


def _values(typed: Sequence[str], key: str) -> list[str]:
    """The names of which a key is one, if there are any."""
    if key in _REGISTERED:
        module, registry = _REGISTERED[key]
        return list(getattr(import_module(module), registry))
    part: Any = Config
    *path, last = key.split(".")
    for name in path:
        part = next(walk_parts(key_type(part, name)), None)
        if part is Workload:
            part = KINDS.get(_compose_leniently(typed).get("workload", {}).get("kind", ""))
    return list(_choices(key_type(part, last)))


def _choices(kind: Any) -> Iterator[str]:
    """The names that a type has."""
    if isinstance(kind, str):
        yield kind
    elif isinstance(kind, ValueParser):
        yield from kind.choices
    elif kind is bool:
        yield from ("true", "false")
    for each in get_args(kind):
        yield from _choices(each)


def _compose_leniently(typed: Sequence[str]) -> Any:
    """All keys under the overrides; without them where they cannot be composed."""
    try:
        return OmegaConf.to_container(compose_keys(typed))
    except DimsweepError:
        return OmegaConf.to_container(compose_keys(()))


def _complete_key(node: Any, parent: str) -> Iterator[str]:
    for name in parent.split(".") if parent else ():
        node = node.get(name) if isinstance(node, Mapping) else None
    known = list_groups() if not parent else ()
    for name, value in node.items() if isinstance(node, Mapping) else ():
        key = f"{parent}.{name}".removeprefix(".")
        if isinstance(value, Mapping) and value:
            yield f"{key}."
        if name in known or not isinstance(value, Mapping) or not value:
            yield f"{key}="
