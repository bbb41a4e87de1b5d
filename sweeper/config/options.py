"""The files of a configuration, a study or an option of a group, as a user wrote them."""

import io
import os
import pickle
import re
import time
from collections.abc import Hashable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from dimsweep.engine import DimsweepError
from dimsweep.engine.formats import explain_yaml, refuse_surprises
from dimsweep.sweeper.config.hydra_keys import first_hydras, refuse_hydras

_SETTLED = 10**8  # ns after which a file that changes again has another time of change
_HINT = "such as [/workload: gpt3_libra, /search: tpe, _self_]"
_HEADER = re.compile(r"^#\s*@(.*)$", re.MULTILINE)
_PACKAGE = re.compile(r"package\s+([\w.]+)")
_GROUP = re.compile(r"(?:(?:optional|override)\s+)*(?!_self_@)/?[^\s/@:].*")


class Options(NamedTuple):
    """The keys of a file, and where its header says that they go (``# @package a.b``)."""

    node: DictConfig
    package: str | None


def read_options(file: Path) -> Options:
    """What a file says; raises :class:`DimsweepError` naming it unless that is a mapping of keys
    whose header and ``defaults`` Hydra can read."""
    if (state := state_of(file)) is None:
        return _read(file)
    node, package = _pickled(file, state)
    return Options(pickle.loads(node), package)  # the caller's own


def state_of(file: str | Path) -> Hashable:
    """Changes with every change of a file; None where it is not there, or so new that another
    change may not show."""
    try:
        known = os.stat(file)
    except OSError:
        return None
    if time.time_ns() - known.st_mtime_ns < _SETTLED:
        return None
    return (str(file), known.st_dev, known.st_ino, known.st_mtime_ns, known.st_size)


@lru_cache(maxsize=512)
def _pickled(file: Path, _state: Hashable) -> tuple[bytes, str | None]:
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
    if (key := first_hydras(keys, package)) is not None:
        raise refuse_hydras(key, str(file))
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
    """What Hydra asserts, or takes for granted."""
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
