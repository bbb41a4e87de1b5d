"""Self-checks of plug-ins: all for the command check-plugin, the quick ones before a simulation.

A verdict is stored on disk by the text of the plug-ins, so that each text is checked once.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from typing import Any

from dimsweep.engine import MODEL_VERSION, DimsweepError, cache_folder
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.plugins import LoadedPlugin, find_plugin_error, loaded_plugins

# Registries whose checks take seconds; the checks of the others compile kernels for minutes.
_QUICK = ("block", "collective algorithm", "generator", "memory", "family of models")


def find_fault(registry: str, name: str, thing: Any) -> str | None:
    """Return the fault of a registered object, "" if it has none, None if there is no check."""
    check = _checks().get(registry)
    if check is None:
        return None
    try:
        check(name, thing)
    except DimsweepError as error:
        return error.problem
    except Exception as error:
        if (of_plugin := find_plugin_error(error)) is None:
            raise
        return f"{of_plugin.where.removeprefix('plugins: ')}: {of_plugin.problem}"
    return ""


def plugin_warnings(config: Config) -> list[str]:
    """Return a warning for each faulty registered object that the configuration uses."""
    used = json.dumps({key: value for key, value in config.text.items() if key != "plugins"})
    plugins = loaded_plugins(config.plugins)
    texts = "".join(sorted(each.plugin.digest for each in plugins))
    return [
        f"{what} {name} of the plug-in {each.plugin.name} fails its self-check: {found}; "
        f"see dimsweep check-plugin {' '.join(config.plugins) or each.plugin.name}"
        for each in plugins
        for what, name, thing in _quick_entries(each)
        if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", used)
        and (found := _find_cached_fault(what, name, thing, texts))
    ]


def _quick_entries(plugin: LoadedPlugin) -> Iterator[tuple[str, str, Any]]:
    for registry, name in plugin.entries:
        if registry.what in _QUICK:
            yield registry.what, name, registry[name]


def _find_cached_fault(what: str, name: str, thing: Any, texts: str) -> str | None:
    """Return the fault of a registered object, stored for these ``texts`` of all plug-ins."""
    key = hashlib.blake2b(repr((MODEL_VERSION, texts, what, name)).encode(), digest_size=16)
    file = cache_folder() / "plug-ins" / f"{key.hexdigest()}.json"
    with suppress(OSError, ValueError):
        return str(json.loads(file.read_text("utf-8")))
    found = find_fault(what, name, thing)
    with suppress(OSError):  # the next run checks again
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(found), "utf-8")
    return found


@cache
def _checks() -> dict[str, Callable[[str, Any], None]]:
    """Return the self-check of each registry, by the registry's name."""
    from dimsweep.engine.testing import (
        check_algorithm,
        check_block,
        check_memory,
        check_model,
        check_order,
        check_transport,
    )

    return {
        "block": lambda name, block: check_block(block),
        "collective algorithm": lambda name, algorithm: check_algorithm(algorithm),
        "order of dimensions": lambda name, order: check_order(name),
        "generator": lambda name, generator: _check_generator(name),
        "transport": lambda name, transport: check_transport(name),
        "memory": lambda name, memory: check_memory(name),
        "family of models": lambda name, family: check_model(family()),
        "sampler": lambda name, sampler: _raise_findings(_sampler_faults(name, sampler)),
        "objective": lambda name, objective: _raise_findings(_objective_faults(name, objective)),
        "option": _check_option,
    }


def _check_generator(kind: str) -> None:
    """Build the network of a generator's defaults, and check it."""
    from dimsweep.engine.testing import check_generator
    from dimsweep.sweeper.config.network import Network

    try:
        made = Network.from_plain({"generator": {"kind": kind}}).generator
    except DimsweepError as error:
        problem = f"{error.where}: {error.problem}; the check builds the network from its defaults"
        raise DimsweepError(problem, code=error.code) from error
    assert made is not None
    check_generator(made)


def _check_option(option: str, plugin: str) -> None:
    """Compose an option of a plug-in, and build the cluster."""
    from dimsweep.sweeper.config.compose import compose
    from dimsweep.sweeper.config.overrides import format_choice, quote
    from dimsweep.sweeper.simulation.program import build_cluster

    group, _, name = option.partition("=")
    words = [f"plugins={quote(plugin)}", format_choice(group, name)]
    fitting = ["topology.tiers=[]"] if group == "topology" else []
    build_cluster(compose([*words, *fitting]).config)


def _raise_findings(findings: Iterator[str]) -> None:
    if found := list(findings):
        raise DimsweepError("; ".join(found))


def _sampler_faults(name: str, sampler: Any) -> Iterator[str]:
    """Yield the faults of a sampler in two searches of 12 trials with the same seed."""
    from dimsweep.sweeper.config.study import Parameter, Search
    from dimsweep.sweeper.objective import OBJECTIVES
    from dimsweep.sweeper.search.sampler import Task
    from dimsweep.sweeper.space.space import Space, build_parameter

    space = Space(None, {"collective.chunks": build_parameter(Parameter(low=1, high=64))})
    proposed = []
    for _ in range(2):
        made = sampler(Task(name, Search(sampler=name), space, (OBJECTIVES["time"],)))
        trials = list[Any]()
        while len(trials) < 12:
            asked = list(made.ask(4))
            if not 1 <= len(asked) <= 4:
                yield f"it proposes {len(asked)} trials instead of 1 to 4"
                return
            made.tell(asked, [(float(i),) for i, _ in enumerate(asked)], [None] * len(asked))
            trials += asked
        proposed.append([trial.parameters for trial in trials])
    if proposed[0] != proposed[1]:
        yield "with the same seed it proposes other trials"


def _objective_faults(name: str, objective: Any) -> Iterator[str]:
    from dimsweep.sweeper.ledger.rows import row_schema

    if objective.name != name:
        yield f"its name is {objective.name}, but it is registered as {name}"
    if objective.column not in row_schema(1, (), ()).names:
        yield f"rows have no column {objective.column!r}"
    if objective.loss(objective.loss(2.0)) != 2.0:
        yield "its loss is not its own inverse"
