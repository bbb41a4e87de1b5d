"""Compose a configuration with Hydra from conf/, studies/ and overrides of the command line."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.config.composition import (
    compose_files,
    compose_with_hydra,
    folder_url,
    hash_files,
    show_info,
)
from dimsweep.sweeper.config.explain import Origin, explaining_errors, refuse_unknown_key
from dimsweep.sweeper.config.options import SEARCH_PATH, hydra_key_error, read_options
from dimsweep.sweeper.config.overrides import (
    STUDY,
    ConfigOverride,
    apply_sweeps,
    format_choice,
    is_group,
    quote,
    read_override,
    replace_axes,
)
from dimsweep.sweeper.config.schema import Config, load_config_plugins
from dimsweep.sweeper.part import has_order
from dimsweep.sweeper.places import (
    find_option,
    find_study,
    installed_plugins,
    list_groups,
    plugin_options_folder,
    set_extra_folders,
)

CLUSTER = "cluster"  # the group whose options choose those of other groups
WORKLOAD = "workload"


@dataclass(frozen=True)
class ComposedConfig(Origin):
    """A configuration, with the overrides and options that it was composed from."""

    config: Config
    state: int | None = field(default=None, kw_only=True, compare=False)  # of all files of options


def compose(
    overrides: Sequence[str],
    values: Mapping[str, Any] | None = None,
    *,
    may_sweep: bool = False,
    state: int | None = None,
) -> ComposedConfig:
    """Return the configuration under overrides, with ``values`` of dotted keys set afterwards.

    Parameters
    ----------
    overrides
        Hydra's overrides, such as ``study=x`` and ``topology.shape=...``.
    values
        Values of dotted keys that a cell of a grid sets; None if the configuration is not a cell.
    may_sweep
        Whether overrides may have several values. These become axes of the grid, or a range that
        is searched. Of several options of a config group the first one is composed.
    state
        State of the files, from an earlier :attr:`ComposedConfig.state`. If it is None, the files
        are inspected.

    Raises
    ------
    DimsweepError
        If a file or a key is wrong; the error names both.
    """
    words = list(map(read_override, overrides))
    for word in words if not may_sweep else ():
        _refuse_sweep(word)
    # Workers have a cell's plug-ins.
    choices, node, state = _compose_node(words, anew=values is None, state=state)
    origin = Origin(tuple(overrides), choices, varied=tuple(values or ()))
    with explaining_errors(origin):
        for key, value in (values or {}).items():
            # Merging would keep the order of the existing mapping.
            OmegaConf.update(node, key, value, merge=not has_order(key), force_add=True)
        plain = OmegaConf.to_container(node, resolve=True, throw_on_missing=True)
        if may_sweep and values is None:  # a cell has one value of each axis
            replace_axes(plain, words)
        apply_sweeps(plain, words)
        _check_size(plain, choices)
    with origin.adding_sources():
        if values is None:
            load_config_plugins(plain, anew=True)
        try:
            config = Config.from_plain(plain)
        except DimsweepError as error:
            raise _add_portfolio_hint(error, plain, choices) from error.__cause__
    return ComposedConfig(
        origin.overrides, origin.choices, config, varied=origin.varied, state=state
    )


def compose_keys(overrides: Sequence[str], *, may_sweep: bool = False) -> DictConfig:
    """Return the configuration of :func:`compose`, not yet resolved or checked."""
    words = list(map(read_override, overrides))
    choices, node, _ = _compose_node(words)
    with explaining_errors(Origin(tuple(overrides), choices)):
        if may_sweep:
            replace_axes(node, words)
        apply_sweeps(node, words)
    return node


def compose_hydra_config(overrides: Sequence[str]) -> DictConfig:
    """Return the values below Hydra's key ``hydra`` under ``overrides``."""
    chosen = _choose(list(map(read_override, overrides)))
    return OmegaConf.masked_copy(compose_with_hydra(chosen), ["hydra"])


def print_info(overrides: Sequence[str], info: str) -> None:
    """Print one of Hydra's reports on a composition; ``info`` is a choice of Hydra's ``--info``."""
    words = list(map(read_override, overrides))
    _compose_node(words)  # reports errors better than Hydra
    lines = [word.line for word in words if word.is_setting and not word.is_sweep]
    log = logging.getLogger()  # Hydra changes its level and handlers
    level, handlers = log.level, list(log.handlers)
    try:
        show_info(info, _choose(words), lines)
    finally:
        log.setLevel(level)
        log.handlers[:] = handlers


def _refuse_sweep(word: ConfigOverride) -> None:
    if word.is_sweep:
        hint = "`dimsweep sweep` simulates several values; for one value, write a list in brackets,"
        hint += " a number with a point, and a text with commas or brackets in quotes"
        if shape := word.shape:
            hint = f"did you mean {shape}? `dimsweep sweep` simulates several shapes"
        problem = f"{word.text.partition('=')[2]} gives this key several values"
        raise DimsweepError(problem, where=word.key, hint=hint, code="unsupported")


def _compose_node(
    words: Sequence[ConfigOverride], *, anew: bool = True, state: int | None = None
) -> tuple[Mapping[str, str], DictConfig, int]:
    """Return each group's option, the keys (unresolved and unchecked), and the state of the files.

    Plug-ins are loaded first, since Hydra must know their options. With ``anew``, changed plug-ins
    are loaded again.
    """
    origin = Origin(tuple(word.text for word in words), {})
    if len(named := _named_studies(words)) > 1:
        problem = f"several studies are given: {' and '.join(named)}"
        hint = "give one; `dimsweep compare` compares several"
        raise DimsweepError(problem, where="study", hint=hint, code="conflict")
    with explaining_errors(origin):
        plugins = _find_plugins(words, named)
    with replace(origin, choices={STUDY: "".join(named) or "none"}).adding_sources():
        load_config_plugins({"plugins": plugins}, anew=anew)
    with explaining_errors(origin):
        chosen = _select_for_hydra(words, plugins)
        state = hash_files(chosen) if state is None else state
        tree = compose_files(chosen, state)
    node = tree.node()
    with explaining_errors(Origin(origin.overrides, tree.choices)):
        for word in words:
            if word.is_setting:
                refuse_unknown_key(word.key, node)
            if word.is_setting and not word.is_sweep:
                value = word.parsed.value()
                OmegaConf.update(node, word.key, value, merge=True, force_add=True)
    return tree.choices, node, state


def _choose(words: Sequence[ConfigOverride]) -> list[ConfigOverride]:
    """Return the overrides that Hydra composes, after checking all of them."""
    return _select_for_hydra(words, _find_plugins(words, _named_studies(words)))


def _named_studies(words: Sequence[ConfigOverride]) -> list[str]:
    return sorted({name for word in words for name in word.studies})


def _find_plugins(words: Sequence[ConfigOverride], studies: Sequence[str]) -> list[Any]:
    """Return the plug-ins that overrides name, or else those of the study or its base studies."""
    for word in reversed(words):
        if word.key == "plugins" and word.is_setting and not word.is_sweep:
            return _list_plugins(word.parsed.value())
    for file in filter(None, map(find_study, studies)):
        keys: Any = OmegaConf.to_container(read_options(file).node)
        if "plugins" in keys:
            return _list_plugins(keys["plugins"])
        below = [name for each in keys.get("defaults", ()) for name in _studies_below(each)]
        if found := _find_plugins((), [name for name in reversed(below) if name != file.stem]):
            return found
    return []


def _studies_below(entry: Any) -> list[str]:
    """Return the studies that an entry of a study's defaults list names."""
    if isinstance(entry, str):
        return [entry.removeprefix(f"/{STUDY}/")]
    return [str(name) for group, name in entry.items() if group.split("/")[-1] == STUDY]


def _list_plugins(plugins: Any) -> list[Any]:
    """Return the list ``plugins`` without entries that interpolate other keys."""
    names = plugins if isinstance(plugins, list) else [plugins]
    return [name for name in names if "${" not in str(name)]


def _select_for_hydra(
    words: Sequence[ConfigOverride], plugins: Sequence[str]
) -> list[ConfigOverride]:
    """Return overrides for Hydra: search path, removed keys, and the first option of each group."""
    searched, chosen = _search_path_overrides(words, plugins), []
    for word in words:
        if word.is_choice and word.is_sweep:
            word = read_override(format_choice(word.key, str(word.values()[0])))
        if not (word.is_setting or word.is_hydra_key):
            _check_choice(word)
            chosen.append(word)
    return [*searched, *_add_cluster_parts(chosen)]


def _search_path_overrides(
    words: Sequence[ConfigOverride], plugins: Sequence[str]
) -> list[ConfigOverride]:
    """Return the override of Hydra's search path, if ``hydra.searchpath`` or plug-ins add folders.

    Also registers these folders for look-ups of files in :mod:`sweeper.places`.
    """
    places, folders = list[str](), list[Path]()
    for place in (
        place for word in words if word.is_hydra_key for place in _read_search_path(word)
    ):
        if "://" in place and not place.startswith("file://"):
            places.append(place)
            continue
        folder = Path(place.removeprefix("file://")).expanduser().resolve()
        if not folder.is_dir():
            problem = f"{place} is not a folder"
            raise DimsweepError(problem, where=SEARCH_PATH, code="inaccessible")
        folders.append(folder)
        places.append(folder_url(folder))
    for name in (*plugins, *installed_plugins()):
        if (brought := plugin_options_folder(name)) and brought.resolve() != Path("conf").resolve():
            folders.append(brought)
            places.append(folder_url(brought))
    set_extra_folders(folders)
    once = dict.fromkeys(places)
    return [read_override(f"{SEARCH_PATH}=[{','.join(map(quote, once))}]")] if once else []


def _read_search_path(word: ConfigOverride) -> list[str]:
    """Return the folders and packages that an override of Hydra's search path names."""
    if word.key != SEARCH_PATH or word.parsed.is_delete():
        raise hydra_key_error(word.key)
    given: Any = word.parsed.value()
    if (
        word.is_sweep
        or not isinstance(given, list)
        or not all(isinstance(place, str) and place for place in given)
    ):
        problem = f"{word.text.partition('=')[2]} is not a list of folders"
        hint = f"write '{SEARCH_PATH}=[/home/me/conf,pkg://mine.conf]'"
        raise DimsweepError(problem, where=SEARCH_PATH, hint=hint, code="wrong-type")
    return list[str](given)


def _add_cluster_parts(chosen: Sequence[ConfigOverride]) -> list[ConfigOverride]:
    """Return the chosen options, and options for the components of the machine of ``cluster=``.

    These options replace the study's, but not options that are chosen explicitly.
    """
    given = {word.key for word in chosen}
    named = [str(word.parsed.value()) for word in chosen if word.key == CLUSTER]
    parts = read_cluster_parts(find_option(CLUSTER, named[-1]) if named else None)
    return [
        *chosen,
        *(read_override(format_choice(k, part)) for k, part in parts.items() if k not in given),
    ]


def read_cluster_parts(file: Path | None) -> dict[str, str]:
    """Return the option that a file of the group ``cluster`` chooses for each other group."""
    entries = [] if file is None else read_options(file).node.get("defaults") or []
    pairs = [next(iter(entry.items())) for entry in entries if isinstance(entry, Mapping)]
    return {str(group).split("/")[-1]: str(part) for group, part in pairs}


def _check_size(plain: Any, choices: Mapping[str, str]) -> None:
    """Raise :class:`DimsweepError` if ``nodes`` is set but no machine is chosen."""
    if plain.get("nodes") is not None and choices.get(CLUSTER, "none") == "none":
        hint = "add cluster=, one of " + ", ".join(list_groups()[CLUSTER])
        hint += "; or give the size in topology.shape"
        axis = (plain.get("grid") or {}).get(CLUSTER)
        if isinstance(axis, list) and axis:
            hint = "the axis replaces the study's own machine, which is missing: add "
            hint += f"cluster={axis[0]}, or `override /cluster: {axis[0]}` to its defaults"
        problem = "it is the number of nodes of a machine, and no machine is chosen"
        raise DimsweepError(problem, where="nodes", hint=hint, code="missing")


def _add_portfolio_hint(
    error: DimsweepError, plain: Any, choices: Mapping[str, str]
) -> DimsweepError:
    """Return the error, with a hint if the study's workload lacks keys that its portfolio needs."""
    weights = (plain.get("portfolio") or {}).get("workloads")
    chosen = choices.get(WORKLOAD)
    if not weights or chosen in weights or error.where.partition(".")[0] != WORKLOAD:
        return error
    hint = f"known are the keys of the study's own workload={chosen}: add"
    hint += f" `override /{WORKLOAD}: {next(iter(weights))}` to its defaults, before _self_"
    return error.replace(hint=hint)


def _check_choice(word: ConfigOverride) -> None:
    """Raise :class:`DimsweepError` unless an override chooses a single option by its name.

    Hydra does not check this, and would merge several options of a list.
    """
    group, value, deletes = word.key, word.parsed.value(), word.parsed.is_delete()
    if not group.strip("/"):
        problem = f"{word.text!r} has no key"
        raise DimsweepError(problem, hint="write KEY=VALUE", code="bad-syntax")
    if deletes and (value is None or not is_group(group)):
        return
    names = value if isinstance(value, list) and not deletes else [value]
    is_one = [isinstance(name, str) and name != "_self_" and "\0" not in name for name in names]
    if len(names) > 1 or not all(is_one):
        hint = f"give one option (`dimsweep list {group}` shows them); a grid simulates several"
        problem = f"{word.parsed.get_value_string()} is not the name of an option"
        raise DimsweepError(problem, where=group, hint=hint, code="wrong-type")
