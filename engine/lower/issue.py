"""The order of issue: collectives of one stream run in the order in which their rank issues them.

A communicator runs its collectives one after another in one order, which is the same on all ranks:
members match by their number.  So which one a rank is ready for first must not matter, or ranks
whose computations differ by a picosecond would wait for each other.  The order is here made a part
of the graph: each operator of a stream of collectives waits for the one issued before it.  Whatever
a kernel does with the graph, the order holds, and a program can finish with all durations or with
none.

A rank issues its operators in the order of its list: always the first of those that wait for none
that is yet to be issued.
"""

import heapq

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.compiler import compiled

_Longs = NDArray[np.int64]


def order_of_issue(after: _Longs, n: int) -> _Longs:
    """The ``n`` nodes of all classes in the order in which their ranks issue them.

    ``after``, shape (E, 2), has who waits and for whom; there are no circles.
    """
    if (after[:, 1] < after[:, 0]).all():
        return np.arange(n)
    waits = np.bincount(after[:, 0], minlength=n)
    return _lowest_first(*_by_node(after[:, ::-1], n), waits)


def in_turn(after: _Longs, stream: _Longs, issued: _Longs) -> _Longs:
    """The pairs of ``after``, and those of the nodes that wait for their turn.

    ``stream`` numbers each node's stream, where nodes take turns there, and is -1 elsewhere;
    ``issued`` is what :func:`order_of_issue` returns.  Whoever comes after the node before it
    anyway, whatever the stream does, waits for no turn.
    """
    queued = issued[stream[issued] >= 0]
    queued = queued[np.argsort(stream[queued], kind="stable")]
    follows = stream[queued[1:]] == stream[queued[:-1]]
    if not follows.any():
        return after
    previous = np.full(len(stream), -1)
    previous[queued[1:][follows]] = queued[:-1][follows]
    start, before = _by_node(after, len(stream))
    waits = _not_yet_after(start, before, previous, queued, issued)
    return np.concatenate([after, np.stack([waits, previous[waits]], axis=1)])


def _by_node(after: _Longs, n: int) -> tuple[_Longs, _Longs]:
    """Where the nodes that each one waits for start (n + 1,), and those nodes."""
    order = np.argsort(after[:, 0], kind="stable")
    start = np.concatenate([[0], np.cumsum(np.bincount(after[:, 0], minlength=n))])
    return start, after[order, 1]


@compiled
def _lowest_first(start: _Longs, following: _Longs, waits: _Longs) -> _Longs:
    """Always the lowest node that waits for none that is not issued yet; ``waits`` is used up."""
    n_issued, issued = 0, np.empty(len(waits), dtype=np.int64)
    free = [np.int64(node) for node in range(len(waits)) if waits[node] == 0]
    heapq.heapify(free)
    while len(free) > 0:
        node = heapq.heappop(free)
        issued[n_issued] = node
        n_issued += 1
        for other in following[start[node] : start[node + 1]]:
            waits[other] -= 1
            if waits[other] == 0:
                heapq.heappush(free, other)
    return issued


@compiled
def _not_yet_after(
    start: _Longs, before: _Longs, previous: _Longs, queued: _Longs, issued: _Longs
) -> _Longs:
    """The nodes whose ``previous`` one on their stream does not come before them in the graph.

    ``queued`` has streams one after another.  Of a stream's nodes, in their order, the first
    ``known[node]`` come before a node or are it; only what is issued between the first and the last
    of them can tell.
    """
    n = len(previous)
    place, known = np.empty(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    place[issued] = np.arange(n)
    found, n_found = np.empty(len(queued), dtype=np.int64), 0
    first = 0
    while first < len(queued):
        end = first + 1
        while end < len(queued) and previous[queued[end]] >= 0:
            end += 1
        since, turn = place[queued[first]], first
        for node in issued[since : place[queued[end - 1]] + 1]:
            known[node] = 0
            for other in before[start[node] : start[node + 1]]:
                if place[other] >= since:
                    known[node] = max(known[node], known[other])
            if node == queued[turn]:
                if known[node] < turn - first:
                    found[n_found] = node
                    n_found += 1
                turn += 1
                known[node] = turn - first
        first = end
    return found[:n_found]
