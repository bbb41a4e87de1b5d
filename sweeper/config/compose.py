"""Composing a configuration with Hydra: conf/, studies/, and overrides from the command line."""

import logging
import os
import pickle
import re
import time
import warnings
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.plugins import Plugins
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, flag_override
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from dimsweep.engine import DimsweepError
from dimsweep.engine.formats import GIVE, explain_yaml
from dimsweep.sweeper.config import schema
from dimsweep.sweeper.config.guess import explain_missing, file_of, refuse_unknown
from dimsweep.sweeper.config.loader import Loader
from dimsweep.sweeper.config.options import read_options, state_of
from dimsweep.sweeper.config.overrides import STUDY, Word, choice_of, is_group, quoted, read
from dimsweep.sweeper.config.parts.order import has_order
from dimsweep.sweeper.config.parts.part import keys_in
from dimsweep.sweeper.config.parts.places import (
    find_option,
    find_study,
    groups,
    homes,
    installed,
    installed_plugins,
    names_file,
    options_of,
    search_also,
)
from dimsweep.sweeper.config.schema import Config, load_plugins
from dimsweep.sweeper.config.search_path import Options, SearchPath, Studies
from dimsweep.sweeper.config.workload import KINDS

ROOT = "dimsweep"
CLUSTER = "cluster"  # the group whose options choose those of other groups
AXES, SEARCHED = "grid", "space.parameters"  # where keys are that have several values
SEARCH_PATH = "hydra.searchpath"
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
    varied: tuple[str, ...] = field(default=(), kw_only=True)  # dotted keys that a grid sets

    @property
    def study(self) -> str | None:
        """The study's name, if there is a study."""
        study = self.choices.get("study", "none")
        return None if study == "none" else study

    @property
    def words(self) -> list[Word]:
        """The overrides, as they were read."""
        return list(map(read, self.overrides))

    @property
    def overridden(self) -> list[str]:
        """The keys of the overrides."""
        return [word.key for word in self.words if not word.is_hydras]

    @property
    def set_in_study(self) -> list[str]:
        """The dotted keys that the study's file gives values, those of config groups in full."""
        file = self.study and find_study(self.study)
        plain = OmegaConf.to_container(read_options(file).node) if file else {}
        return [key for key, each in keys_in(plain) if not isinstance(each, dict) or not each]

    def given(self, key: str) -> Any:
        """What the last override of ``key`` itself says, or None."""
        said = [word for word in self.words if word.key == key and word.sets_a_key]
        return said[-1].parsed.value() if said and not said[-1].sweeps else None

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
        """The file (or the command line, or the grid) that most likely set ``key``."""
        if any(re.match(rf"{re.escape(name)}(?![^.\[])", key) for name in self.varied):
            return "the grid"
        group = re.split(r"[.\[]", key, maxsplit=1)[0]
        named = {word.key: word.text for word in self.words if not word.chooses}
        swept = [word for word in self.words if word.sweeps]
        named |= {f"{at}.{each.key}": each.text for each in swept for at in (AXES, SEARCHED)}
        setting = [n for n in named if key == n or key.startswith(tuple(n + m for m in ".[ :"))]
        setting = setting or [n for n in named if n.startswith(f"{key}.")]
        if setting:
            return f"the override {named[max(setting, key=len)]!r}"
        study = self.study and find_study(self.study)
        if study and any(str(k).partition(".")[0] == group for k in read_options(study).node):
            return str(study)
        return str(find_option(group, str(self.choices.get(group))) or "the configuration")


@dataclass(frozen=True)
class Composed(Origin):
    """A configuration, and where it came from."""

    config: Config


def compose(
    overrides: Sequence[str], values: Mapping[str, Any] | None = None, *, may_sweep: bool = False
) -> Composed:
    """The configuration under Hydra ``overrides`` such as ``study=x`` and ``topology.shape=...``,
    and then under ``values`` of dotted keys.  If it ``may_sweep``, overrides of several values are
    axes of its grid, or what is searched of their keys; of a group it then has the first option.

    Raises :class:`DimsweepError` naming the file and the key that are wrong.
    """
    words = list(map(read, overrides))
    for word in words if not may_sweep else ():
        _refuse_sweep(word)
    choices, node, _ = _composed_node(words, anew=values is None)  # workers have a cell's plug-ins
    origin = Origin(tuple(overrides), choices, varied=tuple(values or ()))
    with _explaining(origin):
        for key, value in (values or {}).items():
            # What has an order is replaced: merged, it would keep that of what was there.
            OmegaConf.update(node, key, value, merge=not has_order(key), force_add=True)
        plain = OmegaConf.to_container(node, resolve=True, throw_on_missing=True)
        if may_sweep and values is None:  # a cell of the grid has a value of each axis
            _take_over(plain, words)
        _lay(plain, words)
        _check_size(plain, choices)
    with origin.blaming():
        if values is None:
            load_plugins(plain, anew=True)
        config = Config.of(plain)
    return Composed(origin.overrides, origin.choices, config, varied=origin.varied)


def composed_tree(
    overrides: Sequence[str], *, may_sweep: bool = False
) -> tuple[DictConfig, DictConfig]:
    """What :func:`compose` would check and resolve, and Hydra's own configuration beside it."""
    words = list(map(read, overrides))
    choices, node, hydras = _composed_node(words)
    with _explaining(Origin(tuple(overrides), choices)):
        if may_sweep:
            _take_over(node, words)
        _lay(node, words)
    return node, pickle.loads(hydras)


def tell_info(overrides: Sequence[str], info: str) -> None:
    """Print what Hydra tells of a composition: its ``info`` is one of those of ``--info``."""
    words = list(map(read, overrides))
    _composed_node(words)  # raises what is wrong in our own words
    chosen = _for_hydra(words, _plugins(words, [name for word in words for name in word.studies]))
    lines = [word.line for word in words if word.sets_a_key and not word.sweeps]
    log = logging.getLogger()  # Hydra has it print, and leaves it so
    level, handlers = log.level, list(log.handlers)
    try:
        with _hydra(chosen):
            hydra: Any = GlobalHydra.instance().hydra
            hydra.show_info(info, ROOT, [*_lines(chosen), *lines])
    finally:
        log.setLevel(level)
        log.handlers[:] = handlers


def _refuse_sweep(word: Word) -> None:
    if word.sweeps:
        hint = "`dimsweep sweep` simulates each of them; a list is written in brackets, a number "
        hint += "with a point, and a text with commas or brackets in quotes"
        if shape := word.shape:
            hint = f"did you mean {shape}? `dimsweep sweep` simulates each of several shapes"
        what = f"{word.text.partition('=')[2]} gives this key several values"
        raise DimsweepError(what, where=word.key, hint=hint)


def _composed_node(
    words: Sequence[Word], *, anew: bool = True
) -> tuple[dict[str, str], DictConfig, bytes]:
    """The option chosen for each group, what the files and the keys that are set say, neither
    resolved nor checked, and Hydra's own configuration, pickled.  Plug-ins are loaded before, and
    ``anew`` where they have changed: Hydra is to know their options and kinds of workloads."""
    origin = Origin(tuple(word.text for word in words), {})
    if len(named := sorted({name for word in words for name in word.studies})) > 1:
        hint = "give one; `dimsweep compare` shows the best of several"
        raise DimsweepError(f"{' and '.join(named)} are named", where="study", hint=hint)
    with _explaining(origin):
        plugins = _plugins(words, named)
    with replace(origin, choices={STUDY: "".join(named) or "none"}).blaming():
        load_plugins({"plugins": plugins}, anew=anew)
    with _explaining(origin):
        chosen = tuple(_for_hydra(words, plugins))
        choices, files, hydras = _compose_files(chosen, _state_of_files(chosen))
    node = pickle.loads(files)  # a third of the time of a deep copy
    with _explaining(Origin(origin.overrides, choices)):
        for word in words:
            if word.sets_a_key:
                refuse_unknown(word.key, node)
            if word.sets_a_key and not word.sweeps:
                value = word.parsed.value()
                OmegaConf.update(node, word.key, value, merge=True, force_add=True)
    return choices, node, hydras


@contextmanager
def _explaining(origin: Origin) -> Iterator[None]:
    """Errors of composing say in our words what is wrong, and where it came from."""
    try:
        yield
    except MissingMandatoryValue as error:
        missing = DimsweepError("this key needs a value", where=str(error.full_key), hint=GIVE)
        raise origin.blame(missing) from error
    except OmegaConfBaseException as error:
        raise origin.blame(_explain(error)) from error
    except HydraException as error:
        raise _explain(error) from error
    except RecursionError as error:
        raise _endless(origin) from error


def _take_over(tree: Any, words: Sequence[Word]) -> None:
    """Have an override of one value take the place of the axis that there is for its key before it:
    the axis has that value alone, and the rows say so.

    Raises :class:`DimsweepError` for one of a part of an axis, or around one, over which each cell
    would lay the axis' own value.
    """
    axes, portfolio = tree.get(AXES), tree.get("portfolio")
    axes = axes if isinstance(axes, MutableMapping) else {}
    weights = portfolio.get("workloads") if isinstance(portfolio, Mapping) else None
    grids = [i for i, word in enumerate(words) if word.key == AXES]
    groups = [word.key.partition(".")[0] for word in words]
    for i, word in enumerate(words):
        if grids and i < grids[-1]:  # what is given later counts
            continue
        if word.sweeps or not (word.chooses or word.sets_a_key) or word.parsed.is_delete():
            continue
        if word.key == "workload" and word.chooses and weights and "portfolio" not in groups[i:]:
            hint = "give portfolio.workloads; a study without one is of one workload"
            what = "the workloads are those of the portfolio"
            raise DimsweepError(what, where=word.key, hint=hint)
        value = word.parsed.value()
        if word.key in axes:
            axes[word.key] = [value]
        for axis, own in axes.items() if word.sets_a_key else ():
            if _covers(axis, word.key, own) or _covers(word.key, axis, [value]):
                hint = f"{axis}=VALUE takes the place of the axis"
                what = f"each cell of the study's grid sets {axis}, over this"
                raise DimsweepError(what, where=word.key, hint=hint)


def _covers(key: Any, part: Any, values: Any) -> bool:
    """Whether one of the values of a dotted key says what a part of it is."""
    above, rest = f"{key}.", str(part)
    if not rest.startswith(above) or is_group(str(key)) or not isinstance(values, Sequence):
        return False
    if has_order(key):  # its values replace what was there
        return True
    for value in values:
        for name in rest.removeprefix(above).split("."):
            if not isinstance(value, Mapping):
                return value is not None
            value = value.get(name)
        if value is not None:
            return True
    return False


def _lay(tree: Any, words: Sequence[Word]) -> None:
    """Make overrides of several values what is searched of their keys, where the study searches
    them, or else axes of its grid, in the place of what the study has there."""
    for word in words:
        if not word.sweeps:
            continue
        axes, searched = _mapping(tree, AXES), _mapping(tree, SEARCHED)
        if axes is None or searched is None:
            return  # the schema refuses them
        if (word.spans and not word.chooses) or word.key in searched:
            axes.pop(word.key, None)
            searched[word.key] = word.parameter()
        else:
            axes[word.key] = word.values()


def _mapping(tree: Any, place: str) -> MutableMapping[str, Any] | None:
    """The mapping at a dotted key, made where there is nothing; None where there is another."""
    for name in place.split("."):
        if not isinstance(tree, MutableMapping):
            return None
        if tree.get(name) is None:
            tree[name] = {}
        tree = tree[name]
    return tree if isinstance(tree, MutableMapping) else None


def _plugins(words: Sequence[Word], studies: Sequence[str]) -> list[Any]:
    """The plug-ins that overrides name, or else the study, or a study that it builds on."""
    for word in reversed(words):
        if word.key == "plugins" and word.sets_a_key and not word.sweeps:
            return _listed(word.parsed.value())
    for file in filter(None, map(find_study, studies)):
        keys: Any = OmegaConf.to_container(read_options(file).node)
        if "plugins" in keys:
            return _listed(keys["plugins"])
        below = [name for each in keys.get("defaults", ()) for name in _studies_below(each)]
        if found := _plugins((), [name for name in reversed(below) if name != file.stem]):
            return found
    return []


def _studies_below(entry: Any) -> list[str]:
    """The studies that an entry of a study's defaults names."""
    if isinstance(entry, str):
        return [entry.removeprefix(f"/{STUDY}/")]
    return [str(name) for group, name in entry.items() if group.split("/")[-1] == STUDY]


def _listed(plugins: Any) -> list[Any]:
    """Plug-ins as they are given; what refers to other keys is known once they are composed."""
    names = plugins if isinstance(plugins, list) else [plugins]
    return [name for name in names if "${" not in str(name)]


def _for_hydra(words: Sequence[Word], plugins: Sequence[str]) -> list[Word]:
    """What Hydra is to compose: options, keys that are left out, and where to search; of several
    options the first."""
    searched, chosen = _search_path(words, plugins), []
    for word in words:
        if word.chooses and word.sweeps:
            word = read(choice_of(word.key, str(word.values()[0])))
        if not (word.sets_a_key or word.is_hydras):
            _check_choice(word)
            chosen.append(word)
    return [*searched, *_with_parts(chosen)]


def _search_path(words: Sequence[Word], plugins: Sequence[str]) -> list[Word]:
    """The override that has Hydra search where ``hydra.searchpath`` says, and what plug-ins bring
    along, if anything does; our own look-ups then search these folders, too."""
    places, folders = list[str](), list[Path]()
    for place in (place for word in words if word.is_hydras for place in _places(word)):
        if "://" in place and not place.startswith("file://"):
            places.append(place)
            continue
        folder = Path(place.removeprefix("file://")).expanduser().resolve()
        if not folder.is_dir():
            raise DimsweepError(f"there is no folder {place}", where=SEARCH_PATH)
        folders.append(folder)
        places.append(f"{Options.scheme()}://{folder}")
    for name in (*plugins, *installed_plugins()):
        if (brought := options_of(name)) and brought.resolve() != Path("conf").resolve():
            folders.append(brought)
            places.append(f"{Options.scheme()}://{brought}")
    search_also(folders)
    once = dict.fromkeys(places)
    return [read(f"{SEARCH_PATH}=[{','.join(map(quoted, once))}]")] if once else []


def _places(word: Word) -> list[str]:
    """The folders and packages that an override of Hydra's own search path names."""
    if word.key != SEARCH_PATH or word.parsed.is_delete():
        hint = f"{SEARCH_PATH} has folders beside conf/; `results` says where results go, and "
        hint += "`executor` where trials run"
        raise DimsweepError("dimsweep starts and logs its runs itself", where=word.key, hint=hint)
    given: Any = word.parsed.value()
    if (
        word.sweeps
        or not isinstance(given, list)
        or not all(isinstance(place, str) and place for place in given)
    ):
        what = f"{word.text.partition('=')[2]} is no list of folders"
        hint = f"such as '{SEARCH_PATH}=[/home/me/conf,pkg://mine.conf]'"
        raise DimsweepError(what, where=SEARCH_PATH, hint=hint)
    return list[str](given)


def _with_parts(chosen: Sequence[Word]) -> list[Word]:
    """The options that are chosen, with the parts of a machine that ``cluster=`` names among them:
    those go before a study's own, but not before parts that are chosen beside it."""
    given = {word.key for word in chosen}
    named = [str(word.parsed.value()) for word in chosen if word.key == CLUSTER]
    parts = parts_of(find_option(CLUSTER, named[-1]) if named else None)
    return [*chosen, *(read(choice_of(k, part)) for k, part in parts.items() if k not in given)]


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


@lru_cache(maxsize=512)
def _compose_files(chosen: tuple[Word, ...], state: int) -> tuple[dict[str, str], bytes, bytes]:
    """The option chosen for each group, and, each a DictConfig, pickled, what the files say under
    the ``chosen`` options and Hydra's own configuration.

    This takes most of the time of a composition, and the cells of a grid mostly choose the same
    files: it is kept while the files stay in the same ``state``.
    """
    with _hydra(chosen), warnings.catch_warnings():
        warnings.filterwarnings("error", message="provider=")  # of a place that there is not
        try:
            composed = hydra_compose(ROOT, overrides=_lines(chosen), return_hydra_config=True)
        except UserWarning as error:
            raise DimsweepError(str(error).rstrip("."), where=SEARCH_PATH) from error
        except yaml.YAMLError as error:  # of a place that Hydra's own sources read
            raise explain_yaml(error, Path(SEARCH_PATH)) from error
    choices = dict(composed.hydra.runtime.choices)
    keys: Any = composed  # whatever they are: the schema refuses what is no text
    own = _masked(composed, [key for key in keys if key != "hydra"])
    return choices, pickle.dumps(own), pickle.dumps(_masked(composed, ["hydra"]))


def _masked(composed: DictConfig, keys: list[Any]) -> DictConfig:
    """Some keys of what nobody needs any more, which are not copied."""
    taken = OmegaConf.create()
    with flag_override(taken, "no_deepcopy_set_nodes", True):
        for key, value in composed.items_ex(resolve=False, keys=keys):
            taken[key] = value
    return taken


def _lines(chosen: Sequence[Word]) -> list[str]:
    """Overrides as Hydra's own commands take them."""
    return [*(f"hydra/{group}=[]" for group in _HYDRAS), *(word.line for word in chosen)]


def _check_choice(word: Word) -> None:
    """Raise :class:`DimsweepError` unless an option is chosen for a group by its name; Hydra takes
    it for granted, and would lay several of a list one over the other."""
    group, value, deletes = word.key, word.parsed.value(), word.parsed.is_delete()
    if not group.strip("/"):
        raise DimsweepError(f"{word.text!r} has no key", hint="write KEY=VALUE")
    if deletes and (value is None or not is_group(group)):
        return
    names = value if isinstance(value, list) and not deletes else [value]
    is_one = [isinstance(name, str) and name != "_self_" and "\0" not in name for name in names]
    if len(names) > 1 or not all(is_one):
        hint = f"give one option (`dimsweep list {group}` shows them); a grid simulates several"
        what = f"{word.parsed.get_value_string()} is no option"
        raise DimsweepError(what, where=group, hint=hint)


def _state_of_files(chosen: Sequence[Word]) -> int:
    """Changes with every change of a file that may be composed."""
    folders = [str(home) for kind in ("conf", "studies") for home in homes(kind)]
    named = [name for word in chosen for name in word.studies]
    files = [str(file) for name in named if (file := find_study(name))]
    states = [state_of(file) for each in (*map(_options_below, folders), files) for file in each]
    if None in states:  # it is so new that another change might not show
        states.append(time.time_ns())
    return hash((*states, *KINDS.items()))


def _options_below(folder: str) -> Iterator[str]:
    """The files of options in a folder and in those below it, wherever these lead."""
    for above, _, names in os.walk(folder):
        yield from (f"{above}/{name}" for name in names if name.endswith(".yaml"))


@contextmanager
def _hydra(chosen: Sequence[Word]) -> Iterator[None]:
    """Hydra, initialised on our configuration folders; ``chosen`` tells which study matters."""
    schema.register()
    Studies.given = dict(_given(chosen))
    for plugin in (SearchPath, Options, Studies):
        Plugins.instance().register(plugin)
    with initialize_config_dir(str(installed("conf")), version_base="1.3"):
        hydra: Any = GlobalHydra.instance().hydra
        hydra.config_loader = Loader(hydra.config_loader.get_search_path())
        yield


def _given(chosen: Sequence[Word]) -> Iterator[tuple[str, Path]]:
    """The studies that overrides choose, each with its file; raises :class:`DimsweepError` if a
    path leads to none, and leaves it to Hydra to tell which names there are."""
    for name in (name for word in chosen for name in word.studies):
        if file := find_study(name):
            yield file.stem, file
        elif names_file(name):
            raise DimsweepError("there is no such file", where=name)


def _endless(origin: Origin) -> DimsweepError:
    names = [name for word in origin.words for name in word.studies]
    return DimsweepError(
        "its defaults have no end",
        where=", ".join(str(find_study(name) or name) for name in names),
        hint="a study, or a file that it names, includes itself or is nested too deeply",
    )


def _explain(error: Exception) -> DimsweepError:
    """Hydra's own message, which names the file or override, with the cause that names the key."""
    if explained := explain_missing(str(error)):
        return explained
    text, cause, where = str(error).strip(), error.__cause__, ""
    if " raised while composing config:" in text:  # In 'workload/x': SomeError raised while ...
        where, text = text.removeprefix("In '").split("': ", 1)
        where, text = file_of(where), text.split(" raised while composing config:", 1)[1].strip()
    first, _, rest = text.partition("\n")
    if cause is not None and str(cause).partition("\n")[0] not in text:
        first = f"{first.rstrip('.:')}: {cause}".partition("\n")[0]
    key = re.search(r"full_key: *(\S+)", f"{rest} {cause}")
    what = re.sub(r"^\w+ raised while resolving interpolation: ", "", first).strip('"')
    hint, place = "", key[1] if key else ""
    if "Cannot merge DictConfig with ListConfig" in what:  # the same of both that could be meant
        is_list = "object_type=list" in f"{rest} {cause}"
        if not place and Path(where).is_file():
            place, is_list = _misplaced_in(where) or ("", False)
        what, hint = "a list stands where keys with values belong", "such as {KEY: VALUE}"
        if is_list:
            what, hint = "keys with values stand where a list belongs", "such as [{KEY: VALUE}]"
    return DimsweepError(what, where=": ".join([where, place]).strip(": "), hint=hint)


def _misplaced_in(file: str) -> tuple[str, bool] | None:
    """What is misplaced in a file that Hydra has read, beside a configuration in which nothing is
    chosen."""
    known = pickle.loads(_compose_files((), _state_of_files(()))[1])
    given, plain = (OmegaConf.to_container(each) for each in (OmegaConf.load(file), known))
    return _misplaced(given, plain)


def _misplaced(given: Any, known: Any, place: str = "") -> tuple[str, bool] | None:
    """The first key that has a list in ``given`` where ``known`` has keys, or the other way, and
    whether that is a list there."""
    if {type(given), type(known)} == {dict, list}:
        return place, isinstance(known, list)
    if not isinstance(given, dict) or not isinstance(known, dict):
        return None
    below = (
        _misplaced(each, known.get(key), f"{place}.{key}".strip(".")) for key, each in given.items()
    )
    return next(filter(None, below), None)
