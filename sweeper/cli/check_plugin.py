"""dimsweep check-plugin: the self-checks of what a plug-in registers."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import click


@click.command("check-plugin")
@click.argument("plugin", metavar="FILE")
def command(plugin: str) -> int:
    """Check what a plug-in registers, in all fidelities.

    FILE is a Python file, or a module that can be imported. Blocks, algorithms, generators of
    networks, transports, memories and models are held against what they say of themselves and
    against all fidelities that know them (engine.testing), samplers and objectives against a
    small search; options of configuration groups are composed. The exit code is 1 if something
    does not hold.

    \b
    Examples:
      dimsweep check-plugin examples/plugins/nvme.py
      dimsweep check-plugin my_package.hypercube
    """
    from rich.console import Console

    from dimsweep.engine import DimsweepError
    from dimsweep.sweeper.plugins.loading import load, loaded
    from dimsweep.sweeper.terminal import say, table

    load([plugin], anew=True)
    rows, wrong = list[tuple[str, ...]](), list[str]()
    console, found, known = Console(), loaded([plugin])[-1], _checks()
    todo = [(registry.what, name, registry[name]) for registry, name in found.entries]
    for what, name, thing in [*todo, *(("option", each, plugin) for each in found.options)]:
        start, verdict = time.perf_counter(), "holds"
        try:
            if what in known:
                known[what](name, thing)
            else:
                verdict = "registered; there is no check of it"
        except DimsweepError as error:
            verdict = "does not hold"
            wrong.append(f"{what} {name}: {error.what}")
        rows.append((what, name, verdict, f"{time.perf_counter() - start:.1f} s"))
    console.print(table(("what", "name", "check", "took"), rows, left=3))
    for each in wrong:
        say(each, console)
    return 1 if wrong else 0


def _checks() -> dict[str, Callable[[str, Any], None]]:
    """By what a registry holds."""
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
        "generator": lambda name, generator: _of_generator(name),
        "transport": lambda name, transport: check_transport(name),
        "memory": lambda name, memory: check_memory(name),
        "family of models": lambda name, family: check_model(family()),
        "sampler": lambda name, sampler: _told(_of_sampler(name, sampler)),
        "objective": lambda name, objective: _told(_of_objective(name, objective)),
        "option": _of_option,
    }


def _of_generator(kind: str) -> None:
    """As a configuration that gives its kind alone makes it."""
    from dimsweep.engine import DimsweepError
    from dimsweep.engine.testing import check_generator
    from dimsweep.sweeper.config.network import Network

    try:
        made = Network.of({"generator": {"kind": kind}}).generator
    except DimsweepError as error:
        what = f"{error.where}: {error.what}; what is checked is the network of its defaults"
        raise DimsweepError(what) from error
    assert made is not None
    check_generator(made)


def _of_option(option: str, plugin: str) -> None:
    """Composed, and its cluster built."""
    from dimsweep.sweeper.build.program import build_cluster
    from dimsweep.sweeper.config.compose import compose
    from dimsweep.sweeper.config.overrides import choice_of, quoted

    group, _, name = option.partition("=")
    words = [f"plugins={quoted(plugin)}", choice_of(group, name)]
    fitting = ["topology.tiers=[]"] if group == "topology" else []
    build_cluster(compose([*words, *fitting]).config)


def _told(findings: Iterator[str]) -> None:
    from dimsweep.engine import DimsweepError

    if found := list(findings):
        raise DimsweepError("; ".join(found))


def _of_sampler(name: str, sampler: Any) -> Iterator[str]:
    """Asked for a dozen trials and told their values, twice over."""
    from dimsweep.sweeper.config.study import Parameter, Search
    from dimsweep.sweeper.objective import OBJECTIVES
    from dimsweep.sweeper.search.sampler import Task
    from dimsweep.sweeper.space.space import Space, parameter

    space = Space(None, {"collective.chunks": parameter(Parameter(low=1, high=64))})
    proposed = []
    for _ in range(2):
        made = sampler(Task(name, Search(sampler=name), space, (OBJECTIVES["time"],)))
        trials = list[Any]()
        while len(trials) < 12:
            asked = list(made.ask(4))
            if not 1 <= len(asked) <= 4:
                yield f"asked for 4 trials it proposes {len(asked)}"
                return
            made.tell(asked, [(float(i),) for i, _ in enumerate(asked)], [None] * len(asked))
            trials += asked
        proposed.append([trial.parameters for trial in trials])
    if proposed[0] != proposed[1]:
        yield "with the same seed it proposes other trials"


def _of_objective(name: str, objective: Any) -> Iterator[str]:
    from dimsweep.sweeper.ledger.schema import row_schema

    if objective.name != name:
        yield f"it is called {objective.name} and registered as {name}"
    if objective.column not in row_schema(1, (), ()).names:
        yield f"rows have no column {objective.column!r}"
    if objective.loss(objective.loss(2.0)) != 2.0:
        yield "its loss is not its own inverse"
