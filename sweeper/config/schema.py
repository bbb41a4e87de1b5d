"""The whole configuration, typed: which keys there are, what each may be, and its default.

Values live in conf/ and studies/.  Hydra composes them; what it composed becomes a
:class:`Config`, and stays one up to the report.
"""

from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from typing import Annotated, Any, Self

from pydantic import model_validator

from engine import DimsweepError, Fidelity, in_yaml, suggestion
from sweeper.config.cluster import Collective, Memory, Topology
from sweeper.config.cost import Cost
from sweeper.config.network import Network
from sweeper.config.nodes import Growth
from sweeper.config.npu import Npu
from sweeper.config.parts.part import Bytes, Flag, Parsed, Part, Whole, default, key, member
from sweeper.config.study import (
    Budget,
    Executor,
    Portfolio,
    Recheck,
    RoleOrWeights,
    Search,
    Space,
    WhatIf,
)
from sweeper.config.workload import KINDS, AnyWorkload
from sweeper.objective import Objective, parse_objectives

# What a row depends on; the rest says which trials to look at, and how.
DETERMINES_RESULT = (
    "workload",
    "topology",
    "npu",
    "memory",
    "cost",
    "collective",
    "network",
    "fidelity",
    "fold",
)
# Keys that say nothing of a single cell, so that no axis of a grid can be one of them.
NO_AXES = {
    *("study", "name", "note", "grid", "portfolio", "executor"),
    *("results", "timeline", "picture", "watch", "congestion"),
}
# Keys that change how a study is run but no row of it.
RUNTIME_KEYS = {
    *("executor", "results", "timeline", "timeline_limit", "picture", "watch", "congestion"),
    *("budget", "recheck", "what_if", "name", "note", "roles", "baseline"),
}


def _axis(values: Any) -> tuple[Any, ...]:
    if not isinstance(values, (list, tuple)) or not values:
        hint = "such as [16, 64]"
        if isinstance(values, Mapping):
            hint = "an axis is a dotted key, such as 'grid={collective.chunks: [16, 64]}'"
        raise DimsweepError(f"{in_yaml(values)} is no list of values", hint=hint)
    for i, value in enumerate(values):
        if any(value == other and type(value) is type(other) for other in values[:i]):
            raise DimsweepError(f"{in_yaml(value)} is there twice", hint="give each value once")
    return tuple(values)


def _names(value: Any) -> tuple[str, ...]:
    names = value if isinstance(value, (list, tuple)) else [value]
    if wrong := [name for name in names if not isinstance(name, str)]:
        raise DimsweepError(
            f"{in_yaml(wrong[0])} is no name of a link", hint="such as NPU 3 -> leaf 0"
        )
    return tuple(names)


class Config(Part):
    """Everything that a run or a study is told.  ``nodes``: the size of the machine that cluster=
    names; it becomes ``topology.shape``, and is nothing by itself."""

    workload: AnyWorkload
    topology: Topology = default(Topology)
    nodes: Whole | None = None
    npu: Npu = default(Npu)
    memory: Memory = default(Memory)
    cost: Cost = default(Cost)
    collective: Collective = default(Collective)
    network: Network = default(Network)
    fidelity: Annotated[Fidelity, member(Fidelity)] = default("phase")
    fold: Flag = True
    # a study
    name: str | None = None
    note: str | None = None  # what a reader of the results must know, which no figure says
    objective: Annotated[
        tuple[Objective, ...], Parsed(parse_objectives, lambda found: [each.name for each in found])
    ] = default("time")
    space: Space = default(Space)
    grid: dict[str, Annotated[tuple[Any, ...], Parsed(_axis)]] = default(dict)
    # of axes, where the role of one is not what its key has by itself; or how much each value of a
    # scenario counts
    roles: dict[str, RoleOrWeights] = default(dict)
    # the design that there is today, as the keys in which it differs; it is simulated beside
    baseline: dict[str, Any] = default(dict)
    search: Search
    budget: Budget = default(Budget)
    recheck: Recheck = default(Recheck)
    what_if: WhatIf = default("default")
    portfolio: Portfolio = default(Portfolio)
    # how it is run; none of these changes a result
    executor: Executor = default(Executor)
    results: str = "results"
    timeline: str | None = None
    timeline_limit: Bytes | None = default("10 MB")
    picture: str | None = None
    watch: Annotated[tuple[str, ...], Parsed(_names)] = ()
    congestion: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _refuse_control_characters(cls, value: Any) -> Any:
        """A terminal would obey them wherever the text is shown."""
        for place, text in _texts(value):
            if not text.isprintable() and any(ord(c) < 32 and c not in "\n\t" for c in text):
                what = f"{text!r} has control characters in it"
                raise ValueError(DimsweepError(what, where=place))
        return value

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name in ("name", "results"):
            if getattr(self, name) == "":
                hint = "leave it out, or name a folder"
                raise ValueError(DimsweepError("it is empty", where=name, hint=hint))
        for axis in self.grid:
            if axis.split(".")[0] in NO_AXES:
                what = "no axis of a grid: all its cells have the same"
                hint = "leave it out, or run a study for each value"
                raise ValueError(DimsweepError(what, where=f"grid.{axis}", hint=hint))
        return self

    @model_validator(mode="before")
    @classmethod
    def _size(cls, value: Any) -> Any:
        """``nodes`` into the shape of the topology."""
        nodes = value.get("nodes") if isinstance(value, Mapping) else None
        topology = value.get("topology") if nodes is not None else None
        if not isinstance(topology, Mapping):
            return value
        if not isinstance(nodes, int) or isinstance(nodes, bool):
            what = DimsweepError(
                f"{nodes!r} is no number of nodes", where="nodes", hint="such as 64"
            )
            raise ValueError(what)
        grows, shape = topology.get("grows"), topology.get("shape")
        try:
            with key("nodes"):
                if not isinstance(shape, str) or grows is None:
                    raise DimsweepError(
                        "this network is no machine's, so it has no nodes",
                        hint="topology.shape says its size, such as Switch(8)_Switch(64)",
                    )
                sized = Growth.of(grows).shape(shape, nodes)
        except DimsweepError as error:
            raise ValueError(error) from error
        return {**value, "nodes": None, "topology": {**topology, "shape": sized}}

    @property
    def by_message(self) -> bool:
        """Whether every rank, message and link is to be simulated."""
        return self.fidelity is not Fidelity.PHASE

    @cached_property
    def text(self) -> dict[str, Any]:
        """The configuration as plain data, as it was written; not to be changed."""
        return self.plain()

    def files(self) -> dict[str, str]:
        """The files whose contents a row depends on, by the key that names them; where a key's
        values are searched, by the key and the value."""
        named: dict[str, Any] = {
            **{f"workload.{name}": getattr(self.workload, name) for name in self.workload.FILES},
            "topology.file": self.topology.file,
            "network.file": self.network.file,
            "npu.measured": self.npu.measured,
            "collective.measured": self.collective.measured,
        }
        searched = {
            f"{name}={file}": file
            for name, parameter in self.space.parameters.items()
            for file in parameter.values or ()
            if name in named
        }
        return {name: str(file) for name, file in (named | searched).items() if file}

    def value(self, name: str) -> Any:
        """The value at a dotted key, as it was written; raises :class:`DimsweepError` if there is
        none."""
        return _parent(self.text, f"{name}.")[0]

    def changed(self, values: Mapping[str, Any]) -> Self:
        """The configuration with the values of dotted keys replaced, checked as a whole."""
        if not values:
            return self
        text = self.plain()
        for name, value in values.items():
            with key(name):
                node, last = _parent(text, name)
                if not isinstance(node, (dict, list)) or (
                    isinstance(node, list) and not 0 <= last < len(node)
                ):
                    raise DimsweepError("the configuration has no such key")
            node[last] = value
        return type(self).of(text)


def _texts(node: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Each text of plain data, and its key."""
    if isinstance(node, str):
        yield place, node
    elif isinstance(node, Mapping):
        for name, value in node.items():
            yield from _texts(value, f"{place}.{name}".removeprefix("."))
    elif isinstance(node, (list, tuple)):
        for i, value in enumerate(node):
            yield from _texts(value, f"{place}[{i}]")


def _parent(node: Any, name: str) -> tuple[Any, Any]:
    """The mapping or list that holds the last part of a dotted key, and that part."""
    *path, last = name.split(".")
    for part in path:
        try:
            node = node[int(part)] if isinstance(node, list) else node[part]
        except (KeyError, IndexError, ValueError, TypeError):
            known = map(str, node) if isinstance(node, Mapping) else ()
            raise DimsweepError(
                f"the configuration has no key {part!r} there", hint=suggestion(part, known)
            ) from None
    if isinstance(node, list) and last:
        return node, int(last) if last.isdecimal() else -1
    return node, last


@cache
def register() -> None:
    """Make the keys and their defaults known to Hydra; a workload file names its kind in its
    defaults list."""
    from hydra.core.config_store import ConfigStore  # a fifth of a second that no worker needs

    store = ConfigStore.instance()
    root = Config.defaults()
    root["workload"] = {}
    root["search"] = {**Search.defaults()}
    store.store(name="schema", node=root)
    for name, kind in KINDS.items():
        store.store(
            group="workload/kind",
            name=name,
            node={**kind.defaults(), "kind": name},
            package="workload",
        )
