"""Nodes wait for nodes that exist, and never for themselves."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from engine.errors import DimsweepError
from engine.formats.chakra.place import Places
from engine.formats.chakra.trace import TraceNode


def check(nodes: Sequence[TraceNode], places: Places) -> None:
    """Refuses ids that are not unique, dependencies on nothing, circles, and no nodes at all."""
    if not nodes:
        raise DimsweepError("the trace has no nodes", where=str(places.path))
    index = {node.id: i for i, node in enumerate(nodes)}
    if len(index) < len(nodes):
        raise _twins(nodes, places)
    waits = [node.data_dependencies + node.control_dependencies for node in nodes]
    found = list(map(index.get, chain.from_iterable(waits)))
    if None in found:
        raise _dangling(nodes, index, places)
    offsets = np.cumsum([0, *map(len, waits)])
    targets = np.array(found, dtype=np.int64)
    circle = _circle(offsets, targets)
    if circle:
        raise _waits_for_itself([nodes[i] for i in circle], circle[0] + 1, places)


def _twins(nodes: Sequence[TraceNode], places: Places) -> DimsweepError:
    first: dict[int, int] = {}
    for number, node in enumerate(nodes, 1):
        if first.setdefault(node.id, number) != number:
            break
    what = f"node {first[node.id]} has the same id"
    return places.name(DimsweepError(what), number, node.id)


def _dangling(nodes: Sequence[TraceNode], index: dict[int, int], places: Places) -> DimsweepError:
    number, node, missing = next(
        (number, node, dependency)
        for number, node in enumerate(nodes, 1)
        for dependency in node.dependencies
        if dependency not in index
    )
    what = f"it waits for id {missing}, which is not in the trace"
    return places.name(DimsweepError(what), number, node.id)


def _circle(offsets: NDArray[np.int64], targets: NDArray[np.int64]) -> list[int]:
    """Nodes that wait for each other, each for the next and the last for the first; or none."""
    n = len(offsets) - 1
    sources = np.repeat(np.arange(n), np.diff(offsets))
    if (targets < sources).all():
        return []  # each waits for earlier ones only
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    graph = csr_array((np.ones(len(targets), dtype=np.int8), targets, offsets), shape=(n, n))
    _, group = connected_components(graph, connection="strong")
    # In a group of several, each waits for another one of the group: walk until one comes again.
    inner = group[sources] == group[targets]
    following = dict(zip(sources[inner].tolist(), targets[inner].tolist(), strict=True))
    if not following:
        return []
    walk: dict[int, None] = {}
    node = next(iter(following))
    while node not in walk:
        walk[node] = None
        node = following[node]
    circle = list(walk)
    circle = circle[circle.index(node) :]
    first = circle.index(min(circle))
    return circle[first:] + circle[:first]


def _waits_for_itself(circle: Sequence[TraceNode], number: int, places: Places) -> DimsweepError:
    way = [f"id {node.id}" for node in circle[1:]]
    if len(way) > 6:
        way = [*way[:3], f"{len(way) - 4} more", way[-1]]
    what = "it waits for itself" + (f", by way of {', '.join(way)}" if way else "")
    return places.name(DimsweepError(what), number, circle[0].id)
