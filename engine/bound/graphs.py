"""What collectives among groups of NPUs on a graph last at least, by its cuts: as
:class:`~engine.bound.ways.Ways`, so that plans are bounded on graphs as they are on dimensions.

A path through a plan's graph is that of some rank, whose groups are some of those of their form, so
what counts is the least of all of these.  Latencies, and messages between stages, are free.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dimsweep.engine.bound.cuts import cut_bound
from dimsweep.engine.bound.ways import KINDS, Ways
from dimsweep.engine.cluster.cluster import Cluster
from dimsweep.engine.collective.algorithms import InSwitch
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.network.graph import Network
from dimsweep.engine.workload.coordinates import coordinates_of
from dimsweep.engine.workload.graph import Group

_GROUPS = 64  # of one form: of more only what enters and leaves single NPUs is counted


def ways_by_cuts(cluster: Cluster, groups: Sequence[Group]) -> Ways:
    """Those of ``groups`` on a cluster whose network is a graph."""
    network, n_dims = cluster.network.graph, len(cluster.topology.dims)
    assert network is not None
    # Unless other algorithms are named, a switch of the dimensions may reduce.
    names = cluster.collectives.algorithms or ("auto",)
    in_switch = any(name in ("auto", InSwitch().name) for name in names)
    free = Ways.free(len(groups), n_dims)
    slope = np.zeros_like(free.slope)
    for own, group in zip(slope, groups, strict=True):
        members = members_of(group, cluster.topology.sizes)
        for number, kind in enumerate(KINDS):
            own[number, 0, 0] = (
                min(
                    float(cut_bound(network, each, kind, switches_reduce=in_switch).per_byte)
                    for each in members
                )
                if len(members) <= _GROUPS
                else by_npus(network, group.n_members, kind)
            )
    return replace(free, slope=slope)


def members_of(group: Group, sizes: Sequence[int]) -> list[list[int]]:
    """The ranks of each group of a form, in dimensions of these ``sizes``."""
    found = dict[tuple[int, ...], list[int]]()
    for rank in range(int(np.prod(sizes))):
        place = []
        steps = zip(coordinates_of(rank, sizes), group.sizes, group.strides, strict=True)
        for at, size, stride in steps:
            # Which block of the group's extent, and where between two members.
            place += [at // (size * stride), at % stride]
        found.setdefault(tuple(place), []).append(rank)
    return [*found.values()]


def by_npus(network: Network, n: int, kind: CollectiveKind) -> float:
    """Seconds a byte that a member of n holds, where every NPU has as much as the best one."""
    room = dict[tuple[bool, object], float]()
    for link in network.links:
        for ends in ((False, link.source), (True, link.target)):
            if isinstance(ends[1], int):
                room[ends] = room.get(ends, 0.0) + link.bandwidth
    enters = {
        CollectiveKind.ALL_GATHER: n - 1.0,
        CollectiveKind.REDUCE_SCATTER: (n - 1) / n,
        CollectiveKind.ALL_REDUCE: 1.0,
        CollectiveKind.ALL_TO_ALL: (n - 1) / n,
    }
    return enters[kind] / max(room.values())
