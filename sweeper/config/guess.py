"""What was meant by a name that the configuration does not have."""

import difflib
from collections.abc import Mapping
from typing import Any

from omegaconf import DictConfig, OmegaConf

from dimsweep.engine import DimsweepError, nearest, suggestion
from dimsweep.engine.workload import AXES
from dimsweep.sweeper.config.aliases import ALIASES
from dimsweep.sweeper.config.parts.part import keys_in
from dimsweep.sweeper.config.parts.places import groups
from dimsweep.sweeper.config.schema import Config

# What others call the size of a cluster.
_SIZES = {"npus", "gpus", "n_npus", "n_gpus", "num_npus", "num_gpus", "ranks", "world_size"}
_SHORT, _ALIKE = 3, 0.7  # letters of a name that any other is like; from which on names are alike
_MOST = 3  # keys that end alike and are all told


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


def _has(plain: Any, key: str) -> bool:
    """Return whether a configuration takes a key: it has the key, or its plan has such an axis."""
    part, _, name = key.rpartition(".")
    if not part:
        return key in Config.model_fields or key in groups()
    if part == "workload.parallel" and plain.get("workload", {}).get("kind") == "model":
        return name in AXES
    return any(key == each or each.startswith(f"{key}.") for each, _ in keys_in(plain))


def refuse_unknown(name: str, node: DictConfig | Mapping[str, Any]) -> None:
    """Raise :class:`DimsweepError` for a dotted key in none of the parts of a configuration, with
    the keys that end like it."""
    first, known = name.split(".")[0], list(Config.model_fields)
    if first in known:
        return
    plain = OmegaConf.to_container(node) if isinstance(node, DictConfig) else node
    keys = [key for key, _ in keys_in(plain)]
    meant = [key for key in [ALIASES.get(name.lower().replace("-", "_"), "")] if _has(plain, key)]
    meant = meant or [key for key in keys if key.endswith(f".{name}")]
    if not meant and nearest(first, known):
        raise DimsweepError("unknown key", where=first, hint=suggestion(first, known))
    if not meant and len(name) > _SHORT:
        last = {key.rsplit(".", 1)[-1]: key for key in reversed(keys)}
        close = difflib.get_close_matches(name.rsplit(".", 1)[-1], last, n=1, cutoff=_ALIKE)
        meant = [last[end] for end in close]
    told = f"did you mean {' or '.join(map(repr, meant[:_MOST]))}? " if meant else ""
    if first.lower() in _SIZES:
        told = "topology.shape says the size, or nodes= with cluster=; "
    hint = f"{told}known: {', '.join(Config.model_fields)}"
    raise DimsweepError("unknown key", where=name, hint=hint)
