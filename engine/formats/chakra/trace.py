"""A Chakra trace as Python objects: nodes, their attributes, dependencies and places in a file.

In a sound trace every dependency exists and no node waits for itself (:func:`check`).
"""

import contextlib
import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from graphlib import CycleError, TopologicalSorter
from itertools import chain, repeat
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.errors import DimsweepError

Scalar = bool | int | float | str | bytes
Value = Scalar | tuple[Scalar, ...] | None  # None: named, but left without a value


class NodeType(IntEnum):
    """The kind of a node; Chakra's names end in ``_NODE``."""

    INVALID = 0
    METADATA = 1
    MEM_LOAD = 2
    MEM_STORE = 3
    COMP = 4
    COMM_SEND = 5
    COMM_RECV = 6
    COMM_COLL = 7


class CollectiveType(IntEnum):
    """The types of collectives, as in the attribute ``comm_type`` of a COMM_COLL node."""

    ALL_REDUCE = 0
    REDUCE = 1
    ALL_GATHER = 2
    GATHER = 3
    SCATTER = 4
    BROADCAST = 5
    ALL_TO_ALL = 6
    REDUCE_SCATTER = 7
    REDUCE_SCATTER_BLOCK = 8
    BARRIER = 9


class TensorInfo(NamedTuple):
    """The input or output tensors of a node in PyTorch's notation."""

    values: str = ""
    shapes: str = ""
    types: str = ""
    strides: str = ""


_NONE: Mapping[str, str] = {}


class TraceNode(NamedTuple):
    """One node of a trace.

    Nodes with equal attributes share one mapping, those of other ranks too: do not change it.
    ``kinds`` names the schema's field of a value (``uint64_val``, ``float_list``) where the type of
    the value in Python implies another one; so a trace stays as it is when it is read and written.
    """

    id: int
    name: str
    type: NodeType
    data_dependencies: tuple[int, ...] = ()
    control_dependencies: tuple[int, ...] = ()
    start_micros: int = 0
    duration_micros: int = 0
    attributes: Mapping[str, Value] = _NONE
    kinds: Mapping[str, str] = _NONE
    inputs: TensorInfo | None = None
    outputs: TensorInfo | None = None

    @property
    def dependencies(self) -> tuple[int, ...]:
        """Distinct ids of the nodes that this one waits for: first data, then control."""
        return tuple(dict.fromkeys(self.data_dependencies + self.control_dependencies))


@dataclass(frozen=True)
class Trace:
    """The nodes of one rank's trace, in the order of the file, and the attributes of the trace."""

    nodes: tuple[TraceNode, ...]
    version: str = "0.0.4"
    metadata: Mapping[str, Value] = field(default_factory=dict)  # attributes of the trace itself
    kinds: Mapping[str, str] = field(default_factory=dict)  # of the metadata


@dataclass
class Places:
    """A file, and the byte or line (``unit``) at which each of its messages starts.

    The first message is the metadata, the others are the nodes.  ``starts`` is empty for a trace
    that is being written.
    """

    path: Path
    unit: str = "byte"
    starts: list[int] = field(default_factory=list)

    def describe(self, number: int, node_id: int | None = None, name: str = "") -> str:
        """Return the place of node ``number`` (from 1) in the file, in words for an error."""
        where = f"{self.path}: node {number}"
        if node_id is not None:
            where += f" (id {node_id}{f', {name!r}' if name else ''})"
        if number < len(self.starts):
            where += f" at {self.unit} {self.starts[number]}"
        return where

    def name(self, error: DimsweepError, number: int, node_id: int | None = None) -> DimsweepError:
        """Return ``error`` with the place of node ``number`` (from 1) in the file."""
        return error.replace(where=self.describe(number, node_id))


def check(nodes: Sequence[TraceNode], places: Places) -> None:
    """Raise :class:`DimsweepError` for a malformed graph.

    These are a trace without nodes, two nodes with one id, a dependency on a missing node, and
    nodes that wait in a circle.
    """
    if not nodes:
        raise DimsweepError("the trace has no nodes", where=str(places.path), code="missing")
    index = {node.id: i for i, node in enumerate(nodes)}
    if len(index) < len(nodes):
        first: dict[int, int] = {}
        number, node = next(
            (number, node)
            for number, node in enumerate(nodes, 1)
            if first.setdefault(node.id, number) != number
        )
        error = DimsweepError(f"node {first[node.id]} has the same id", code="duplicate")
        raise places.name(error, number, node.id)
    edges = dependency_edges(nodes, index)
    if (edges.targets < 0).any():
        number, node, missing = next(
            (number, node, dependency)
            for number, node in enumerate(nodes, 1)
            for dependency in node.dependencies
            if dependency not in index
        )
        error = DimsweepError(
            f"it waits for id {missing}, which is not in the trace", code="missing"
        )
        raise places.name(error, number, node.id)
    if circle := _circle(edges):
        way = [f"id {nodes[i].id}" for i in circle[1:]]
        if len(way) > 6:
            way = [*way[:3], f"{len(way) - 4} more", way[-1]]
        problem = "it waits for itself" + (f", by way of {', '.join(way)}" if way else "")
        raise places.name(
            DimsweepError(problem, code="stalled"), circle[0] + 1, nodes[circle[0]].id
        )


class Edges(NamedTuple):
    """Dependencies between nodes: node i waits for ``targets[offsets[i] : offsets[i + 1]]``.

    Nodes are numbered by their places in the file; -1 is a missing node.
    """

    offsets: NDArray[np.int64]
    targets: NDArray[np.int64]

    @property
    def sources(self) -> NDArray[np.int64]:
        """The waiting node of each entry of ``targets``."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))


def dependency_edges(nodes: Sequence[TraceNode], index: Mapping[int, int]) -> Edges:
    """Return all dependencies, for data and for control; ``index`` maps an id to its place."""
    waits = [node.data_dependencies + node.control_dependencies for node in nodes]
    found = map(index.get, chain.from_iterable(waits), repeat(-1))
    offsets = np.cumsum([0, *map(len, waits)])
    return Edges(offsets, np.fromiter(found, dtype=np.int64, count=int(offsets[-1])))


def strong_components(edges: Edges) -> NDArray[np.int64] | None:
    """Return the strongly connected component of each node, shape (N,).

    None if all are single nodes. All targets must exist.
    """
    if (edges.targets <= edges.sources).all():
        return None  # each waits for earlier ones only
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    n, ones = len(edges.offsets) - 1, np.ones(len(edges.targets), dtype=np.int8)
    graph = csr_array((ones, edges.targets, edges.offsets), shape=(n, n))
    return np.asarray(connected_components(graph, connection="strong")[1])


def _circle(edges: Edges) -> list[int]:
    """Return a circle of nodes, in which each waits for the next; empty if none exists."""
    sources, targets = edges.sources, edges.targets
    component = strong_components(edges)
    inner = sources == targets if component is None else component[sources] == component[targets]
    waits: dict[int, list[int]] = {}
    for source, target in zip(sources[inner].tolist(), targets[inner].tolist(), strict=True):
        waits.setdefault(source, []).append(target)
    try:
        TopologicalSorter(waits).prepare()
    except CycleError as error:
        circle = error.args[1][:0:-1]  # each waits for the one before; the first is repeated
        first = circle.index(min(circle))
        return [*circle[first:], *circle[:first]]
    return []


def issue_order(nodes: Sequence[TraceNode]) -> Sequence[int]:
    """Return the places of the nodes in the order of issue: of ready nodes, the lowest id first.

    Nodes of a circle, and nodes that wait for one, come last.
    """
    ids = [node.id for node in nodes]
    if all(max(n.data_dependencies + n.control_dependencies, default=-1) < n.id for n in nodes):
        return sorted(range(len(ids)), key=ids.__getitem__)
    place = {node_id: i for i, node_id in enumerate(ids)}
    sorter = TopologicalSorter(
        {i: [place[d] for d in node.dependencies if d in place] for i, node in enumerate(nodes)}
    )
    with contextlib.suppress(CycleError):  # nodes that wait for no circle are still ordered
        sorter.prepare()
    order: dict[int, None] = {}
    ready: list[tuple[int, int]] = []
    while sorter.is_active():
        for i in sorter.get_ready():
            heapq.heappush(ready, (ids[i], i))
        _, i = heapq.heappop(ready)
        order[i] = None
        sorter.done(i)
    return [*order, *(i for i in range(len(ids)) if i not in order)]
