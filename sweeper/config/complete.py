"""Shell completion of overrides (KEY=VALUE)."""

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
    """Return the completions of the word ``incomplete``, after the overrides ``typed`` before it.

    A key is completed by one level (``collective.`` or ``collective.chunks=``); options typed
    before determine the keys. A config group is completed with its options
    (``workload=gpt3_175b``). A key whose values are names is completed with the names
    (``fidelity=packet``), also after a comma. A word without a key is completed to a study's name
    unless a study is typed already.
    """
    if any(word.startswith("plugins=") for word in typed):
        _compose_leniently(typed)  # finds the presets of the plug-ins
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
    """Return the names that are valid values of ``key``; [] if its values are not names."""
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
    """Yield the names that are valid values of the annotated type ``kind``."""
    if isinstance(kind, str):
        yield kind
    elif isinstance(kind, ValueParser):
        yield from kind.choices
    elif kind is bool:
        yield from ("true", "false")
    for each in get_args(kind):
        yield from _choices(each)


def _compose_leniently(typed: Sequence[str]) -> Any:
    """Return the configuration composed under the overrides ``typed`` so far.

    If they cannot be composed, return the configuration without them.
    """
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
