"""The order in which a rank issues the nodes of its trace."""

import contextlib
import heapq
from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter

from dimsweep.engine.formats.chakra.trace import TraceNode


def issue_order(nodes: Sequence[TraceNode]) -> Sequence[int]:
    """The places of the nodes in ``nodes``: of those that are ready, the lowest id comes first.

    Nodes of a circle, and those that wait for one, come last.
    """
    ids = [node.id for node in nodes]
    if all(max(n.data_dependencies + n.control_dependencies, default=-1) < n.id for n in nodes):
        return sorted(range(len(ids)), key=ids.__getitem__)
    place = {node_id: i for i, node_id in enumerate(ids)}
    sorter = TopologicalSorter(
        {i: [place[d] for d in node.dependencies if d in place] for i, node in enumerate(nodes)}
    )
    with contextlib.suppress(CycleError):  # what waits for no circle is ordered all the same
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
