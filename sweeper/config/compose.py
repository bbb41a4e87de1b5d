"""Composing a configuration with Hydra: conf/, studies/, and overrides from the command line."""

import pickle
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.core.plugins import Plugins
from hydra.errors import HydraException, OverrideParseException
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from engine import DimsweepError
from engine.formats import GIVE
from sweeper.config import schema
from sweeper.config.guess import explain_missing, file_of, refuse_unknown
from sweeper.config.options import read_options
from sweeper.config.parts.places import (
    find_study,
    groups,
    homes,
    names_file,
    study_names,
)
from sweeper.config.schema import Config

ROOT = "dimsweep"
CLUSTER = "cluster"  # the group whose options choose those of other groups
# What Hydra would compose for its own applications: a seventh of the time.
_HYDRAS = (
    *("env", "help", "hydra_help", "hydra_logging", "job_logging"),
    *("launcher", "output", "sweeper"),
)


@dataclass(frozen=True)
class Origin:
    """Where a configuration came from: overrides, and the options of the config groups."""

    overrides: tuple[str, ...]
    choices: dict[str, str]

    @property
    def study(self) -> str | None:
        """The study's name, if there is a study."""
        study = self.choices.get("study", "none")
        return None if study == "none" else study

    @property
    def overridden(self) -> list[str]:
        """The keys of the overrides."""
        return [_key(override) for override in self.overrides]

    @property
    def set_in_study(self) -> list[str]:
        """The dotted keys that the study's file gives values, those of config groups in full."""
        file = self.study and find_study(self.study)
        plain = OmegaConf.to_container(read_options(file).node) if file else {}
        return list(_leaves(plain)) if isinstance(plain, dict) else []

    def given(self, key: str) -> Any:
        """What the last override of ``key`` itself says, or None."""
        values = [o for o in self.overrides if _key(o) == key and _sets_a_key(o)]
        return _read(values[-1]).value() if values else None

    def blame(self, error: DimsweepError) -> DimsweepError:
        """The same error, with the file that its key came from."""
        where = f"{error.where} (in {self.source(error.where)})" if error.where else ""
        return type(error)(error.what, where=where, hint=error.hint)

    @contextmanager
    def blaming(self) -> Iterator[None]:
        """Errors of what is done meanwhile say the file that their key came from."""
        try:
            yield
        except DimsweepError as error:
            raise self.blame(error) from error.__cause__

    def source(self, key: str) -> str:
        """The file (or the command line) that most likely set ``key``."""
        group = re.split(r"[.\[]", key, maxsplit=1)[0]
        named = {_key(o): o for o in self.overrides if not is_group(_key(o))}
        setting = [n for n in named if key == n or key.startswith(tuple(n + m for m in ".[ :"))]
        setting = setting or [n for n in named if n.startswith(f"{key}.")]
        if setting:
            return f"the override {named[max(setting, key=len)]!r}"
        study = self.study and find_study(self.study)
        if study and any(str(k).partition(".")[0] == group for k in read_options(study).node):
            return str(study)
        for home in homes("conf"):
            file = home / group / f"{self.choices.get(group)}.yaml"
            if file.is_file():
                return str(file)
        return "the configuration"


@dataclass(frozen=True)
class Composed(Origin):
    """A configuration, and where it came from."""

    config: Config


class _SearchPath(SearchPathPlugin):
    """Lets the user's own conf/ folder come before the installed one, and studies/ be found."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for home in reversed(homes("conf")):
            search_path.prepend("dimsweep-conf", f"{_Options.scheme()}://{home}")
        search_path.append("dimsweep-studies", f"{_Studies.scheme()}://")


class _Options(ConfigSource):
    """The files of a conf/ folder.  Hydra's own source of them lets pass whatever PyYAML raises,
    and its defaults lists whatever asserting their shape does; ours tells what is wrong."""

    @staticmethod
    def scheme() -> str:
        return "options"

    def available(self) -> bool:
        return self.is_group("")

    def is_group(self, config_path: str) -> bool:
        return (Path(self.path) / config_path).is_dir()

    def is_config(self, config_path: str) -> bool:
        return self._file(config_path).is_file()

    def load_config(self, config_path: str) -> ConfigResult:
        node, package = read_options(self._file(config_path))
        return ConfigResult(self.provider, self.full_path(), node, {"package": package})

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        folder = Path(self.path) / config_path
        found = []
        if results_filter is not ObjectType.CONFIG:
            found += [each.name for each in folder.iterdir() if each.is_dir()]
        if results_filter is not ObjectType.GROUP:
            found += [each.stem for each in folder.glob("*.yaml")]
        return sorted(found)

    def _file(self, config_path: str) -> Path:
        return Path(self.path) / f"{config_path.removesuffix('.yaml')}.yaml"


class _Studies(ConfigSource):
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

    def _file(self, config_path: str) -> Path | None:
        group, _, name = config_path.strip("/").removesuffix(".yaml").rpartition("/")
        if group != "study":
            return None
        return self.given.get(name) or (find_study(name) if name in study_names() else None)


def compose(overrides: Sequence[str], values: Mapping[str, Any] | None = None) -> Composed:
    """The configuration under Hydra ``overrides`` such as ``study=x`` and ``topology.shape=...``,
    and then under ``values`` of dotted keys.

    Raises :class:`DimsweepError` naming the file and the key that are wrong.
    """
    if len(named := sorted(_studies_in(overrides))) > 1:
        hint = "give one; `dimsweep compare` shows the best of several"
        raise DimsweepError(f"{' and '.join(named)} are named", where="study", hint=hint)
    settings = [o for o in overrides if _sets_a_key(o)]
    chosen = tuple(_with_parts([o for o in overrides if o not in settings]))
    origin = Origin(tuple(overrides), {})
    try:
        choices, files = _compose_files(chosen, _state_of_files(chosen))
        origin = Origin(tuple(overrides), choices)
        node = pickle.loads(files)  # a third of the time of a deep copy
        for setting in map(_read, settings):
            refuse_unknown(setting.key_or_group, node)
            _set(node, setting)
        for key, value in (values or {}).items():
            OmegaConf.update(node, key, value, merge=True, force_add=True)
        plain = OmegaConf.to_container(node, resolve=True, throw_on_missing=True)
        _check_size(plain, choices)
    except MissingMandatoryValue as error:
        missing = DimsweepError("this key needs a value", where=str(error.full_key), hint=GIVE)
        raise origin.blame(missing) from error
    except OmegaConfBaseException as error:
        raise origin.blame(_explain(error)) from error
    except HydraException as error:
        raise _explain(error) from error
    except DimsweepError:
        raise
    except RecursionError as error:
        raise _endless(origin) from error
    try:
        config = Config.of(plain)
    except DimsweepError as error:
        raise origin.blame(error) from error.__cause__
    return Composed(origin.overrides, origin.choices, config)


def _with_parts(chosen: Sequence[str]) -> list[str]:
    """The options that are chosen, with the parts of a machine that ``cluster=`` names among them:
    those go before a study's own, but not before parts that are chosen beside it."""
    given = {_key(option) for option in chosen}
    named = [option.partition("=")[2] for option in chosen if _key(option) == CLUSTER]
    files = [home / CLUSTER / f"{name}.yaml" for name in named[-1:] for home in homes("conf")]
    parts = parts_of(next((file for file in files if file.is_file()), None))
    return [*chosen, *(f"{group}={part}" for group, part in parts.items() if group not in given)]


def parts_of(file: Path | None) -> dict[str, str]:
    """The options that a file of the group ``cluster`` chooses, by their groups."""
    entries = [] if file is None else read_options(file).node.get("defaults") or []
    pairs = [next(iter(entry.items())) for entry in entries if isinstance(entry, Mapping)]
    return {str(group).split("/")[-1]: str(part) for group, part in pairs}


def _check_size(plain: Any, choices: Mapping[str, str]) -> None:
    """Raise :class:`DimsweepError` for a size of no machine."""
    if plain.get("nodes") is not None and choices.get(CLUSTER, "none") == "none":
        hint = "add cluster=, one of " + ", ".join(groups()[CLUSTER])
        hint += "; or let topology.shape say the size"
        axis = (plain.get("grid") or {}).get(CLUSTER)
        if isinstance(axis, list) and axis:
            hint = f"the axis changes what the study itself has: add cluster={axis[0]}, or "
            hint += f"`override /cluster: {axis[0]}` to its defaults"
        raise DimsweepError(
            "nodes is the size of a machine, and none is named", where="nodes", hint=hint
        )


def composed_files(overrides: Sequence[str]) -> Any:
    """What the files say under the options that ``overrides`` choose, as plain data that is neither
    resolved nor checked; raises :class:`DimsweepError` where Hydra cannot compose them."""
    chosen = tuple(_with_parts([o for o in overrides if not _sets_a_key(o)]))
    try:
        _, files = _compose_files(chosen, _state_of_files(chosen))
    except (HydraException, OmegaConfBaseException) as error:
        raise _explain(error) from error
    return OmegaConf.to_container(pickle.loads(files))


@lru_cache(maxsize=64)
def _compose_files(chosen: tuple[str, ...], state: int) -> tuple[dict[str, str], bytes]:
    """The option chosen for each group, and what the files say under the ``chosen`` options: a
    DictConfig, pickled.

    Hydra needs a quarter of a second for it, and the cells of a grid mostly choose the same files:
    it is kept while the files stay in the same ``state``.
    """
    words = [*(f"hydra/{group}=[]" for group in _HYDRAS), *(_for_hydra(o) for o in chosen)]
    for override in OverridesParser.create().parse_overrides(words):
        _check_choice(override)
    with _hydra(chosen):
        composed = hydra_compose(ROOT, overrides=words, return_hydra_config=True)
    choices = dict(composed.hydra.runtime.choices)
    keys: Any = composed  # whatever they are: the schema refuses what is no text
    own = OmegaConf.masked_copy(composed, [key for key in keys if key != "hydra"])
    return choices, pickle.dumps(own)


def _check_choice(override: Override) -> None:
    """Raise :class:`DimsweepError` unless an option is chosen for a group by its name; Hydra takes
    it for granted, and would lay several of a list one over the other."""
    group, value = override.key_or_group, override.value()
    if not group.strip("/"):
        raise DimsweepError(f"{override.input_line!r} has no key", hint="write KEY=VALUE")
    if override.is_delete() and (value is None or not is_group(group)):
        return
    names = value if isinstance(value, list) and not override.is_delete() else [value]
    if len(names) > 1 or not all(isinstance(name, str) and name != "_self_" for name in names):
        hint = f"give one option (`dimsweep list {group}` shows them); a grid simulates several"
        raise DimsweepError(f"{override.get_value_string()} is no option", where=group, hint=hint)


def _state_of_files(chosen: tuple[str, ...]) -> int:
    """Changes with every change of a file that may be composed."""
    files = [
        file for kind in ("conf", "studies") for h in homes(kind) for file in h.rglob("*.yaml")
    ]
    files += [file for name in _studies_in(chosen) if (file := find_study(name))]
    return hash(tuple((file, file.stat().st_mtime_ns, file.stat().st_size) for file in files))


def _set(node: DictConfig, setting: Override) -> None:
    if setting.is_sweep_override():
        raise DimsweepError(
            "this key is given several values",
            where=setting.key_or_group,
            hint="a list is written in brackets, and a number with a point; a study's grid "
            "simulates each of several values",
        )
    OmegaConf.update(node, setting.key_or_group, setting.value(), merge=True, force_add=True)


@contextmanager
def _hydra(overrides: Sequence[str]) -> Iterator[None]:
    """Hydra, initialised on our configuration folders; ``overrides`` tell which study matters."""
    schema.register()
    _Studies.given = dict(_given(overrides))
    for plugin in (_SearchPath, _Options, _Studies):
        Plugins.instance().register(plugin)
    with initialize_config_dir(str(homes("conf")[-1]), version_base="1.3"):
        yield


def _given(overrides: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """The studies that overrides choose, each with its file; raises :class:`DimsweepError` if a
    path leads to none, and leaves it to Hydra to tell which names there are."""
    for name in _studies_in(overrides):
        if file := find_study(name):
            yield file.stem, file
        elif names_file(name):
            raise DimsweepError("there is no such file", where=name)


def _studies_in(overrides: Sequence[str]) -> set[str]:
    return {o.split("=", 1)[1] for o in overrides if o.startswith("study=")}


def _leaves(node: Mapping[Any, Any], place: str = "") -> Iterator[str]:
    """The dotted keys of plain data that hold no further keys."""
    for name, value in node.items():
        key = f"{place}.{name}".removeprefix(".")
        if isinstance(value, dict) and value:
            yield from _leaves(value, key)
        else:
            yield key


def _key(override: str) -> str:
    return override.lstrip("+~").split("=", 1)[0]


def _sets_a_key(override: str) -> bool:
    """Whether an override gives a key its value, rather than choosing an option of a group."""
    return "=" in override and not override.startswith("~") and not is_group(_key(override))


def is_group(key: str) -> bool:
    """Whether ``key`` is a config group, of which an override chooses an option."""
    name = key.split("@")[0]
    return "/" in name or name == "study" or any((h / name).is_dir() for h in homes("conf"))


def _read(override: str) -> Override:
    """An override of a key.  What is no list, mapping or quoted text and means nothing in Hydra's
    grammar, such as ``Ring(-4)`` or ``5 µs``, is a text; its key's own parser knows what to say."""
    try:
        return OverridesParser.create().parse_override(_for_hydra(override))
    except HydraException as error:
        key, _, value = override.partition("=")
        if not value or value[0] in "[{'\"$":
            raise _misread(override) from error
        return OverridesParser.create().parse_override(f"++{_key(key)}={quoted(value)}")


def quoted(text: str) -> str:
    """As a value of an override, whatever is in it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_PLAIN = re.compile(r"""[^\s'"\[\]{}(),=$\\](?:[^'"\[\]{}(),=$\\]*[^\s'"\[\]{}(),=$\\])?""")


def _for_hydra(override: str) -> str:
    """An override as Hydra's grammar wants it.

    A study may be given as a path, but Hydra knows it by its name; and Hydra would take the
    brackets in a shape such as Ring(4)_Switch(8) for a function call.  Whether a key exists is left
    to the :class:`Config`, which knows more of its keys than Hydra does.
    """
    key, _, value = override.partition("=")
    if key == "study" and value.endswith((".yaml", ".yml")):
        value = Path(value).stem
    if not _sets_a_key(override):  # inf and 1e3 are names of options here, and no numbers
        named = not override.startswith("~") and _PLAIN.fullmatch(value)
        return f"{key}={quoted(value)}" if named else override
    if re.fullmatch(r"\w+\([\w,]*\)(_\w+\([\w,]*\))*", value):
        value = f"'{value}'"
    if "'" not in value and '"' not in value:  # nor would it read the arrow of a link's name
        value = re.sub(r"[^\[\],]*->[^\[\],]*", lambda link: f"'{link[0].strip()}'", value)
    return f"++{_key(override)}={value}"


def _endless(origin: Origin) -> DimsweepError:
    names = sorted(_studies_in(origin.overrides))
    return DimsweepError(
        "its defaults have no end",
        where=", ".join(str(find_study(name) or name) for name in names),
        hint="a study, or a file that it names, includes itself or is nested too deeply",
    )


def _explain(error: Exception) -> DimsweepError:
    """Hydra's own message, which names the file or override, with the cause that names the key."""
    if explained := explain_missing(str(error)):
        return explained
    if isinstance(error, OverrideParseException):
        return _misread(error.override)
    text, cause, where = str(error).strip(), error.__cause__, ""
    if " raised while composing config:" in text:  # In 'workload/x': SomeError raised while ...
        where, text = text.removeprefix("In '").split("': ", 1)
        where, text = file_of(where), text.split(" raised while composing config:", 1)[1].strip()
    first, _, rest = text.partition("\n")
    if cause is not None and str(cause).partition("\n")[0] not in text:
        first = f"{first.rstrip('.:')}: {cause}".partition("\n")[0]
    key = re.search(r"full_key: *(\S+)", f"{rest} {cause}")
    what = re.sub(r"^\w+ raised while resolving interpolation: ", "", first).strip('"')
    hint = ""
    if "Cannot merge DictConfig with ListConfig" in what:
        what, hint = "a list stands where keys with values belong", "such as {KEY: VALUE}"
    return DimsweepError(
        what, where=": ".join([where, key[1] if key else ""]).strip(": "), hint=hint
    )


def _misread(override: str) -> DimsweepError:
    """An override that means nothing in Hydra's grammar."""
    key, _, value = override.lstrip("+~").partition("=")
    return DimsweepError(
        f"{value!r} cannot be read" if key.strip("/") else f"{override!r} has no key",
        where=key,
        hint="close what is opened, and quote what has spaces or signs in it, such as: "
        "'a.list=[\"b0 >= b1\"]'",
    )
