"""Flows that wait for flows, in a table of either kernel.

Such a table has, for each flow, how many it ``waits`` for, whether it is ``done``, and the first
and the last of those that wait for it, in a chain of edges.
"""

from dimsweep.engine.compiler import kernel
from dimsweep.engine.kernels.core.none import NONE
from dimsweep.engine.lower.program import Longs, Table
from dimsweep.engine.records import record

EDGE = record(follower="i4", next="i4")


@kernel
def link(flows: Table, edges: Table, n: int, first: int, after: Longs, after_from: Longs) -> int:
    """Let each flow from ``first`` on wait for those it names, unless they are done.

    ``n`` edges are in use before, and as many as it returns afterwards.
    """
    for i in range(len(after_from) - 1):
        for k in range(after_from[i], after_from[i + 1]):
            before = flows[after[k]]
            if before.done:
                continue
            edges[n].follower = first + i
            edges[n].next = NONE
            if before.followers < 0:
                before.followers = n
            else:
                edges[before.last_follower].next = n
            before.last_follower = n
            flows[first + i].waits += 1
            n += 1
    return n
