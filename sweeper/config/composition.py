"""Compose the files of conf/ and studies/ with Hydra; a grid's cells share the compositions.

Hydra resolves the defaults lists and merges the files, which it reads from the sources below.  The
result is cached until a file changes.  The cells of a grid choose combinations of a few options.
Each option is composed once, and a combination is merged from these compositions if the result
provably equals Hydra's.
"""

import os
import pickle
import time
import warnings
from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, ClassVar

import hydra
import yaml
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.global_hydra import GlobalHydra
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.types import OverrideType
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import DictConfig, OmegaConf, flag_override

from dimsweep.engine import DimsweepError
from dimsweep.engine.formats import explain_yaml
from dimsweep.sweeper.config.options import SEARCH_PATH, Options, file_state, read_options
from dimsweep.sweeper.config.overrides import STUDY, ConfigOverride
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.config.sources import SOURCES
from dimsweep.sweeper.config.study import Search
from dimsweep.sweeper.config.workload import KINDS, Workload
from dimsweep.sweeper.places import (
    find_study,
    installed_folder,
    is_path,
    list_folders,
    list_studies,
)

ROOT = "dimsweep"
# Groups that Hydra composes for its own applications: a seventh of the time.
_HYDRAS = (
    *("env", "help", "hydra_help", "hydra_logging", "job_logging"),
    *("launcher", "output", "sweeper"),
)
_KIND = "workload/kind/"


@dataclass(frozen=True)
class OptionFile:
    """The header and the keys of an option's file that decide where its keys go."""

    package: str | None  # given by its header
    defaults: tuple[Any, ...]

    def is_within(self, group: str) -> bool:
        """Return whether the option's file sets keys of its own ``group`` only."""
        inner = [isinstance(e, str) and "@" not in e and e[:1] != "/" for e in self.defaults]
        return self.package in (None, group) and all(inner)

    @property
    def interpolates(self) -> bool:
        """True if an option in the file's defaults list depends on another option."""
        return any("${" in str(entry) for entry in self.defaults)


@dataclass(frozen=True)
class Tree:
    """The keys that a composition of files sets."""

    choices: Mapping[str, str]  # the option of each group
    pickled: bytes  # the keys, a DictConfig
    files: dict[str, OptionFile]  # by path within conf/

    def node(self) -> DictConfig:
        """Return a copy of the keys for the caller; it takes a third of the time of a deep copy."""
        return pickle.loads(self.pickled)


class _FileSource(ConfigSource):
    """Base class of Hydra's sources of files; all of them record the files that they read."""

    read: ClassVar[dict[str, OptionFile]] = {}

    def available(self) -> bool:
        return True

    def is_group(self, config_path: str) -> bool:
        return False

    def is_config(self, config_path: str) -> bool:
        return self._find(config_path.removesuffix(".yaml")) is not None

    def load_config(self, config_path: str) -> ConfigResult:
        found = self._find(config_path.removesuffix(".yaml"))
        assert found is not None  # Hydra has asked is_config before
        node, package = self._load(found)
        keys: Any = OmegaConf.to_container(node)
        self.read[config_path.removesuffix(".yaml")] = OptionFile(
            package, tuple(keys.get("defaults", ()))
        )
        return ConfigResult(self.provider, self.full_path(), node, {"package": package})

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        return []

    @abstractmethod
    def _find(self, path: str) -> Any:
        """Return the file, or the text, for a path without its ending; None if missing."""

    @abstractmethod
    def _load(self, found: Any) -> Options:
        """Return the keys of a file or a text that :meth:`_find` returned."""


class _ConfSource(_FileSource):
    """The source of files in a conf/ folder.

    Unlike Hydra's own source, it reports errors of YAML and of defaults lists with file and line.
    """

    @staticmethod
    def scheme() -> str:
        return "options"

    def available(self) -> bool:
        return self.is_group("")

    def is_group(self, config_path: str) -> bool:
        return os.path.isdir(Path(self.path) / config_path)

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        folder = Path(self.path) / config_path
        found = []
        if results_filter is not ObjectType.CONFIG:
            found += [each.name for each in folder.iterdir() if each.is_dir()]
        if results_filter is not ObjectType.GROUP:
            found += [each.stem for each in folder.glob("*.yaml")]
        return sorted(found)

    def _find(self, path: str) -> Path | None:
        file = Path(self.path) / f"{path}.yaml"
        return file if os.path.isfile(file) else None

    def _load(self, found: Path) -> Options:
        options = read_options(found)
        options.node.pop(SOURCES, None)
        return options


class _StudySource(_FileSource):
    """The source of studies, as options of the group ``study``: in studies/, or given by path."""

    given: ClassVar[dict[str, Path]] = {}  # by name, of the configuration that is being composed

    @staticmethod
    def scheme() -> str:
        return "studies"

    def is_group(self, config_path: str) -> bool:
        return config_path.strip("/") == STUDY

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        wanted = self.is_group(config_path) and results_filter is not ObjectType.GROUP
        return sorted({*list_studies(), *self.given}) if wanted else []

    def _find(self, path: str) -> Path | None:
        group, _, name = path.strip("/").rpartition("/")
        if group != STUDY:
            return None
        return self.given.get(name) or (find_study(name) if name in list_studies() else None)

    def _load(self, found: Path) -> Options:
        return Options(read_options(found).node, "_global_")


class _SchemaSource(_FileSource):
    """The source of the schema's keys with their default values.

    The file of a workload names its kind, which a plug-in may add, in its defaults list.
    """

    @staticmethod
    def scheme() -> str:
        return "schema"

    def is_group(self, config_path: str) -> bool:
        return f"{config_path.strip('/')}/" == _KIND

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        wanted = self.is_group(config_path) and results_filter is not ObjectType.GROUP
        return sorted(KINDS) if wanted else []

    def _find(self, path: str) -> str | None:
        kind = path.removeprefix(_KIND)
        return kind if path == "schema" or (kind != path and kind in KINDS) else None

    def _load(self, found: str) -> Options:
        if found == "schema":
            return Options(pickle.loads(_pickled_schema()), "_global_")
        return Options(pickle.loads(_pickled_kind(found, KINDS[found])), "workload")


@cache
def _pickled_schema() -> bytes:
    defaults = {**Config.defaults(), "workload": {}, "search": Search.defaults()}
    return pickle.dumps(OmegaConf.create(defaults))


@lru_cache(maxsize=64)
def _pickled_kind(name: str, kind: type[Workload]) -> bytes:
    return pickle.dumps(OmegaConf.create({**kind.defaults(), "kind": name}))


class _SearchPath(SearchPathPlugin):
    """Hydra's search path: the user's conf/, the installed conf/, studies, and the schema."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for home in dict.fromkeys((installed_folder("conf"), list_folders("conf")[0])):
            search_path.prepend("dimsweep-conf", folder_url(home))
        search_path.append("dimsweep-studies", f"{_StudySource.scheme()}://")
        search_path.append("dimsweep-schema", f"{_SchemaSource.scheme()}://")


def folder_url(folder: Path) -> str:
    """Return a folder of config groups as an entry of Hydra's search path."""
    return f"{_ConfSource.scheme()}://{folder}"


@cache
def _register() -> None:
    for plugin in (_SearchPath, _ConfSource, _StudySource, _SchemaSource):
        Plugins.instance().register(plugin)


@contextmanager
def initialized_hydra(chosen: Sequence[ConfigOverride]) -> Iterator[None]:
    """Initialize Hydra on dimsweep's folders; ``chosen`` may name a study by its path.

    Raises :class:`DimsweepError` for the path of a missing file; Hydra rejects unknown names.
    """
    _register()
    _StudySource.given = {}
    for name in (name for word in chosen for name in word.studies):
        if file := find_study(name):
            _StudySource.given[file.stem] = file
        elif is_path(name):
            raise DimsweepError("there is no such file", where=name, code="inaccessible")
    with hydra.initialize_config_dir(str(installed_folder("conf")), version_base="1.3"):
        yield


def _hydra_overrides(chosen: Sequence[ConfigOverride]) -> list[str]:
    """Return the chosen options as overrides in the syntax of Hydra's own commands."""
    return [*(f"hydra/{group}=[]" for group in _HYDRAS), *(word.line for word in chosen)]


def compose_with_hydra(chosen: Sequence[ConfigOverride]) -> DictConfig:
    """Return Hydra's composition of the ``chosen`` options, with Hydra's own configuration."""
    with initialized_hydra(chosen), warnings.catch_warnings():
        warnings.filterwarnings("error", message="provider=")  # raised for a missing place
        try:
            return hydra.compose(ROOT, overrides=_hydra_overrides(chosen), return_hydra_config=True)
        except UserWarning as error:
            problem = str(error).rstrip(".")
            raise DimsweepError(problem, where=SEARCH_PATH, code="inaccessible") from error
        except yaml.YAMLError as error:  # in a file that Hydra's own sources read
            raise explain_yaml(error, Path(SEARCH_PATH)) from error


def show_info(info: str, chosen: Sequence[ConfigOverride], lines: Sequence[str]) -> None:
    """Print one of Hydra's reports on a composition; ``info`` is a choice of Hydra's ``--info``.

    Only the object behind ``hydra.main`` prints it; Hydra 1.3 keeps it in GlobalHydra.
    """
    with initialized_hydra(chosen):
        main: Any = GlobalHydra.instance().hydra
        main.show_info(info, ROOT, [*_hydra_overrides(chosen), *lines])


def hash_files(chosen: Sequence[ConfigOverride]) -> int:
    """Return a hash of the files that a composition may read.

    It changes whenever a file changes.
    """
    folders = [str(home) for kind in ("conf", "studies") for home in list_folders(kind)]
    named = [name for word in chosen for name in word.studies]
    files = [str(file) for name in named if (file := find_study(name))]
    states = [file_state(file) for each in (*map(_option_files, folders), files) for file in each]
    if None in states:  # a file is so new that another change might keep its time stamp
        states.append(time.time_ns())
    return hash((*states, *KINDS.items()))


def _option_files(folder: str) -> Iterator[str]:
    """Yield the option files in a folder and in all folders below it."""
    for above, _, names in os.walk(folder):
        yield from (f"{above}/{name}" for name in names if name.endswith(".yaml"))


def compose_files(chosen: Sequence[ConfigOverride], state: int) -> Tree:
    """Return the keys that files set under the ``chosen`` options.

    The result is cached for each ``state`` of the files.
    """
    rest, options = list[ConfigOverride](), dict[str, ConfigOverride]()
    for word in chosen:
        if (
            word.is_choice
            and word.key != STUDY
            and word.parsed.type is OverrideType.CHANGE
            and word.parsed.package is None
            and isinstance(word.parsed.value(), str)
        ):
            options[word.key] = word  # the last of several counts, as in Hydra
        else:
            rest.append(word)
    return _compose_options(tuple(rest), tuple(options[g] for g in sorted(options)), state)


@dataclass(frozen=True)
class CompositionFamily:
    """Compositions that differ only in the options of some config groups."""

    base: Tree  # the first one
    options: dict[str, ConfigOverride]  # of the first one
    parts: dict[tuple[str, ConfigOverride | None], Tree]

    def changed(self, options: Mapping[str, ConfigOverride]) -> dict[str, ConfigOverride | None]:
        """Return the ``options`` that differ from the first composition's, by group."""
        groups = {**self.options, **options}
        return {g: options.get(g) for g in groups if options.get(g) != self.options.get(g)}


# By all other overrides and the state of the files.
_families: dict[tuple[tuple[ConfigOverride, ...], int], CompositionFamily] = {}
_MAX_FAMILIES = 64


@lru_cache(maxsize=512)
def _compose_options(
    rest: tuple[ConfigOverride, ...], chosen: tuple[ConfigOverride, ...], state: int
) -> Tree:
    """Compose the ``chosen`` options of groups, together with all other overrides (``rest``).

    Files are merged key by key. If the option files of a group set keys and choose options of this
    group only, then any composition with the same option of the group has the same keys in it.
    """
    options = {word.key: word for word in chosen}
    family = _families.get((rest, state))
    changed = family.changed(options) if family else {}
    if family is not None:
        parts = {group: family.parts.get((group, option)) for group, option in changed.items()}
        known = {group: part for group, part in parts.items() if part is not None}
        if known.keys() == changed.keys():
            return _merge(family.base, known)
    _FileSource.read.clear()
    composed = compose_with_hydra((*rest, *chosen))
    choices = dict(composed.hydra.runtime.choices)
    keys: Any = composed  # of any type: the schema refuses keys that are not texts
    own = _collect_keys({key: composed for key in keys if key != "hydra"})
    tree = Tree(choices, pickle.dumps(own), dict(_FileSource.read))
    if family is not None and _differ_within(changed, family.base, tree):
        family.parts.update(dict.fromkeys(changed.items(), tree))
    elif family is None and all(map(_is_read_by_us, rest)):
        if len(_families) >= _MAX_FAMILIES:
            _families.clear()
        _families[rest, state] = CompositionFamily(tree, options, {})
    return tree


def _is_read_by_us(word: ConfigOverride) -> bool:
    """Return whether an override adds no search path beyond dimsweep's own folders."""
    places: Any = word.parsed.value() if word.is_hydra_key else ()
    return all(str(place).startswith(f"{_ConfSource.scheme()}://") for place in places)


def _differ_within(groups: Collection[str], one: Tree, other: Tree) -> bool:
    """Return whether two compositions differ only in option files with keys of ``groups``.

    Each of these files must set keys of its own group only.
    """
    files = one.files | other.files
    if any("/" in group for group in groups) or any(f.interpolates for f in files.values()):
        return False
    return all(
        any(path.startswith(f"{group}/") and files[path].is_within(group) for group in groups)
        for path in one.files.keys() ^ other.files.keys()
    )


def _merge(base: Tree, parts: Mapping[str, Tree]) -> Tree:
    """Return ``base`` with the keys of each group replaced by the keys in ``parts[group]``."""
    whole, nodes = base.node(), {group: part.node() for group, part in parts.items()}
    keys: Any = whole
    choices = {**base.choices, **{group: part.choices[group] for group, part in parts.items()}}
    merged = _collect_keys({key: nodes.get(key, whole) for key in keys})
    return Tree(choices, pickle.dumps(merged), {})


def _collect_keys(places: Mapping[Any, DictConfig]) -> DictConfig:
    """Return the keys of several configurations in one; the keys are moved, not copied."""
    taken = OmegaConf.create()
    with flag_override(taken, "no_deepcopy_set_nodes", True):
        for key, node in places.items():
            for _, value in node.items_ex(resolve=False, keys=[key]):
                taken[key] = value
    return taken
