"""The schema of the whole configuration: all keys with their types and defaults.

Values are in files of conf/ and studies/.  Hydra composes them, and the result becomes a
:class:`Config`.
"""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import model_validator

import dimsweep.engine
from dimsweep.engine import DimsweepError, Fidelity, NetworkModel, format_yaml, suggest_names
from dimsweep.sweeper.config.cluster import Collective, Growth, Memory, Topology
from dimsweep.sweeper.config.cost import Cost, Purchase
from dimsweep.sweeper.config.jobs import Jobs
from dimsweep.sweeper.config.network import Network
from dimsweep.sweeper.config.npu import Npu, OtherNpuKind
from dimsweep.sweeper.config.reliability import Reliability
from dimsweep.sweeper.config.study import (
    Budget,
    Executor,
    Portfolio,
    Recheck,
    RoleOrWeights,
    Search,
    Space,
    WhatIf,
)
from dimsweep.sweeper.config.workload import KINDS, AnyWorkload
from dimsweep.sweeper.objective import Objective, parse_objectives
from dimsweep.sweeper.part import (
    Bytes,
    Flag,
    Part,
    ValueParser,
    WholeNumber,
    default,
    member_type,
    naming_key,
    preserve_errors,
    walk_values,
)
from dimsweep.sweeper.plugins import load_plugins

# Here, since its jobs are of all other kinds. `update` is not recorded by
# engine.registry.recording_registrations, so a plug-in that imports this module first does not
# register it.
KINDS.update(jobs=Jobs)


def _parse_axis(values: Any) -> tuple[Any, ...]:
    if not isinstance(values, (list, tuple)) or not values:
        hint = "such as [16, 64]"
        if isinstance(values, Mapping):
            hint = "an axis is a dotted key, such as 'grid={collective.chunks: [16, 64]}'"
        problem = f"{format_yaml(values)} is not a list of values"
        raise DimsweepError(problem, hint=hint, code="wrong-type")
    seen = set[str]()
    for value in values:
        if (text := repr(value)) in seen:
            problem, hint = f"{format_yaml(value)} is given twice", "give each value once"
            raise DimsweepError(problem, hint=hint, code="duplicate")
        seen.add(text)
    return tuple(values)


def _parse_link_names(value: Any) -> tuple[str, ...]:
    names = value if isinstance(value, (list, tuple)) else [value]
    if wrong := [name for name in names if not isinstance(name, str)]:
        problem = f"{format_yaml(wrong[0])} is not the name of a link"
        raise DimsweepError(problem, hint="such as NPU 3 -> leaf 0", code="wrong-type")
    return tuple(names)


def _parse_plugins(value: Any) -> tuple[str, ...]:
    names = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    if wrong := [name for name in names if not isinstance(name, str) or not name]:
        problem = f"{format_yaml(wrong[0])} is not the name of a plug-in"
        raise DimsweepError(problem, hint="such as [mine.py]", code="wrong-type")
    stems = [Path(name).stem for name in names]
    if twice := [name for name, stem in zip(names, stems, strict=True) if stems.count(stem) > 1]:
        problem = f"{' and '.join(twice)} have the same name"
        raise DimsweepError(problem, hint="rename one of them", code="duplicate")
    return names


def load_config_plugins(plain: Any, *, anew: bool = False) -> None:
    """Load the plug-ins named by a configuration in plain data; ``anew``: changed ones again."""
    if isinstance(plain, Mapping):
        with naming_key("plugins"):
            names = _parse_plugins(plain.get("plugins", ()))
        load_plugins(names, anew=anew)


class Design(Part):
    """The keys that determine a row of results: the row's key is a hash of their values."""

    workload: AnyWorkload
    topology: Topology = default(Topology)
    npu: Npu = default(Npu)
    other_npus: tuple[OtherNpuKind, ...] = ()
    memory: Memory = default(Memory)
    cost: Cost = default(Cost)
    reliability: Reliability = default(Reliability)
    collective: Collective = default(Collective)
    network: Network = default(Network)
    fidelity: Annotated[Fidelity, member_type(Fidelity)] = default("phase")
    fold: Flag = True
    plugins: Annotated[tuple[str, ...], ValueParser(_parse_plugins)] = ()

    def purchase(self, topology: dimsweep.engine.Topology, network: NetworkModel) -> Purchase:
        """Return the network and its NPUs with their price list, to compute cost and power."""
        n = topology.n_npus if network.graph is None else network.graph.n_npus
        others = tuple(
            other.purchase(f"other_npus[{i}]", n, self.cost)
            for i, other in enumerate(self.other_npus if self.cost.has_npus else ())
        )
        return Purchase(self.cost, topology, network.fabrics, network.graph, others)


class Question(Part):
    """The keys that identify a study; a study with another value of one is a different study."""

    #: Number of nodes of the machine that cluster= names; becomes `topology.shape`.
    nodes: WholeNumber | None = None
    objective: Annotated[
        tuple[Objective, ...],
        ValueParser(parse_objectives, lambda found: [each.name for each in found]),
    ] = default("time")
    space: Space = default(Space)
    grid: dict[str, Annotated[tuple[Any, ...], ValueParser(_parse_axis)]] = default(dict)
    search: Search
    portfolio: Portfolio = default(Portfolio)


class Extent(Part):
    """Keys that a resumed sweep may change: a study's name, limits and side questions."""

    name: str | None = None
    note: str | None = None  # a remark for readers of the results
    # roles of axes that differ from the defaults of their keys, or weights of a scenario's values
    roles: dict[str, RoleOrWeights] = default(dict)
    # today's design, as the keys in which it differs; it is simulated in addition
    baseline: dict[str, Any] = default(dict)
    budget: Budget = default(Budget)
    recheck: Recheck = default(Recheck)
    what_if: WhatIf = default("default")


class Run(Part):
    """Keys of where a run happens and where its output goes; they change no result."""

    executor: Executor = default(Executor)
    results: str = "results"
    # posterior of `dimsweep calibrate` for the cluster, from which intervals follow
    calibration: dict[str, Any] = default(dict)
    timeline: str | None = None
    timeline_limit: Bytes | None = default("10 MB")
    picture: str | None = None
    watch: Annotated[tuple[str, ...], ValueParser(_parse_link_names)] = ()
    congestion: str | None = None


# Keys that all cells of a study share, so they cannot be axes of a grid.
NO_AXES = {"study", "name", "note", "grid", "portfolio", "plugins", *Run.model_fields}


class Config(Run, Extent, Question, Design):
    """The whole configuration of a simulation or a study.

    Its four base classes hold the keys, grouped by what depends on them.
    """

    @model_validator(mode="before")
    @classmethod
    @preserve_errors
    def _refuse_control_characters(cls, value: Any) -> Any:
        """Raise :class:`DimsweepError` for texts with characters that would control a terminal."""
        for place, text in walk_values(value):
            if not isinstance(text, str) or text.isprintable():
                continue
            if any(ord(c) < 32 and c not in "\n\t" for c in text):
                problem = f"{text!r} has control characters in it"
                raise DimsweepError(problem, where=place, code="bad-syntax")
        return value

    @model_validator(mode="after")
    @preserve_errors
    def _check(self) -> Self:
        for i, other in enumerate(self.other_npus):
            if other.cost.price and not self.cost.npu_price:
                problem = "these NPUs have a price, but the others have none"
                hint = "leave it out, or give the price of the others (cost.npu)"
                raise DimsweepError(
                    problem, where=f"other_npus[{i}].cost", hint=hint, code="conflict"
                )
        # A space of networks simulates outages by flows, even if it simulates the rest by phases.
        if self.reliability.outages and not self.by_message and self.space.network is None:
            problem = "fidelity=phase simulates no devices or links that could be down"
            hint = "add fidelity=message, flow or packet, or leave the outages out"
            raise DimsweepError(problem, where="reliability.outages", hint=hint, code="unsupported")
        for name in ("name", "results"):
            if getattr(self, name) == "":
                hint = "leave it out, or name a folder"
                raise DimsweepError("it is empty", where=name, hint=hint, code="missing")
        for axis in self.grid:
            if axis.split(".")[0] in NO_AXES:
                problem = "it cannot be an axis: all cells of a grid share this key"
                hint = "leave it out, or run a study for each value"
                raise DimsweepError(problem, where=f"grid.{axis}", hint=hint, code="unsupported")
        return self

    @model_validator(mode="before")
    @classmethod
    @preserve_errors
    def _load_plugins(cls, value: Any) -> Any:
        """Load plug-ins before other keys are parsed, since keys may name what they register."""
        load_config_plugins(value)
        return value

    @model_validator(mode="before")
    @classmethod
    @preserve_errors
    def _size(cls, value: Any) -> Any:
        """Replace the key ``nodes`` by the shape of a topology with this number of nodes."""
        nodes = value.get("nodes") if isinstance(value, Mapping) else None
        topology = value.get("topology") if nodes is not None else None
        if not isinstance(topology, Mapping):
            return value
        if not isinstance(nodes, int) or isinstance(nodes, bool):
            problem = f"{format_yaml(nodes)} is not a number of nodes"
            raise DimsweepError(problem, where="nodes", hint="such as 64", code="wrong-type")
        grows, shape = topology.get("grows"), topology.get("shape")
        with naming_key("nodes"):
            if not isinstance(shape, str) or grows is None:
                raise DimsweepError(
                    "this topology does not grow by nodes, since it belongs to no machine",
                    hint="give its size in topology.shape, such as Switch(8)_Switch(64)",
                    code="conflict",
                )
            sized = Growth.from_plain(grows).shape(shape, nodes)
        return {**value, "nodes": None, "topology": {**topology, "shape": sized}}

    @property
    def by_message(self) -> bool:
        """True if the fidelity simulates every rank, message and link, unlike ``phase``."""
        return self.fidelity is not Fidelity.PHASE

    @cached_property
    def text(self) -> dict[str, Any]:
        """The configuration as plain data, as the user writes it. The caller must not change it."""
        return self.plain()

    def files(self) -> dict[str, str]:
        """Return the files whose contents results depend on, by the key that names the file.

        The files of a searched key are listed as KEY=FILE.
        """
        named = dict(self.file_keys())
        searched = {
            f"{name}={file}": file
            for name, parameter in self.space.parameters.items()
            for file in parameter.values or ()
            if name in named
        }
        return {name: str(file) for name, file in (named | searched).items() if file}

    def value(self, name: str) -> Any:
        """Return the value at a dotted key, as the user writes it.

        Raises :class:`DimsweepError` for an unknown key.
        """
        return _find_parent(self.text, f"{name}.")[0]

    def with_values(self, values: Mapping[str, Any]) -> Self:
        """Return a copy with new values of dotted keys, checked as a whole."""
        if not values:
            return self
        text = self.plain()
        for name, value in values.items():
            with naming_key(name):
                node, last = _find_parent(text, name)
                if not isinstance(node, (dict, list)) or (
                    isinstance(node, list) and not 0 <= last < len(node)
                ):
                    problem = "the configuration has no such key"
                    raise DimsweepError(problem, code="unknown-key")
            node[last] = value
        return type(self).from_plain(text)


def _find_parent(node: Any, name: str) -> tuple[Any, Any]:
    """Return the mapping or list that contains a dotted key's last name, and that name."""
    *path, last = name.split(".")
    for part in path:
        try:
            node = node[int(part)] if isinstance(node, list) else node[part]
        except (KeyError, IndexError, ValueError, TypeError):
            known = map(str, node) if isinstance(node, Mapping) else ()
            problem = f"the configuration has no key {part!r} here"
            hint = suggest_names(part, known)
            raise DimsweepError(problem, hint=hint, code="unknown-key") from None
    if isinstance(node, list) and last:
        return node, int(last) if last.isdecimal() else -1
    return node, last
