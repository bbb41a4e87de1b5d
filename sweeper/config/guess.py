"""What was meant by a name that the configuration does not have."""

import difflib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from dimsweep.engine import DimsweepError, nearest, suggestion
from dimsweep.sweeper.config.parts.part import keys_in
from dimsweep.sweeper.config.parts.places import find_option, find_study, groups, homes
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.config.workload import KINDS

# What others call the size of a cluster.
_SIZES = {"npus", "gpus", "n_npus", "n_gpus", "num_npus", "num_gpus", "ranks", "world_size"}
_MOST = 3  # keys that end alike and are all told

_MISSING = re.compile(
    r"Could not find '(?:.*/)?(?P<name>[^/']*)'.*?Available options in "
    r"'(?P<group>[^']*)':(?P<options>.*?)(?:Config search path|$)",
    re.DOTALL,
)
_NO_GROUP = re.compile(r"In '(?P<file>[^']*)': Could not override '(?P<group>[^']*)'")
_NO_SLASH = re.compile(r"In '(?P<file>study/[^']*)': Could not find 'study/(?P<entry>[^']+)'")
_NO_KIND = re.compile(r"In '(?P<file>[^']*)': Could not (?:load|find) '[^']*kind/(?P<kind>[^']*)'")
_ALIKE = 0.7  # a name that is less like it comes after those whose files speak of it


def explain_missing(text: str) -> DimsweepError | None:
    """Hydra's message about an option, a group or a kind that there is not, in our words."""
    if found := _NO_KIND.search(text):
        what, hint = (
            f"there is no kind of workload {found['kind']!r}",
            suggestion(found["kind"], KINDS),
        )
    elif found := _NO_GROUP.search(text):
        what, hint = f"there is no group {found['group']!r}", suggestion(found["group"], groups())
    elif found := _NO_SLASH.search(text):
        group, _, option = found["entry"].partition("/")
        what = f"{group!r} in its defaults is no group of studies"
        hint = f"write override /{group}: {option}"
    elif found := _MISSING.search(text):
        name, group = Path(found["name"]).stem, found["group"]
        what, hint = f"there is no {group} {found['name']!r}", _meant(name, group, found["options"])
        return DimsweepError(what, where=f"{group}={found['name']}", hint=hint)
    else:
        return None
    return DimsweepError(what, where=f"{file_of(found['file'])}: defaults", hint=hint)


def file_of(option: str) -> str:
    """The file of an option of a group such as study/x, where there is one."""
    group, _, name = option.rpartition("/")
    study = find_study(name) if group == "study" else None
    return str(study or find_option(group, name) or option)


def meant_by(word: str) -> str:
    """The override that a word without a key may stand for: an option like it, or whose name begins
    with it."""
    known = groups()
    options = {name: f"{group}={name}" for group in reversed(known) for name in known[group]}
    options |= {name: f"study={name}" for name in known["study"]}
    if close := difflib.get_close_matches(word, options, n=1, cutoff=0.8):
        return options[close[0]]
    begins = [name for name in sorted(options) if name.startswith(word.lower())]
    return options[begins[0]] if len(word) > 2 and begins else "KEY=VALUE"


def _meant(name: str, group: str, options: str) -> str:
    """A hint for a name of no option: a name like it, or options whose files speak of it."""
    names = options.split()
    close = nearest(name, names, _ALIKE)
    told = [close] if close else list(_described(name, group, names))[:_MOST]
    if not told:
        return suggestion(name, names)
    return f"did you mean {' or '.join(map(repr, told))}? known: {', '.join(names)}"


def _described(word: str, group: str, names: list[str]) -> Iterator[str]:
    """The options of a group in whose comments a word begins with ``word``."""
    if len(word) < 3:
        return
    said = re.compile(rf"#.*\b{re.escape(word)}", re.IGNORECASE)
    for name in names:
        for file in (home / group / f"{name}.yaml" for home in homes("conf")):
            if file.is_file() and said.search(file.read_text("utf-8", "replace")):
                yield name
                break


def refuse_unknown(name: str, node: DictConfig | Mapping[str, Any]) -> None:
    """Raise :class:`DimsweepError` for a dotted key in none of the parts of a configuration, with
    the keys that end like it."""
    first, known = name.split(".")[0], list(Config.model_fields)
    if first in known:
        return
    plain = OmegaConf.to_container(node) if isinstance(node, DictConfig) else node
    keys = [key for key, _ in keys_in(plain)]
    meant = [key for key in keys if key.endswith(f".{name}")]
    if not meant and nearest(first, known):
        raise DimsweepError("unknown key", where=first, hint=suggestion(first, known))
    if not meant:
        last = {key.rsplit(".", 1)[-1]: key for key in reversed(keys)}
        meant = [last[end] for end in difflib.get_close_matches(name.rsplit(".", 1)[-1], last, n=1)]
    told = f"did you mean {' or '.join(map(repr, meant[:_MOST]))}? " if meant else ""
    if first.lower() in _SIZES:
        told = "topology.shape says the size, or nodes= with cluster=; "
    hint = f"{told}known: {', '.join(Config.model_fields)}"
    raise DimsweepError("unknown key", where=name, hint=hint)
