"""Composing a configuration with Hydra: conf/, studies/, and overrides from the command line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import yaml
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from hydra.errors import HydraException, OverrideParseException
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from engine import DimsweepError, suggestion
from sweeper.config import schema

ROOT = "dimsweep"
_HERE = Path(__file__).resolve().parent.parent
_registered: dict[str, tuple[Path, int]] = {}  # study -> its file and when that changed


def homes(folder: str) -> list[Path]:
    """Where ``folder`` (conf or studies) may lie: the current folder first, then the installation.

    A wheel carries both inside the package; in a checkout they lie beside it.
    """
    installed = _HERE / folder if (_HERE / folder).is_dir() else _HERE.parent / folder
    mine = Path.cwd() / folder
    same = mine.resolve() == installed.resolve()
    return [mine, installed] if mine.is_dir() and not same else [installed]


def found(path: str) -> Path:
    """A file (or the prefix of files) as a configuration names it: as given, or beside the
    studies."""
    for place in (Path(path), *(home / path for home in homes("studies"))):
        if place.exists() or any(place.parent.glob(f"{place.name}.*")):
            return place
    return Path(path)


@dataclass(frozen=True)
class Composed:
    """A resolved configuration, the overrides that made it, and where its parts came from."""

    config: DictConfig
    overrides: tuple[str, ...]
    choices: dict[str, str]

    @property
    def study(self) -> str | None:
        study = self.choices.get("study", "none")
        return None if study == "none" else study

    @property
    def overridden(self) -> list[str]:
        """The keys of the overrides."""
        return [override.lstrip("+~").split("=", 1)[0] for override in self.overrides]

    def blame(self, error: DimsweepError) -> DimsweepError:
        """The same error, with the file that its key came from."""
        where = f"{error.where} (in {self.source(error.where)})" if error.where else ""
        return type(error)(error.what, where=where, hint=error.hint)

    def source(self, key: str) -> str:
        """The file (or the command line) that most likely set ``key``."""
        group = re.split(r"[.\[]", key, maxsplit=1)[0]
        for override in self.overrides:
            name = override.lstrip("+~").split("=", 1)[0]
            if name == key or key.startswith(tuple(f"{name}{mark}" for mark in ".[ :")):
                return f"the override {override!r}"
        study = self.study and find_study(self.study)
        if study and group in (yaml.safe_load(study.read_text()) or {}):
            return str(study)
        for home in homes("conf"):
            file = home / group / f"{self.choices.get(group)}.yaml"
            if file.is_file():
                return str(file)
        return "the configuration"


class _SearchPath(SearchPathPlugin):
    """Lets the user's own conf/ folder come before the installed one."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for home in homes("conf")[:-1]:
            search_path.prepend("dimsweep-user", f"file://{home}")


def compose(overrides: Sequence[str]) -> Composed:
    """The configuration under Hydra ``overrides`` such as ``study=x`` and ``topology.shape=...``.

    Raises :class:`DimsweepError` naming the file and the key that are wrong.
    """
    with hydra(overrides):
        try:
            config = hydra_compose(
                ROOT, overrides=[_for_hydra(o) for o in overrides], return_hydra_config=True
            )
            choices = dict(config.hydra.runtime.choices)
            plain = OmegaConf.masked_copy(config, [str(k) for k in config if k != "hydra"])
            OmegaConf.resolve(plain)
        except (HydraException, OmegaConfBaseException) as error:
            raise _explain(error) from error
        except yaml.YAMLError as error:
            raise DimsweepError(f"a configuration file is not YAML: {error}") from error
    composed = Composed(plain, tuple(overrides), choices)
    _check_keys(composed, plain, "")
    return composed


def _check_keys(composed: Composed, node: Any, path: str) -> None:
    """Refuse keys that no schema knows (Hydra's + adds them unseen) and values still missing."""
    known = OmegaConf.get_type(node)
    in_list = isinstance(node, ListConfig)
    for key in range(len(node)) if in_list else node:
        here = f"{path}[{key}]" if in_list else f"{path}.{key}".removeprefix(".")
        if is_dataclass(known) and key not in (names := [f.name for f in fields(known)]):
            raise composed.blame(
                DimsweepError(
                    "unknown key",
                    where=here,
                    hint=suggestion(str(key), names),
                )
            )
        if OmegaConf.is_missing(node, key):
            raise composed.blame(DimsweepError("this key needs a value", where=here))
        if isinstance(node[key], (DictConfig, ListConfig)):
            _check_keys(composed, node[key], here)


@contextmanager
def hydra(overrides: Sequence[str] = ()) -> Iterator[None]:
    """Hydra, initialised on our configuration folders; ``overrides`` tell which study matters."""
    schema.register()
    _register_studies(overrides)
    Plugins.instance().register(_SearchPath)
    with initialize_config_dir(str(homes("conf")[-1]), version_base="1.3"):
        yield


def find_study(name: str) -> Path | None:
    """The file of a study: a name in studies/, or the path of a file."""
    for home in (*homes("studies"), Path()):
        for file in (home / f"{name}.yaml", home / name):
            if file.is_file() and file.suffix in (".yaml", ".yml"):
                return file
    return None


def study_names() -> list[str]:
    """Names of all studies in the current folder's studies/ and in the installed one."""
    return sorted({file.stem for home in homes("studies") for file in home.glob("*.yaml")})


def _register_studies(overrides: Sequence[str]) -> None:
    """Offer every file in studies/ as Hydra's config group ``study``."""
    wanted = {o.split("=", 1)[1] for o in overrides if o.startswith("study=")}
    for name in {*study_names(), *wanted}:
        file = find_study(name)
        if file is None:
            continue  # Hydra lists the ones that there are
        version = (file, file.stat().st_mtime_ns)
        if _registered.get(file.stem) == version:
            continue  # a grid composes a configuration for every cell
        try:
            node = OmegaConf.load(file)
            if not isinstance(node, DictConfig):
                raise DimsweepError("a study is a mapping of keys", where=str(file))
        except (yaml.YAMLError, OmegaConfBaseException, OSError, UnicodeDecodeError) as error:
            if name in wanted:
                raise DimsweepError(f"it is not YAML: {error}", where=str(file)) from error
            continue
        ConfigStore.instance().store(file.stem, node, group="study", package="_global_")
        _registered[file.stem] = version


def _for_hydra(override: str) -> str:
    """An override as Hydra's grammar wants it.

    A study may be given as a path, but Hydra knows it by its name; and Hydra would take the
    brackets in a shape such as Ring(4)_Switch(8) for a function call.
    """
    key, _, value = override.partition("=")
    if key == "study" and value.endswith((".yaml", ".yml")):
        return f"{key}={Path(value).stem}"
    if re.match(r"workload\.(parallel|model)\.\w+$", key):
        return f"++{override}"  # an axis or a field that the preset does not name
    if re.fullmatch(r"\w+\(\w*\)(_\w+\(\w*\))*", value):
        return f"{key}='{value}'"
    return override


def _explain(error: Exception) -> DimsweepError:
    """Hydra's own message, which names the file or override, with the cause that names the key."""
    text, cause = str(error).strip(), error.__cause__
    hint = ""
    if cause is not None and (detail := str(cause).splitlines()):
        text = f"{text.splitlines()[0].rstrip('.:')}: {detail[0]}"
        match = re.search(r"Key '(\S+)' not in '(\w+)'", detail[0])
        node = getattr(schema, match[2], None) if match else None
        if match and is_dataclass(node):
            names = [f.name for f in fields(node)]
            hint = suggestion(match[1], names)
    lines = text.splitlines()
    if "Config search path:" in lines:
        lines = lines[: lines.index("Config search path:")]
    if isinstance(error, OverrideParseException):
        hint = "quote what has spaces or signs in it, such as: 'a.list=[\"b0 >= b1\"]'"
        lines = [line for line in lines if not line.startswith("See ")]
    where, what = "", " ".join(line.strip() for line in lines if line.strip())
    if " raised while composing config: " in what:  # In 'workload/x': SomeError raised while ...
        where, what = what.split(": ", 1)
        what = what.split(" raised while composing config: ", 1)[1]
        where, what = where.removeprefix("In ").strip("'"), what.split(" full_key: ")[0]
    return DimsweepError(what, where=where, hint=hint)


def plain(config: DictConfig) -> dict[str, Any]:
    """The configuration as plain data: enums as their names."""
    data = OmegaConf.to_container(config, resolve=True, enum_to_str=True)
    assert isinstance(data, dict)
    return {str(key): value for key, value in data.items()}
