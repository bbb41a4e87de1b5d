"""Dependencies of nodes, and the order in which ranks issue them."""

import heapq
from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.compiler import compiled
from dimsweep.engine.lower import program as p

# --- waits ----------------------------------------------------------------------------------------


class Waits(NamedTuple):
    """Dependencies between nodes: node i waits for ``before[start[i]:start[i + 1]]``."""

    start: p.Ints
    before: p.Ints

    @classmethod
    def from_lists(cls, after: Sequence[Sequence[int]]) -> Self:
        """Build from a list for each node of the nodes that it waits for."""
        counts = np.fromiter(map(len, after), dtype=np.int32, count=len(after))
        return cls(p.starts(counts), np.array([b for each in after for b in each], dtype=np.int32))

    @classmethod
    def from_pairs(cls, pairs: NDArray[np.integer], n: int) -> Self:
        """Build from pairs (waiting node, awaited node), shape (E, 2), between ``n`` nodes."""
        order = np.argsort(pairs[:, 0], kind="stable")
        counts = np.bincount(pairs[:, 0], minlength=n)
        return cls(p.starts(counts), pairs[order, 1].astype(np.int32))

    @property
    def counts(self) -> p.Ints:
        """Number of nodes that each node waits for."""
        return np.diff(self.start)


class Following(NamedTuple):
    """Reverse dependencies: the nodes that wait for node i are ``nodes[start[i]:start[i + 1]]``."""

    nodes: p.Indices
    start: p.Ints
    waits: p.Ints  # how many nodes each one waits for

    @classmethod
    def from_waits(cls, waits: Waits, turn: p.Ints | None = None) -> Self:
        """Build from dependencies; node i also waits for ``turn[i]``, its predecessor on a stream.

        ``turn`` has shape (n,), with NO_NODE for nodes without a predecessor; None: for all nodes.
        """
        counts = waits.counts
        if turn is None:
            turn = np.full(len(counts), p.NO_NODE, dtype=np.int32)
        else:
            counts += turn != p.NO_NODE
        return cls(*_followers(*waits, turn), counts)


@compiled
def _followers(start: p.Ints, before: p.Ints, turn: p.Ints) -> tuple[p.Indices, p.Ints]:
    """Return the nodes that wait for each node, node after node, and the start of each list."""
    n = len(turn)
    begin = np.zeros(n + 1, dtype=np.int32)
    for other in before:
        begin[other + 1] += 1
    for other in turn:
        if other >= 0:
            begin[other + 1] += 1
    for node in range(n):
        begin[node + 1] += begin[node]
    nodes, place = np.empty(begin[n], dtype=np.uint32), begin[:n].copy()
    for node in range(n):
        for other in before[start[node] : start[node + 1]]:
            nodes[place[other]] = node
            place[other] += 1
        other = turn[node]
        if other >= 0:
            nodes[place[other]] = node
            place[other] += 1
    return nodes, begin


# --- order of issue -------------------------------------------------------------------------------
# The order of issue: collectives of one stream run in the order in which their rank issues them.
#
# A communicator runs its collectives one after another in one order, which is the same on all
# ranks: members match by their number.  So which one a rank is ready for first must not matter, or
# ranks whose computations differ by a picosecond would wait for each other.  The order is here made
# a part of the graph: each operator of a stream of collectives waits for the one issued before
# it.  Whatever a kernel does with the graph, the order holds, and a program can finish with all
# durations or with none.
#
# A rank issues its operators in the order of its list: always the first of those that wait for
# none that is yet to be issued.


def find_issue_order(waits: Waits) -> p.Ints:
    """Return the nodes of all classes in the order in which ranks issue them, shape (n,).

    A rank always issues the lowest-numbered ready node. Nodes must not wait in circles.
    """
    following = Following.from_waits(waits)
    return _lowest_first(following.start, following.nodes, following.waits)


def find_turns(waits: Waits, stream: p.Ints, issued: p.Ints) -> p.Ints:
    """Return, for each node, the node on its stream that it must wait for, (n,); NO_NODE for none.

    ``stream`` numbers the stream of each node, or is -1 if the stream does not keep the order of
    issue. ``issued`` is the result of :func:`find_issue_order`. A node that already depends on the
    node before it gets none.
    """
    return _not_yet_after(*waits, stream, issued)


@compiled
def _lowest_first(start: p.Ints, following: p.Indices, waits: p.Ints) -> p.Ints:
    """Return the nodes in issue order: always the lowest ready node. Consumes ``waits``."""
    n_issued, issued = 0, np.empty(len(waits), dtype=np.int32)
    free = [np.int64(node) for node in range(len(waits)) if waits[node] == 0]
    heapq.heapify(free)
    while len(free) > 0:
        node = heapq.heappop(free)
        issued[n_issued] = node
        n_issued += 1
        for other in following[start[node] : start[node + 1]]:
            waits[other] -= 1
            if waits[other] == 0:
                heapq.heappush(free, np.int64(other))
    return issued


@compiled
def _not_yet_after(start: p.Ints, before: p.Ints, stream: p.Ints, issued: p.Ints) -> p.Ints:
    """Return the previous node on each node's stream, or -1 if the graph already orders the two.

    Of a stream's nodes, in the order of issue, the first ``known[node]`` precede ``node`` or are
    ``node``. The search only covers the nodes issued between the first and the last node of a
    stream.
    """
    n, n_streams = len(stream), 1 + stream.max() if len(stream) else 0
    place, known = np.empty(n, dtype=np.int32), np.zeros(n, dtype=np.int32)
    first, last = np.full(n_streams, n, dtype=np.int32), np.zeros(n_streams, dtype=np.int32)
    for at, node in enumerate(issued):
        place[node] = at
        if stream[node] >= 0:
            first[stream[node]] = min(first[stream[node]], at)
            last[stream[node]] = at
    found = np.full(n, -1, dtype=np.int32)
    for number in range(n_streams):
        since, turn, previous = first[number], 0, -1
        for node in issued[since : last[number] + 1]:
            known[node] = 0
            for other in before[start[node] : start[node + 1]]:
                if place[other] >= since:
                    known[node] = max(known[node], known[other])
            if stream[node] == number:
                if known[node] < turn:
                    found[node] = previous
                turn, previous = turn + 1, node
                known[node] = turn
    return found
