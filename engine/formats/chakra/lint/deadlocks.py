"""Nodes that wait for each other for ever, across ranks, whatever anything lasts.

A communicator runs its collectives one after another in the order of issue, and a receive waits for
its send.  Where what a collective waits for comes behind a later one of the same communicator, by
way of other ranks, none of them ever begins.  No order of issue across communicators matters here
(:meth:`engine.formats.chakra.lint.collectives.Collectives.crossed` looks at that).
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.formats.chakra.graph import Edges, edges_of, strong_components
from dimsweep.engine.formats.chakra.lint.messages import Place
from dimsweep.engine.formats.chakra.lint.trace import Finding
from dimsweep.engine.formats.chakra.trace import TraceNode

_SHOWN = 8
_Longs = NDArray[np.int64]


class _Waits(NamedTuple):
    """Who waits for whom: nodes are numbered rank by rank, and collectives, of which a node of each
    member is a part, behind them.  ``meant`` is the node of the waiting rank where one waits for a
    collective, else the target itself."""

    sources: _Longs
    targets: _Longs
    meant: _Longs


class Deadlocks:
    """Those among the nodes of ``ranks``; ``where`` names a node."""

    def __init__(self, ranks: Sequence[Sequence[TraceNode]], where: Callable[[Place], str]) -> None:
        self._ranks, self._where = ranks, where
        self._first = np.cumsum([0, *map(len, ranks)])  # of each rank's nodes

    def findings(
        self, turns: Sequence[Sequence[Sequence[Place]]], messages: Sequence[tuple[Place, Place]]
    ) -> Iterator[Finding]:
        """One for each circle of waiting nodes.

        ``turns`` has, for each communicator, the collectives of each member in the order of issue;
        ``messages`` each receive and its send.  All dependencies exist.
        """
        waits = self._waits(turns, messages)
        n = int(max(waits.sources.max(initial=-1), waits.targets.max(initial=-1))) + 1
        order = np.argsort(waits.sources, kind="stable")
        counts = np.bincount(waits.sources, minlength=n)
        component = strong_components(
            Edges(np.concatenate(([0], np.cumsum(counts))), waits.targets[order])
        )
        if component is None:
            return
        inner = component[waits.sources] == component[waits.targets]
        inner &= (np.bincount(component) > 1)[component[waits.sources]]
        after: dict[int, dict[int, int]] = defaultdict(dict)
        for source, target, meant in zip(*(each[inner].tolist() for each in waits), strict=True):
            after[source].setdefault(target, meant)
        told: set[int] = set()
        for node in sorted(after):
            if component[node] not in told and node < self._first[-1]:
                told.add(int(component[node]))
                yield self._finding(node, after)

    def _waits(
        self, turns: Sequence[Sequence[Sequence[Place]]], messages: Sequence[tuple[Place, Place]]
    ) -> _Waits:
        known: dict[int, Edges] = {}  # ranks may share a trace
        pairs = [np.zeros((0, 2), np.int64)]
        for first, nodes in zip(self._first.tolist(), self._ranks, strict=False):
            if id(nodes) not in known:
                known[id(nodes)] = edges_of(nodes, {node.id: i for i, node in enumerate(nodes)})
            edges = known[id(nodes)]
            pairs.append(np.stack([edges.sources, edges.targets], axis=1) + first)
        pairs.append(self._pairs(messages))
        end, parts = np.arange(self._first[-1]), list[tuple[int, int]]()
        n = len(end)
        for by_member in turns:
            for members in by_member:
                pairs.append(self._pairs(list(zip(members[1:], members, strict=False))))
                numbers = [self._number(place) for place in members]
                end[numbers] = np.arange(n, n + len(numbers))
                parts += zip(range(n, n + len(numbers)), numbers, strict=True)
            n += max(map(len, by_member))
        sources, meant = np.concatenate(pairs).T
        joined = np.array(parts, np.int64).reshape(-1, 2)
        return _Waits(
            np.concatenate([sources, joined[:, 0]]),
            np.concatenate([end[meant], joined[:, 1]]),
            np.concatenate([meant, joined[:, 1]]),
        )

    def _pairs(self, places: Sequence[tuple[Place, Place]]) -> _Longs:
        numbers = [(self._number(one), self._number(other)) for one, other in places]
        return np.array(numbers, np.int64).reshape(-1, 2)

    def _number(self, place: Place) -> int:
        return int(self._first[place[0]]) + place[1]

    def _finding(self, start: int, after: dict[int, dict[int, int]]) -> Finding:
        circle = _circle(start, after)
        said = [
            self._said(source, after[source][target])
            for source, target in zip(circle, [*circle[1:], start], strict=True)
            if source < self._first[-1]
        ]
        ranks = {self._place(node)[0] for node in circle if node < self._first[-1]}
        more = f"; and {len(said) - _SHOWN} more" if len(said) > _SHOWN else ""
        return Finding(
            self._where(self._place(start)),
            f"{len(ranks)} ranks wait for each other for ever, whatever anything lasts: "
            + "; ".join(said[:_SHOWN])
            + more,
            "a communicator runs its collectives in the order of issue (lower ids first): issue "
            "them in an order that allows what they wait for",
        )

    def _said(self, source: int, meant: int) -> str:
        (rank, _), (there, _) = self._place(source), self._place(meant)
        behind = meant not in self._dependencies(source) and rank == there
        how = "comes behind" if behind else "waits for"
        of = "" if rank == there else f" of rank {there}"
        return f"rank {rank}: {self._name(source)} {how} {self._name(meant)}{of}"

    def _dependencies(self, number: int) -> list[int]:
        rank, i = self._place(number)
        nodes = self._ranks[rank]
        waits = set(nodes[i].dependencies)
        return [int(self._first[rank]) + k for k, node in enumerate(nodes) if node.id in waits]

    def _name(self, number: int) -> str:
        rank, i = self._place(number)
        node = self._ranks[rank][i]
        return f"{node.name!r} (id {node.id})"

    def _place(self, number: int) -> Place:
        rank = int(np.searchsorted(self._first, number, side="right")) - 1
        return rank, number - int(self._first[rank])


def _circle(start: int, after: dict[int, dict[int, int]]) -> list[int]:
    """The shortest way from ``start`` back to it, without its end."""
    before, found = dict[int, int](), deque([start])
    while start not in before:
        node = found.popleft()
        for target in after[node]:
            if target not in before:
                before[target] = node
                found.append(target)
    circle = [before[start]]
    while circle[-1] != start:
        circle.append(before[circle[-1]])
    return circle[::-1]
