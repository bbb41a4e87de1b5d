"""The order of issue: collectives of one stream run in the order in which their rank issues them.

A communicator runs its collectives one after another in one order, which is the same on all ranks:
members match by their number.  So which one a rank is ready for first must not matter, or ranks
whose computations differ by a picosecond would wait for each other.  The order is here made a part
of the graph: each operator of a stream of collectives waits for the one issued before it.  Whatever
a kernel does with the graph, the order holds, and a program can finish with all durations or with
none.

A rank issues its operators in the order of its list.  Where one waits for others that stand behind
it, those are issued first.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.compiler import Compiler

_Longs = NDArray[np.int64]

compiled = Compiler([Path(__file__)]).compiled


def order_of_issue(after: _Longs, n: int) -> _Longs:
    """The ``n`` nodes of all classes in the order in which their ranks issue them.

    ``after``, shape (E, 2), has who waits and for whom; there are no circles.
    """
    if (after[:, 1] < after[:, 0]).all():
        return np.arange(n)
    return _what_it_waits_for_first(*_by_node(after, n))


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
def _what_it_waits_for_first(start: _Longs, before: _Longs) -> _Longs:
    """Nodes in their order, each behind all that it waits for."""
    n = len(start) - 1
    issued, n_issued = np.empty(n, dtype=np.int64), 0
    done, at = np.zeros(n, dtype=np.bool_), start[:-1].copy()
    stack = np.empty(n, dtype=np.int64)
    for first in range(n):
        depth = 0
        if not done[first]:
            stack[0], depth = first, 1
        while depth > 0:
            node = stack[depth - 1]
            if at[node] < start[node + 1]:
                at[node] += 1
                if not done[before[at[node] - 1]]:
                    stack[depth] = before[at[node] - 1]
                    depth += 1
            else:
                done[node] = True
                issued[n_issued] = node
                n_issued, depth = n_issued + 1, depth - 1
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
