"""Folding by stages: a rank's place in one group says which graph it runs; nothing else differs.

A plan with pipeline stages has as many classes as stages.  Which places a group or an offset joins
follows from the places alone, so no table of ranks is needed: a million NPUs fold at once.
"""

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from dimsweep.engine.workload.coordinates import Offset, all_coordinates, place_in, ranks_at
from dimsweep.engine.workload.graph import Group

NODES = "nodes of the memory"  # the group of ranks that share a node, where that matters


@dataclass(frozen=True)
class Folding:
    """Classes of alike ranks.

    ``graph[c]`` is the graph of class c, ``count[c]`` its number of ranks, ``first[c]`` its lowest
    rank; ``members[c][g]`` the sorted classes in its group g; ``peers[c][offset]`` the class found
    at that offset; ``npu[c]`` the kind of its NPUs, where there are several.
    """

    graph: list[int]
    count: list[int]
    first: list[int]
    members: list[dict[str, tuple[int, ...]]]
    peers: list[dict[Offset, int]]
    npu: list[int] | None = None

    def alike(self, cls: int) -> tuple[int, int]:
        """What all classes have in common that keep in step: the graph and the kind of NPU."""
        return self.graph[cls], 0 if self.npu is None else self.npu[cls]


def keeps_stages(stages: Group, groups: Iterable[Group], offsets: Iterable[Offset]) -> bool:
    """Whether all ranks of one place have partners of the same places.

    In each dimension a group must lie wholly inside a stage's step, wholly beyond the stages, or
    on exactly their members; an offset must be whole steps.
    """
    used = [d for d, p in enumerate(stages.sizes) if p > 1]
    return all(_keeps(stages, group, d) for group in groups for d in used) and all(
        offset[d] % stages.strides[d] == 0 for offset in offsets for d in used
    )


def _keeps(stages: Group, group: Group, d: int) -> bool:
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
    """One class a place, given that :func:`keeps_stages`."""
    digits = all_coordinates(stages.sizes)
    first = digits * np.asarray(stages.strides)
    n_places = stages.n_members
    peers: list[dict[Offset, int]] = [{} for _ in range(n_places)]
    for offset in offsets:
        found = place_in(stages, (first + np.asarray(offset)) % np.asarray(sizes))
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
    """The places of the members of ``group`` that the place with these digits belongs to."""
    free = [
        range(p) if q > 1 and (q, stride) == (p, step) else (digit,)
        for digit, p, step, q, stride in zip(
            digits, stages.sizes, stages.strides, group.sizes, group.strides, strict=True
        )
    ]
    found = ranks_at(np.array(list(itertools.product(*free))), stages.sizes)
    return tuple(sorted(found.tolist()))
