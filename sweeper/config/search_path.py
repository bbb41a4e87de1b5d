"""Where Hydra finds what it composes: the files of conf/ folders, and studies."""

import os
from collections.abc import Hashable
from pathlib import Path
from typing import ClassVar

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin

from dimsweep.sweeper.config.options import read_options, state_of
from dimsweep.sweeper.config.parts.places import find_study, homes, installed, study_names
from dimsweep.sweeper.config.sources import without_sources


class SearchPath(SearchPathPlugin):
    """Lets the user's own conf/ folder come before the installed one, and studies/ be found."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for home in dict.fromkeys((installed("conf"), homes("conf")[0])):
            search_path.prepend("dimsweep-conf", f"{Options.scheme()}://{home}")
        search_path.append("dimsweep-studies", f"{Studies.scheme()}://")


class Options(ConfigSource):
    """The files of a conf/ folder.  Hydra's own source of them lets pass whatever PyYAML raises,
    and its defaults lists whatever asserting their shape does; ours tells what is wrong."""

    @staticmethod
    def scheme() -> str:
        return "options"

    def available(self) -> bool:
        return self.is_group("")

    def is_group(self, config_path: str) -> bool:
        return os.path.isdir(Path(self.path) / config_path)

    def is_config(self, config_path: str) -> bool:
        return os.path.isfile(self._file(config_path))

    def load_config(self, config_path: str) -> ConfigResult:
        node, package = read_options(self._file(config_path))
        own = without_sources(node)
        return ConfigResult(self.provider, self.full_path(), own, {"package": package})

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        folder = Path(self.path) / config_path
        found = []
        if results_filter is not ObjectType.CONFIG:
            found += [each.name for each in folder.iterdir() if each.is_dir()]
        if results_filter is not ObjectType.GROUP:
            found += [each.stem for each in folder.glob("*.yaml")]
        return sorted(found)

    def state(self, config_path: str) -> Hashable:
        """Changes with the file of an option."""
        return state_of(self._file(config_path))

    def _file(self, config_path: str) -> Path:
        return Path(self.path) / f"{config_path.removesuffix('.yaml')}.yaml"


class Studies(ConfigSource):
    """Every file in studies/ is an option of Hydra's config group ``study``, and so is one that an
    override names by its path; each is read when it is asked for."""

    given: ClassVar[dict[str, Path]] = {}  # by name, of the configuration that is being composed

    @staticmethod
    def scheme() -> str:
        return "studies"

    def available(self) -> bool:
        return True

    def is_group(self, config_path: str) -> bool:
        return config_path.strip("/") == "study"

    def is_config(self, config_path: str) -> bool:
        return self._file(config_path) is not None

    def load_config(self, config_path: str) -> ConfigResult:
        file = self._file(config_path)
        assert file is not None  # Hydra has asked before
        return ConfigResult(
            self.provider, self.full_path(), read_options(file).node, {"package": "_global_"}
        )

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        wanted = self.is_group(config_path) and results_filter is not ObjectType.GROUP
        return sorted({*study_names(), *self.given}) if wanted else []

    def state(self, config_path: str) -> Hashable:
        """Changes with the file of a study, and where it is another."""
        file = self._file(config_path)
        return file and state_of(file)

    def _file(self, config_path: str) -> Path | None:
        group, _, name = config_path.strip("/").removesuffix(".yaml").rpartition("/")
        if group != "study":
            return None
        return self.given.get(name) or (find_study(name) if name in study_names() else None)
