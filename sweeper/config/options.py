"""Readers of the files of conf/ and studies/.

They refuse Hydra's own keys and name dimsweep's key for the same purpose.
"""

import io
import os
import pickle
import re
import time
from collections.abc import Hashable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from dimsweep.engine import DimsweepError
from dimsweep.engine.formats import explain_yaml, refuse_surprises

_SETTLED = 10**8  # ns after which a file that changes again has another time of change
_HINT = "such as [/workload: gpt3_libra, /search: tpe, _self_]"
_HEADER = re.compile(r"^#\s*@(.*)$", re.MULTILINE)
_PACKAGE = re.compile(r"package\s+([\w.]+)")
_GROUP = re.compile(r"(?:(?:optional|override)\s+)*(?!_self_@)/?[^\s/@:].*")

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


class Options(NamedTuple):
    """The keys of a file, and their package from its header (``# @package a.b``)."""

    node: DictConfig
    package: str | None


def read_options(file: Path) -> Options:
    """Return the keys of a file.

    Raises :class:`DimsweepError` that names the file unless it is a mapping of keys with a valid
    header and valid ``defaults``.
    """
    if (state := file_state(file)) is None:
        return _read(file)
    node, package = _read_pickled(file, state)
    return Options(pickle.loads(node), package)  # the caller's own


def file_state(file: str | Path) -> Hashable:
    """Return a value that changes with the file; None if it is missing, or too new to tell."""
    try:
        known = os.stat(file)
    except OSError:
        return None
    if time.time_ns() - known.st_mtime_ns < _SETTLED:
        return None
    return (str(file), known.st_dev, known.st_ino, known.st_mtime_ns, known.st_size)


@lru_cache(maxsize=512)
def _read_pickled(file: Path, _state: Hashable) -> tuple[bytes, str | None]:
    node, package = _read(file)
    return pickle.dumps(node), package


def _read(file: Path) -> Options:
    try:
        content = file.read_bytes()
    except OSError as error:
        raise DimsweepError(f"it cannot be read: {error.strerror}", where=str(file)) from error
    try:
        text = content.decode("utf-8-sig")
        refuse_surprises(text)
        node = OmegaConf.load(io.StringIO(text))
    except RecursionError as error:
        raise DimsweepError("it is nested too deeply", where=str(file)) from error
    except (yaml.YAMLError, OmegaConfBaseException, ValueError) as error:
        raise explain_yaml(error, file) from error
    except OSError:  # what OmegaConf raises for a number or a truth value alone
        node = None
    if not isinstance(node, DictConfig):
        hint = "write KEY: VALUE in each line"
        raise DimsweepError("it is no mapping of keys", where=str(file), hint=hint)
    package = _package(text, file)
    if not node and yaml.safe_load(text) is None:
        hint = "write KEY: VALUE in each line, or {} where nothing is to be set"
        raise DimsweepError("it says nothing", where=str(file), hint=hint)
    keys: Any = OmegaConf.to_container(node)
    if "defaults" in keys:
        _check_defaults(keys, f"{file}: defaults")
    if (key := _find_hydra_key(keys, package)) is not None:
        raise hydra_key_error(key, str(file))
    return Options(node, package)


def _package(text: str, file: Path) -> str | None:
    header = _HEADER.search(text)
    if header is None:
        return None
    found = _PACKAGE.fullmatch(header[1].strip())
    if found is None:
        what = f"{header[0]!r} is no header"
        raise DimsweepError(what, where=str(file), hint="such as: # @package _global_")
    return found[1]


def _check_defaults(keys: Any, where: str) -> None:
    """Raise :class:`DimsweepError` for a defaults list that Hydra cannot read."""
    if not isinstance(keys["defaults"], list):
        raise DimsweepError("defaults is a list of options", where=where, hint=_HINT)
    for item in keys["defaults"]:
        entry = item if isinstance(item, dict) else {item: None} if isinstance(item, str) else {}
        if len(entry) != 1:
            raise DimsweepError(f"{item!r} is not one option", where=where, hint=_HINT)
        ((group, chosen),) = entry.items()
        if not isinstance(group, str) or not _GROUP.fullmatch(group):
            raise DimsweepError(f"{group!r} is no group", where=where, hint=_HINT)
        for option in chosen if isinstance(chosen, list) else [chosen]:
            if not isinstance(option, str | None) or "\0" in (option or ""):
                raise DimsweepError(f"{option!r} is no option", where=where, hint=_HINT)


def hydra_key_error(key: str, file: str = "") -> DimsweepError:
    """Return the error for one of Hydra's own keys, such as ``hydra.sweeper.params`` or
    ``hydra/launcher``, on the command line or in a ``file``."""
    dotted = key.replace("/", ".")
    hint = next((hint for start, hint in _INSTEAD.items() if dotted.startswith(start)), _OTHERS)
    what = "dimsweep starts and logs its runs itself, so it does not read Hydra's key"
    return DimsweepError(what, where=f"{file}: {key}" if file else key, hint=hint)


def _find_hydra_key(keys: Mapping[Any, Any], package: str | None) -> str | None:
    """Return the first of Hydra's own keys that a file's ``keys`` set below its ``package``, or
    that its defaults choose an option for; None where they have none."""
    if package is not None and package.split(".")[0] == "hydra":
        return package
    if "hydra" in keys:
        return _full_hydra_key("hydra", keys["hydra"])
    for entry in keys.get("defaults") or ():
        group = next(iter(entry)) if isinstance(entry, Mapping) else str(entry)
        name = str(group).split()[-1].lstrip("/").partition("@")[0]
        if name.split("/")[0] == "hydra":
            return name
    return None


def _full_hydra_key(key: str, node: Any) -> str:
    """Return the first key below ``key``, two levels deep: ``hydra.sweeper.params``."""
    while isinstance(node, Mapping) and node and key.count(".") < 2:
        name = next(iter(node))
        key, node = f"{key}.{name}", node[name]
    return key
