"""Read the YAML files of conf/ and studies/.

Hydra's own keys are rejected, with a hint that names dimsweep's key for the same purpose.
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

_SETTLED = 10**8  # ns after which another change surely has another time stamp
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
    "hydra.launcher": "`executor` chooses where trials run",
    SEARCH_PATH: f"on the command line, --config-dir DIR or {SEARCH_PATH}=[DIR] adds a folder",
}
_OTHERS = "`results` and `name` choose the folder of results, `executor` the place of trials; "
_OTHERS += f"{SEARCH_PATH} adds folders to conf/, on the command line only"


class Options(NamedTuple):
    """The keys of an option's file, and its package from the header (``# @package a.b``)."""

    node: DictConfig
    package: str | None


def read_options(file: Path) -> Options:
    """Return the keys of an option's file.

    Raises :class:`DimsweepError` naming the file if it is not a mapping of keys, or if its header
    or its ``defaults`` are invalid.
    """
    if (state := file_state(file)) is None:
        return _read(file)
    node, package = _read_pickled(file, state)
    return Options(pickle.loads(node), package)  # a copy for the caller


def file_state(file: str | Path) -> Hashable:
    """Return a value that changes whenever a file changes.

    It is None if the file is missing, or was written too recently to detect another change.
    """
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
        problem = f"it cannot be read: {error.strerror}"
        raise DimsweepError(problem, where=str(file), code="inaccessible") from error
    try:
        text = content.decode("utf-8-sig")
        refuse_surprises(text)
        node = OmegaConf.load(io.StringIO(text))
    except RecursionError as error:
        problem = "it is nested too deeply"
        raise DimsweepError(problem, where=str(file), code="too-many") from error
    except (yaml.YAMLError, OmegaConfBaseException, ValueError) as error:
        raise explain_yaml(error, file) from error
    except OSError:  # OmegaConf raises it for a single number or truth value
        node = None
    if not isinstance(node, DictConfig):
        problem, hint = "it is not a mapping of keys", "write KEY: VALUE in each line"
        raise DimsweepError(problem, where=str(file), hint=hint, code="wrong-type")
    package = _package(text, file)
    if not node and yaml.safe_load(text) is None:
        hint = "write KEY: VALUE in each line, or {} to set no key"
        raise DimsweepError("it is empty", where=str(file), hint=hint, code="missing")
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
        problem, hint = f"{header[0]!r} is not a valid header", "such as: # @package _global_"
        raise DimsweepError(problem, where=str(file), hint=hint, code="bad-syntax")
    return found[1]


def _check_defaults(keys: Any, where: str) -> None:
    """Raise :class:`DimsweepError` for a defaults list that Hydra cannot read."""
    if not isinstance(keys["defaults"], list):
        raise _defaults_error("they must be a list of options", where)
    for item in keys["defaults"]:
        entry = item if isinstance(item, dict) else {item: None} if isinstance(item, str) else {}
        if len(entry) != 1:
            raise _defaults_error(f"{item!r} is not one option", where)
        ((group, chosen),) = entry.items()
        if not isinstance(group, str) or not _GROUP.fullmatch(group):
            raise _defaults_error(f"{group!r} is not a group", where)
        for option in chosen if isinstance(chosen, list) else [chosen]:
            if not isinstance(option, str | None) or "\0" in (option or ""):
                raise _defaults_error(f"{option!r} is not an option", where)


def _defaults_error(problem: str, where: str) -> DimsweepError:
    return DimsweepError(problem, where=where, hint=_HINT, code="wrong-type")


def hydra_key_error(key: str, file: str = "") -> DimsweepError:
    """Return the error for one of Hydra's own keys, on the command line or in a ``file``.

    Such keys are ``hydra.sweeper.params`` and ``hydra/launcher``.
    """
    dotted = key.replace("/", ".")
    hint = next((hint for start, hint in _INSTEAD.items() if dotted.startswith(start)), _OTHERS)
    problem = "dimsweep starts and logs its runs itself, so it does not read Hydra's key"
    where = f"{file}: {key}" if file else key
    return DimsweepError(problem, where=where, hint=hint, code="unsupported")


def _find_hydra_key(keys: Mapping[Any, Any], package: str | None) -> str | None:
    """Return the first of Hydra's own keys that a file sets, or chooses an option for.

    It is None otherwise.
    """
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
    """Return ``key`` with the names of the first keys below it: ``hydra.sweeper.params``."""
    while isinstance(node, Mapping) and node and key.count(".") < 2:
        name = next(iter(node))
        key, node = f"{key}.{name}", node[name]
    return key
