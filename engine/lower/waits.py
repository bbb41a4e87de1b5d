"""Which nodes wait for which: listed by who waits, and by whom they wait for."""

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.compiler import compiled
from dimsweep.engine.lower import program as p


class Waits(NamedTuple):
    """The nodes that each node waits for: ``before[start[i]:start[i + 1]]`` for node i."""

    start: p.Ints
    before: p.Ints

    @classmethod
    def of(cls, after: Sequence[Sequence[int]]) -> Self:
        """Given the nodes that each one waits for."""
        counts = np.fromiter(map(len, after), dtype=np.int32, count=len(after))
        return cls(p.starts(counts), np.array([b for each in after for b in each], dtype=np.int32))

    @classmethod
    def of_pairs(cls, pairs: NDArray[np.integer], n: int) -> Self:
        """Given who waits and for whom, shape (E, 2), of ``n`` nodes."""
        order = np.argsort(pairs[:, 0], kind="stable")
        counts = np.bincount(pairs[:, 0], minlength=n)
        return cls(p.starts(counts), pairs[order, 1].astype(np.int32))

    @property
    def counts(self) -> p.Ints:
        """How many nodes each one waits for."""
        return np.diff(self.start)


class Following(NamedTuple):
    """Which nodes wait for each node: ``nodes[start[i]:start[i + 1]]`` for node i, in order."""

    nodes: p.Indices
    start: p.Ints
    waits: p.Ints  # how many nodes each one waits for

    @classmethod
    def of(cls, waits: Waits, turn: p.Ints | None = None) -> Self:
        """Given the nodes that each one waits for, and the one, if any, that it waits for its
        ``turn`` after: (n,), NO_NODE for none."""
        counts = waits.counts
        if turn is None:
            turn = np.full(len(counts), p.NO_NODE, dtype=np.int32)
        else:
            counts += turn != p.NO_NODE
        return cls(*_followers(*waits, turn), counts)


@compiled
def _followers(start: p.Ints, before: p.Ints, turn: p.Ints) -> tuple[p.Indices, p.Ints]:
    """The nodes that wait for each node, and where those of each start."""
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
