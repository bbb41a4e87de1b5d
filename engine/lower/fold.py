"""Folding: ranks that are provably alike become one class, which is simulated once.

Colour refinement (Weisfeiler-Leman): ranks start coloured by their graph; a rank's next colour is
its own with those of its groups' members and of its peers.  When no colour splits any more, ranks
of a colour see the same graph and the same kinds of partners at every step, so a deterministic
simulation that never breaks ties by rank keeps them in step for ever.
"""

import math

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.lower.stages import NODES, Folding, fold_stages, keeps_stages
from dimsweep.engine.workload.coordinates import (
    Offset,
    at_offset,
    graph_by_rank,
    group_members,
    modulo,
)
from dimsweep.engine.workload.graph import Access, Collective, Group, Receive, Send, Workload


def fold_ranks(
    workload: Workload,
    sizes: tuple[int, ...],
    *,
    fold: bool = True,
    nodes: Group | None = None,
    npu: NDArray[np.int64] | None = None,
) -> Folding:
    """The coarsest stable classes, or one class a rank when ``fold`` is false.

    Ranks that share one of the ``nodes`` are partners, too, where those are given.  Those with
    another kind of ``npu``, (N,), are unlike; None: there is one kind.
    """
    groups, offsets = _used(workload, sizes)
    if nodes is not None:
        groups[NODES] = nodes
    n = math.prod(sizes)
    stages = workload.stages and workload.groups[workload.stages]
    folds = fold and npu is None
    if folds and workload.graph_of_rank is None and not stages:
        members: dict[str, tuple[int, ...]] = dict.fromkeys(groups, (0,))
        return Folding([0], [n], [0], [members], [dict.fromkeys(offsets, 0)])
    if folds and stages and keeps_stages(stages, groups.values(), offsets):
        return fold_stages(stages, groups, offsets, sizes)

    graph = graph_by_rank(workload, sizes)
    partners = [group_members(group, sizes) for group in groups.values()]
    peers = [at_offset(offset, sizes) for offset in offsets]
    start = graph if npu is None else graph * (int(npu.max()) + 1) + npu
    beside = [table[:, None] for table in peers]
    colour = _refine(start, partners + beside) if fold else np.arange(n)
    _, first, count = np.unique(colour, return_index=True, return_counts=True)
    members_of = []
    known: dict[bytes, tuple[int, ...]] = {}  # all members of a group have the same partners

    def colours(ranks: NDArray[np.int64]) -> tuple[int, ...]:
        key = ranks.tobytes()
        if key not in known:
            known[key] = tuple(np.unique(colour[ranks]).tolist())
        return known[key]

    for rank in first:
        seen = [colours(table[rank]) for table in partners]
        members_of.append(dict(zip(groups, seen, strict=True)))
    met = np.array([colour[table[first]] for table in peers], np.int64).reshape(-1, len(first))
    peers_of = [dict(zip(offsets, each, strict=True)) for each in met.T.tolist()]
    kinds = None if npu is None else npu[first].tolist()
    return Folding(
        graph[first].tolist(), count.tolist(), first.tolist(), members_of, peers_of, kinds
    )


def _used(workload: Workload, sizes: tuple[int, ...]) -> tuple[dict[str, Group], list[Offset]]:
    groups: dict[str, Group] = {}
    offsets: dict[Offset, None] = {}
    for work in workload.works():
        if isinstance(work, Collective) or (isinstance(work, Access) and work.group):
            groups[work.group] = workload.groups[work.group]
        elif isinstance(work, (Send, Receive)):
            offsets[modulo(work.offset, sizes)] = None
    return groups, list(offsets)


def _refine(colour: NDArray[np.int64], partners: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    n_colours = 0
    while True:
        signature = [colour[:, None], *(np.sort(colour[table], axis=1) for table in partners)]
        _, colour = np.unique(np.hstack(signature), axis=0, return_inverse=True)
        colour = colour.reshape(-1)
        if colour.max() + 1 == n_colours:
            return colour
        n_colours = int(colour.max()) + 1
