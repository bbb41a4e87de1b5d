"""As many trees from each NPU to all others as capacities between NPUs allow.

Edmonds ("Edge-disjoint branchings", 1973) proved that they exist where each NPU can receive as much
from all roots together as the roots send, and Tarjan (1974) built them: an edge may always be taken
that leaves enough for what is still to be built.  Trees that are alike are built together; how many
go on by an edge one maximum flow tells (Berczi and Frank, 2010; Zhao et al., "ForestColl").
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dimsweep.engine.network.forest.wires import Wires

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass
class Grown:
    """``n`` trees from ``root``: ``edges`` are from parent to child, each after that of its parent;
    ``depth`` is how many of them lead to each NPU."""

    root: int
    n: int
    edges: list[tuple[int, int]]
    depth: dict[int, int]


class Branchings:
    """Builds ``k`` trees from each of the ranks, from ``wires`` between them that suffice."""

    def __init__(self, wires: Wires, ranks: tuple[int, ...], k: int) -> None:
        self._ranks, self._k = ranks, k
        self._place = {rank: i for i, rank in enumerate(ranks)}
        self._room = np.zeros((len(ranks), len(ranks)), np.int64)
        for a, b, n in wires.items():
            self._room[self._place[a], self._place[b]] = n
        self._waiting = set(ranks)  # roots that have no trees yet

    def run(self) -> list[Grown]:
        """All of them."""
        done = []
        for root in self._ranks:
            self._waiting.discard(root)
            open_ = [Grown(root, self._k, [], {root: 0})]
            while open_:
                tree = open_.pop()
                self._grow(tree, open_)
                done.append(tree)
        return done

    def _grow(self, tree: Grown, open_: list[Grown]) -> None:
        """Let a tree reach all ranks; those alike that cannot go the same way are put aside."""
        place, refused = self._place, set[tuple[int, int]]()
        while len(tree.depth) < len(self._ranks):
            for a, b in self._candidates(tree):
                if (a, b) in refused:
                    continue
                n = self._allowed(place[a], place[b], tree, open_)
                if n:
                    break
                refused.add((a, b))  # there will never be more room for it
            else:
                raise AssertionError("trees cannot be completed")  # Edmonds' theorem forbids it
            if n < tree.n:
                open_.append(Grown(tree.root, tree.n - n, [*tree.edges], {**tree.depth}))
                tree.n = n
            self._room[place[a], place[b]] -= n
            tree.edges.append((a, b))
            tree.depth[b] = tree.depth[a] + 1

    def _candidates(self, tree: Grown) -> list[tuple[int, int]]:
        """Edges out of the tree, those first that end closest to the root, and have room for all
        of its kind."""
        inside = np.array([self._place[rank] for rank in tree.depth])
        outside = np.ones(len(self._ranks), np.bool_)
        outside[inside] = False
        room = self._room[inside] * outside
        rows, columns = np.nonzero(room)
        depth = np.array(list(tree.depth.values()))[rows]
        have = room[rows, columns]
        order = np.lexsort((-have, have < tree.n, depth))
        ranks = self._ranks
        return [(ranks[inside[rows[i]]], ranks[columns[i]]) for i in order.tolist()]

    def _allowed(self, a: int, b: int, tree: Grown, open_: list[Grown]) -> int:
        """How many of a kind of trees may go on from ``a`` to ``b``."""
        from scipy.sparse.csgraph import maximum_flow

        others = sum(each.n for each in open_) + self._k * len(self._waiting)
        found = maximum_flow(self._aside(a, open_), a, b).flow_value
        return int(min(self._room[a, b], tree.n, found - others))

    def _aside(self, a: int, open_: list[Grown]) -> "csr_array":
        """The room, and what ``a`` has to leave for others: an edge to each root that waits, and to
        all that each tree put aside has reached."""
        from scipy.sparse import csr_array

        n, m = len(self._ranks), len(open_)
        graph = np.zeros((n + m, n + m), np.int64)
        graph[:n, :n] = np.minimum(self._room, n * self._k)  # nobody asks for more
        for root in self._waiting:
            if (i := self._place[root]) != a:
                graph[a, i] += self._k
        for i, each in enumerate(open_, n):
            graph[a, i] = each.n
            graph[i, [self._place[rank] for rank in each.depth]] = each.n
        return csr_array(graph.astype(np.int32))
