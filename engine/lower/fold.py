"""Folding: provably equivalent ranks become one class, which is simulated once.

Colour refinement (Weisfeiler-Leman): at first a rank's colour is the graph that it runs. Then a
rank's next colour combines its current colour with the colours of its groups' members and its
peers. When no colour splits any more, ranks of a colour see the same graph and the same kinds of
partners at every step. A deterministic simulation that never breaks ties by rank then keeps them
in step.
"""

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.topology.coordinates import (
    Group,
    Offset,
    all_coordinates,
    group_members,
    member_numbers,
    ranks_at,
    ranks_at_offset,
    wrap_offset,
)
from dimsweep.engine.workload.graph import (
    Access,
    Collective,
    Receive,
    Send,
    Workload,
    graph_by_rank,
)

# --- by stages ------------------------------------------------------------------------------------
# Folding by stages: a rank's place in one group says which graph it runs; nothing else differs.
#
# A plan with pipeline stages has as many classes as stages.  Which places a group or an offset
# joins follows from the places alone, so no table of ranks is needed: a million NPUs fold at once.


NODES = "nodes of the memory"  # the group of ranks that share a node, where that matters


@dataclass(frozen=True)
class Folding:
    """Classes of equivalent ranks, and the classes that each class communicates with.

    For class c, ``graph[c]`` is the graph that it runs, ``count[c]`` its number of ranks, and
    ``first[c]`` its lowest rank. ``members[c][g]`` are the sorted classes in group g of its ranks,
    ``peers[c][offset]`` is the class of the ranks at that offset, and ``npu[c]`` is the kind of its
    NPUs if the cluster has several kinds.
    """

    graph: list[int]
    count: list[int]
    first: list[int]
    members: list[dict[str, tuple[int, ...]]]
    peers: list[dict[Offset, int]]
    npu: list[int] | None = None

    def equivalence_key(self, cls: int) -> tuple[int, int]:
        """Return the graph of class ``cls`` and the kind of its NPUs."""
        return self.graph[cls], 0 if self.npu is None else self.npu[cls]


def keeps_stages(stages: Group, groups: Iterable[Group], offsets: Iterable[Offset]) -> bool:
    """Return whether all ranks of a pipeline stage have partners in the same stages.

    In each dimension a group must be within the stride of ``stages``, or beyond all stages, or have
    exactly their members; an offset must be a multiple of the stride.
    """
    used = [d for d, p in enumerate(stages.sizes) if p > 1]
    return all(_keeps_dimension(stages, group, d) for group in groups for d in used) and all(
        offset[d] % stages.strides[d] == 0 for offset in offsets for d in used
    )


def _keeps_dimension(stages: Group, group: Group, d: int) -> bool:
    p, step = stages.sizes[d], stages.strides[d]
    q, stride = group.sizes[d], group.strides[d]
    return (
        q == 1 or (q, stride) == (p, step) or step % (q * stride) == 0 or stride % (p * step) == 0
    )


def fold_stages(
    stages: Group,
    groups: Mapping[str, Group],
    offsets: Iterable[Offset],
    sizes: tuple[int, ...],
) -> Folding:
    """Return a folding with one class for each pipeline stage; :func:`keeps_stages` must hold."""
    digits = all_coordinates(stages.sizes)
    first = digits * np.asarray(stages.strides)
    n_places = stages.n_members
    peers: list[dict[Offset, int]] = [{} for _ in range(n_places)]
    for offset in offsets:
        found = member_numbers(stages, (first + np.asarray(offset)) % np.asarray(sizes))
        for place, peer in enumerate(found.tolist()):
            peers[place][offset] = peer
    members = [
        {name: _places(stages, group, row) for name, group in groups.items()}
        for row in digits.tolist()
    ]
    return Folding(
        graph=list(range(n_places)),
        count=[math.prod(sizes) // n_places] * n_places,
        first=ranks_at(first, sizes).tolist(),
        members=members,
        peers=peers,
    )


def _places(stages: Group, group: Group, digits: list[int]) -> tuple[int, ...]:
    """Return the stages in ``group`` of a rank whose stage has the coordinates ``digits``."""
    free = [
        range(p) if q > 1 and (q, stride) == (p, step) else (digit,)
        for digit, p, step, q, stride in zip(
            digits, stages.sizes, stages.strides, group.sizes, group.strides, strict=True
        )
    ]
    found = ranks_at(np.array(list(itertools.product(*free))), stages.sizes)
    return tuple(sorted(found.tolist()))


# --- by colours -----------------------------------------------------------------------------------


def fold_ranks(
    workload: Workload,
    sizes: tuple[int, ...],
    *,
    fold: bool = True,
    nodes: Group | None = None,
    npu: NDArray[np.int64] | None = None,
) -> Folding:
    """Return the coarsest stable classes of ranks, or a class for each rank if ``fold`` is false.

    With ``nodes``, ranks that share a node count as partners. ``npu`` (N,) is the kind of each
    rank's NPU, and ranks of different kinds are in different classes; None: all NPUs have one kind.
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
    peers = [ranks_at_offset(offset, sizes) for offset in offsets]
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
            offsets[wrap_offset(work.offset, sizes)] = None
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
