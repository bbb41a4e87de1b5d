"""Hydra's own keys: refuse them, and name the key of dimsweep that does the same."""

from collections.abc import Mapping
from typing import Any

from dimsweep.engine import DimsweepError

SEARCH_PATH = "hydra.searchpath"
# By the start of the key; the first that fits.
_INSTEAD = {
    "hydra.sweeper.params": "write an axis as `grid: {KEY: [A, B]}`, a range that is searched as "
    "`space: {parameters: {KEY: {low: A, high: B}}}`; or give KEY=A,B on the command line",
    "hydra.sweeper": "`search` chooses the sampler, `budget.trials` the number of trials",
    "hydra.launcher": "`executor` says where trials run",
    SEARCH_PATH: f"on the command line, --config-dir DIR or {SEARCH_PATH}=[DIR] adds a folder",
}
_OTHERS = f"`results` and `name` say where results go, `executor` where trials run; {SEARCH_PATH} "
_OTHERS += "has folders beside conf/, on the command line only"


def refuse_hydras(key: str, file: str = "") -> DimsweepError:
    """Return the error for one of Hydra's own keys, such as ``hydra.sweeper.params`` or
    ``hydra/launcher``, on the command line or in a ``file``."""
    dotted = key.replace("/", ".")
    hint = next((hint for start, hint in _INSTEAD.items() if dotted.startswith(start)), _OTHERS)
    what = "dimsweep starts and logs its runs itself, so it does not read Hydra's key"
    return DimsweepError(what, where=f"{file}: {key}" if file else key, hint=hint)


def first_hydras(keys: Mapping[Any, Any], package: str | None) -> str | None:
    """Return the first of Hydra's own keys that a file's ``keys`` set below its ``package``, or
    that its defaults choose an option for; None where they have none."""
    if package is not None and package.split(".")[0] == "hydra":
        return package
    if "hydra" in keys:
        return _deepest("hydra", keys["hydra"])
    for entry in keys.get("defaults") or ():
        group = next(iter(entry)) if isinstance(entry, Mapping) else str(entry)
        name = str(group).split()[-1].lstrip("/").partition("@")[0]
        if name.split("/")[0] == "hydra":
            return name
    return None


def _deepest(key: str, node: Any) -> str:
    """The first key below ``key``, two levels deep: ``hydra.sweeper.params``."""
    while isinstance(node, Mapping) and node and key.count(".") < 2:
        name = next(iter(node))
        key, node = f"{key}.{name}", node[name]
    return key
