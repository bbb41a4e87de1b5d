"""What ports and streams have to do between two neighbouring barriers of a graph."""

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.bound.items import Items
from dimsweep.engine.lower.program import Floats, Ints, Longs, Structure, Table


class Loads:
    """The loads of a program (see :mod:`engine.bound.event`), as functions of the bandwidths.

    ``stretch`` (N,) counts the barriers before each item, and is -1 for barriers themselves.
    ``load`` (F, E, E + 1) is what each form asks of a port; ``duration`` (N,) what items last at
    the greatest bandwidths, in seconds.
    """

    def __init__(self, s: Structure, items: Items, load: Floats, duration: Floats) -> None:
        barrier = items.barriers()
        self.stretch = np.where(barrier, -1, np.cumsum(barrier))
        self._n = int(barrier.sum()) + 1
        head, tail = _ways(items, barrier, duration, self.stretch)
        jobs = np.flatnonzero((s.nodes["stream"] >= 0) & (self.stretch[items.of_node] >= 0))
        nodes, item = s.nodes[jobs], items.of_node[jobs]
        self._streams = _Streams(nodes, item, self.stretch, items, head, tail, len(load))
        flows = nodes["flow"] >= 0
        self._ports = _port_loads(nodes[flows], item[flows], self.stretch, items, load, head, tail)

    def longer(
        self, path: Ints, duration: Floats, forms: Floats, at: Floats
    ) -> tuple[Longs, Floats]:
        """Stretches (S,) where a load is longer than ``path``, and the loads (S, E + 1).

        ``forms`` (F, E + 1) holds each form's greatest piece at ``at`` (E + 1,) = (1/b, 1).
        """
        stretch = np.concatenate([self._streams.stretch, self._ports[0]])
        loads = np.vstack([self._streams.rows(forms), self._ports[1]])
        seconds = loads @ at
        # A load that is longer only by rounding says nothing new.
        inner = self.stretch[path] >= 0
        least = np.bincount(self.stretch[path[inner]], duration[path[inner]], self._n)
        order = np.argsort(seconds, kind="stable")
        greatest = np.full(self._n, -1)
        greatest[stretch[order]] = order
        found = np.flatnonzero(greatest >= 0)
        found = found[seconds[greatest[found]] > least[found] * (1 + 1e-12)]
        return found, loads[greatest[found]]


class _Streams:
    """A stream runs one operator at a time: computations, and flows by their forms."""

    def __init__(
        self,
        nodes: Table,
        item: Ints,
        stretch: Longs,
        items: Items,
        head: Floats,
        tail: Floats,
        n_forms: int,
    ) -> None:
        at, self.stretch, fixed = _grouped(stretch[item], nodes["stream"], head[item], tail[item])
        kind = items.kind[item]
        kept = at >= 0
        self._fixed = fixed + np.bincount(at[kept], items.fixed[item[kept]], len(fixed))
        flows = kept & (kind >= 0)
        pairs, self._count = np.unique(
            at[flows].astype(np.int64) * n_forms + kind[flows], return_counts=True
        )
        self._load, self._form = np.divmod(pairs, max(n_forms, 1))

    def rows(self, forms: Floats) -> Floats:
        rows = np.zeros((len(self._fixed), forms.shape[1]))
        rows[:, -1] = self._fixed
        np.add.at(rows, self._load, self._count[:, None] * forms[self._form])
        return rows


def _port_loads(
    nodes: Table,
    item: Ints,
    stretch: Longs,
    items: Items,
    load: Floats,
    head: Floats,
    tail: Floats,
) -> tuple[Longs, Floats]:
    """Stretches (L,) and rows (L, E + 1): a port serves one chunk at a time."""
    n_dims = load.shape[1]
    stretches, rows = [np.zeros(0, dtype=np.int64)], [np.zeros((0, n_dims + 1))]
    for dim in range(n_dims):
        used: NDArray[np.bool_] = np.any(load[:, dim], axis=1)[items.kind[item]]
        here = item[used]
        at, where, fixed = _grouped(stretch[here], nodes["cls"][used], head[here], tail[here])
        row = np.zeros((len(where), n_dims + 1))
        kept = at >= 0
        np.add.at(row, at[kept], load[items.kind[here[kept]], dim])
        row[:, -1] += fixed
        stretches.append(where)
        rows.append(row)
    return np.concatenate(stretches), np.vstack(rows)


def _grouped(
    stretch: Longs, owner: Ints, head: Floats, tail: Floats
) -> tuple[Longs, Longs, Floats]:
    """Jobs of one owner in one stretch: each job's group, and each group's stretch and seconds.

    The seconds are the least way to any of its jobs, plus the least way on.  A job that is alone
    gets group -1: its path says as much.
    """
    key = stretch.astype(np.int64) * (int(owner.max(initial=0)) + 1) + owner
    _, first, inverse, count = np.unique(
        key, return_index=True, return_inverse=True, return_counts=True
    )
    kept = count > 1
    number = np.where(kept, np.cumsum(kept) - 1, -1)
    group, n = number[inverse], int(kept.sum())
    ways = np.full((2, n), np.inf)
    for way, each in zip(ways, (head, tail), strict=True):
        np.minimum.at(way, group[group >= 0], each[group >= 0])
    return group, stretch[first[kept]].astype(np.int64), ways.sum(axis=0)


def _ways(
    items: Items, barrier: NDArray[np.bool_], duration: Floats, stretch: Longs
) -> tuple[Floats, Floats]:
    """The least seconds from the barrier before each item to it, and from it to the next one."""
    end, tail = items.ends(duration), items.tails(duration)
    # Before the first barrier and after the last there is nothing.
    left = np.concatenate([[0.0], end[barrier]])
    right = np.concatenate([(tail + duration)[barrier], [0.0]])
    head = end - duration - left[stretch]
    return np.maximum(head, 0.0), np.maximum(tail - right[stretch], 0.0)
