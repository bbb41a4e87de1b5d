"""The order in which a rank issues the nodes of its trace."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from engine.formats.chakra.trace import TraceNode


def issue_order(nodes: Sequence[TraceNode]) -> Sequence[int]:
    """Places of the nodes: the lowest id of those that are ready first.

    What is in a circle, or behind one, comes last.
    """
    ids = [node.id for node in nodes]
    place = {node_id: i for i, node_id in enumerate(ids)}
    if all(max(n.data_dependencies + n.control_dependencies, default=-1) < n.id for n in nodes):
        return sorted(range(len(ids)), key=ids.__getitem__)
    waits = [0] * len(nodes)
    following: list[list[int]] = [[] for _ in nodes]
    for i, node in enumerate(nodes):
        for before in node.dependencies:
            if before in place:
                waits[i] += 1
                following[place[before]].append(i)
    ready = [(ids[i], i) for i, count in enumerate(waits) if not count]
    heapq.heapify(ready)
    order: dict[int, None] = {}
    while ready:
        _, i = heapq.heappop(ready)
        order[i] = None
        for after in following[i]:
            waits[after] -= 1
            if not waits[after]:
                heapq.heappush(ready, (ids[after], after))
    return [*order, *(i for i in range(len(ids)) if i not in order)]
