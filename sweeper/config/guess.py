"""What was meant by a name that the configuration does not have."""

import difflib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from engine import DimsweepError, suggestion
from sweeper.config.schema import Config

_MOST = 3  # keys that end alike and are all told

_MISSING = re.compile(
    r"Could not find '(?:.*/)?(?P<name>[^/']*)'.*?Available options in "
    r"'(?P<group>[^']*)':(?P<options>.*?)(?:Config search path|$)",
    re.DOTALL,
)


def explain_missing(text: str) -> DimsweepError | None:
    """Hydra's message about an option that a group does not have, in our words."""
    found = _MISSING.search(text)
    if found is None:
        return None
    name, group = found["name"], found["group"]
    hint = suggestion(Path(name).stem, found["options"].split())
    return DimsweepError(f"there is no {group} {name!r}", where=f"{group}={name}", hint=hint)


def refuse_unknown(name: str, node: DictConfig) -> None:
    """Raise :class:`DimsweepError` for a dotted key in none of the parts of a configuration, with
    the keys that end like it."""
    first, known = name.split(".")[0], list(Config.model_fields)
    if first in known or difflib.get_close_matches(first, known, n=1):
        return
    keys = list(_keys(OmegaConf.to_container(node)))
    meant = [key for key in keys if key.endswith(f".{name}")]
    if not meant:
        last = {key.rsplit(".", 1)[-1]: key for key in reversed(keys)}
        meant = [last[end] for end in difflib.get_close_matches(name.rsplit(".", 1)[-1], last, n=1)]
    told = f"did you mean {' or '.join(map(repr, meant[:_MOST]))}? " if meant else ""
    hint = f"{told}known: {', '.join(Config.model_fields)}"
    raise DimsweepError("unknown key", where=name, hint=hint)


def _keys(node: Any, place: str = "") -> Iterator[str]:
    """All dotted keys of plain data, parts before what is in them."""
    if isinstance(node, Mapping):
        for name, value in node.items():
            key = f"{place}.{name}".removeprefix(".")
            yield key
            yield from _keys(value, key)
