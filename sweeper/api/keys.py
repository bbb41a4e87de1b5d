"""Convert keys and values given in Python to overrides of the command line."""

import json
import re
from collections.abc import Mapping
from typing import Any

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.config.compose import ComposedConfig, compose
from dimsweep.sweeper.config.explain import suggest_override
from dimsweep.sweeper.config.overrides import format_choice, is_group


def compose_keys(
    keys: Mapping[str, Any], overrides: tuple[str, ...], *, may_sweep: bool = False
) -> ComposedConfig:
    """Return the configuration with ``keys`` and then ``overrides`` applied.

    Overrides may have several values. A config group's key with a text chooses an option of it, and
    with a mapping sets its keys. Other keys, which may be dotted, have the value that YAML would
    give them. Raises :class:`DimsweepError` naming the wrong key.
    """
    for word in overrides:
        _check_word(word)
    words = [word for item in keys.items() for word in _overrides(*item)]
    return compose([*words, *overrides], may_sweep=may_sweep)


def _check_word(word: Any) -> None:
    """Raise :class:`DimsweepError` for an override that neither sets nor removes a key."""
    if not isinstance(word, str):
        hint = (
            "keys have names: simulate(workload='all_reduce', **{'topology.bandwidth': '1 GB/s'})"
        )
        raise DimsweepError(
            f"{word!r} is not an override", where="overrides", hint=hint, code="wrong-type"
        )
    if "=" not in word and not word.startswith("~"):
        hint = f"did you mean {suggest_override(word)!r}?"
        raise DimsweepError(
            f"{word!r} sets no key", where="overrides", hint=hint, code="bad-syntax"
        )


def _overrides(key: str, value: Any) -> list[str]:
    """Return the overrides for a key and its value; an option of a group is not quoted."""
    if not is_group(key):
        return [f"{key}={_written(value)}"]
    if isinstance(value, Mapping):
        return [f"{key}.{name}={_written(each)}" for name, each in value.items()]
    return [format_choice(key, value) if isinstance(value, str) else f"{key}={_written(value)}"]


def _written(value: Any) -> str:
    """Return a value in Hydra's grammar; keys of mappings have escapes instead of quotes."""
    if isinstance(value, Mapping):
        keys = [re.sub(r"([\\()\[\]{}:=, \t])", r"\\\1", str(key)) for key in value]
        pairs = zip(keys, value.values(), strict=True)
        return f"{{{','.join(f'{key}:{_written(each)}' for key, each in pairs)}}}"
    if isinstance(value, (list, tuple)):
        return f"[{','.join(map(_written, value))}]"
    return json.dumps(value, ensure_ascii=False)
