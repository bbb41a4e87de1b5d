"""Hydra's loader of configurations, made to compose thousands of them.

What a file says is read once, and taken from there as long as the file stays as it is.  What is
composed of it, and what is said where it cannot be, is Hydra's work as before; with its own loader,
four fifths of the time go into reading the same files, and into copying what nobody keeps.
"""

import copy
import pickle
from collections.abc import Hashable
from functools import lru_cache
from typing import Any

from hydra._internal import defaults_list as hydras
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import (
    CachingConfigRepository,
    ConfigRepository,
    IConfigRepository,
)
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.core.default_element import ResultDefault
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import ConfigCompositionException
from hydra.plugins.config_source import ConfigResult, ConfigSource
from omegaconf import DictConfig, OmegaConf, flag_override
from omegaconf.errors import OmegaConfBaseException

from dimsweep.sweeper.config.search_path import Options, Studies

_TYPED = "HYDRA_REMOVE_TOP_LEVEL_DEFAULTS"  # Hydra's flag of what has types and a defaults list
_MOST = 1024  # files that are kept
_kept: dict[tuple[Hashable, ...], bytes] = {}
_interpolation_map = hydras._create_interpolation_map


class Loader(ConfigLoaderImpl):
    """Composes what Hydra's own loader does on the same search path."""

    def __init__(self, config_search_path: ConfigSearchPath) -> None:
        self.config_search_path = config_search_path
        self.repository = ConfigRepository(config_search_path)
        self._files = _Files(self.repository)

    def _parse_overrides_and_create_caching_repo(
        self, config_name: str | None, overrides: list[str]
    ) -> tuple[list[Override], CachingConfigRepository]:
        parsed = list(map(_parsed, overrides))
        self._files = _Files(self.repository)
        self._process_config_searchpath(config_name, parsed, self._files)
        return parsed, self._files

    def _compose_config_from_defaults_list(
        self, defaults: list[ResultDefault], repo: IConfigRepository
    ) -> DictConfig:
        """As Hydra does it, but that who is whose parent is looked through once, in the place of
        after each file."""
        whole = OmegaConf.create()
        whole.__dict__["_re_parent"] = lambda: None
        with flag_override(whole, "no_deepcopy_set_nodes", True):
            for default in defaults:
                loaded = self._load_single_config(default, repo)
                try:
                    whole.merge_with(loaded.config)
                except OmegaConfBaseException as error:
                    raise ConfigCompositionException(
                        f"In '{default.config_path}': {type(error).__name__} raised while"
                        f" composing config:\n{error}"
                    ) from None  # Hydra's has no cause either
        del whole.__dict__["_re_parent"]
        whole._re_parent()
        _strip_defaults(whole)
        return whole

    def _embed_result_config(self, ret: ConfigResult, package_override: str | None) -> ConfigResult:  # type: ignore[override]
        """What a file says, below the key of its package: a copy, since it may be there twice."""
        package = ret.header["package"] if package_override is None else package_override
        if not package:
            return ret
        own, above = self._files.copy_of(ret), OmegaConf.create()
        with flag_override(above, "no_deepcopy_set_nodes", True):
            OmegaConf.update(above, package, own, merge=False)
        ret = copy.copy(ret)
        ret.config = above
        return ret


class _Files(CachingConfigRepository):
    """What files say, during one composition."""

    def __init__(self, delegate: ConfigRepository) -> None:
        # Hydra copies it deeply, all that is in its store included; its sources are only exchanged.
        self.delegate: ConfigRepository = copy.copy(delegate)
        self.cache: dict[str, ConfigResult | None] = {}
        self._pickled: dict[int, bytes] = {}  # by the id of what was loaded, which is in the cache

    def load_config(self, config_path: str) -> ConfigResult | None:
        if config_path not in self.cache:
            self.cache[config_path] = self._load(config_path)
        return self.cache[config_path]

    def copy_of(self, loaded: ConfigResult) -> DictConfig:
        """The keys of what was loaded, as they were then."""
        return pickle.loads(self._pickled[id(loaded)]).config

    def _load(self, config_path: str) -> ConfigResult | None:
        source = self.delegate._find_object_source(config_path, ObjectType.CONFIG)
        if source is None:
            return None
        state = _state(source, config_path)
        place = (source.scheme(), source.provider, source.path, config_path, state)
        if (known := _kept.get(place)) is not None:
            loaded = pickle.loads(known)
        else:
            loaded = self.delegate.load_config(config_path)
            known = pickle.dumps(loaded)
            if state is not None:
                _keep(place, known)
        self._pickled[id(loaded)] = known
        return loaded


def _keep(place: tuple[Hashable, ...], known: bytes) -> None:
    if len(_kept) >= _MOST:
        _kept.clear()
    _kept[place] = known


def _state(source: ConfigSource, config_path: str) -> Hashable:
    """Changes with what a source says at a path; None where nobody knows whether it does."""
    if isinstance(source, Options | Studies):
        return source.state(config_path)
    if source.scheme() != "structured":
        return None
    return _Same(ConfigStore.instance()._load(source._normalize_file_name(config_path)).node)


class _Same:
    """An object that is equal to itself alone, and stays."""

    def __init__(self, it: object) -> None:
        self.it = it

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.it is other.it

    def __hash__(self) -> int:
        return id(self.it)


def _strip_defaults(node: Any) -> None:
    """Leave out the defaults lists that Hydra keeps in what has types until all is merged."""
    if not isinstance(node, DictConfig) or node._is_missing() or node._is_none():
        return
    if (node._metadata.flags or {}).get(_TYPED):
        with flag_override(node, ["readonly", "struct"], False):
            node._set_flag(_TYPED, None)
            node.pop("defaults", None)
    for _, value in node.items_ex(resolve=False):
        _strip_defaults(value)


@lru_cache(maxsize=4096)
def _parsed(line: str) -> Override:
    return OverridesParser.create().parse_override(line)


def _map_where_needed(overrides: Any, defaults_list: list[Any], self_added: bool) -> Any:
    """All choices by their groups, for interpolations among the defaults of a file; a file that has
    none needs no such map, which Hydra makes for each."""
    interpolates = any(not each.is_self() and each.is_interpolation() for each in defaults_list)
    return _interpolation_map(overrides, defaults_list, self_added) if interpolates else None


hydras._create_interpolation_map = _map_where_needed
