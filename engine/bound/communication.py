"""Lower bounds on the time of collectives over groups of a network, as functions of their bytes.

Each bound is a maximum of pieces.  A piece is fixed seconds plus bytes over bandwidths, and both
grow in proportion to the collective's bytes, except for rounding.  So the pieces of two sizes give
all sizes.  :func:`engine.bound.work.work_of` computes them, as for lowered programs.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace

import numpy as np

from dimsweep.engine.bound.cuts import cut_bound
from dimsweep.engine.bound.work import Work, work_of
from dimsweep.engine.cluster.cluster import Cluster
from dimsweep.engine.collective.algorithms import InSwitch, chosen_algorithms
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.lower.forms import Forms
from dimsweep.engine.lower.program import Floats, Longs
from dimsweep.engine.lower.tables import of_forms
from dimsweep.engine.network.graph import Network
from dimsweep.engine.topology.coordinates import Group, coordinates_of
from dimsweep.engine.workload.graph import Collective, Send, Workload
from dimsweep.engine.workload.plan.mesh import DeviceMesh

KINDS = tuple(CollectiveKind)
_SIZES = (2.0**30, 2.0**31)  # bytes, at which no rounding is left out


@dataclass(frozen=True)
class CommunicationBounds:
    """Lower bounds on the time of each kind of collective over each of G groups.

    A bound is the largest of several pieces: seconds, plus bytes over each of E bandwidths (of the
    dimensions, and of sums of dimensions).
    """

    sums: Floats
    fixed: Floats
    slope: Floats
    hops: Floats

    @classmethod
    def zero(cls, n: int, n_dims: int) -> "CommunicationBounds":
        """Return bounds of zero seconds for ``n`` groups on ``n_dims`` dimensions."""
        nothing = np.zeros((n, len(KINDS), 1, 1 + n_dims))
        return cls(np.zeros((0, n_dims)), nothing, nothing, nothing[..., 1:])

    def column_factors(self, bandwidth: Floats) -> Floats:
        """Return the factors of a piece's columns, (1 + E,): 1, and 1 over each of E bandwidths.

        ``bandwidth`` (D,) is in bytes/s.
        """
        return np.append(1.0, 1 / np.concatenate([bandwidth, self.sums @ bandwidth]))


class BoundTable:
    """The communication bounds of several networks, stacked in one table.

    Groups are numbered through all networks. Group -1 has one member and takes no time.
    """

    def __init__(self, networks: Sequence[CommunicationBounds]) -> None:
        sizes = [ways.fixed.shape for ways in networks]
        self.first = np.cumsum([0, *(size[0] for size in sizes)])  # group of each
        self.n_columns = max(size[3] for size in sizes)
        shape = (int(self.first[-1]) + 1, len(KINDS), max(size[2] for size in sizes))
        self.fixed = np.zeros((*shape, self.n_columns))
        self.slope = np.zeros_like(self.fixed)
        self.hops = np.zeros((*shape, max(ways.hops.shape[3] for ways in networks)))
        for start, ways, size in zip(self.first.tolist(), networks, sizes, strict=False):
            place = (slice(start, start + size[0]), slice(None), slice(size[2]), slice(size[3]))
            self.fixed[place], self.slope[place] = ways.fixed, ways.slope
            self.hops[(*place[:3], slice(ways.hops.shape[3]))] = ways.hops
        n_dims = self.hops.shape[3]
        self._sums = [*(ways.sums.tobytes() for ways in networks), b""]
        own = self.fixed[..., 1 + n_dims :], self.slope[..., 1 + n_dims :]
        self._adds = np.any([each.any(axis=(1, 2, 3)) for each in own], axis=0)

    def equivalent_groups(self) -> Longs:
        """Return, for each group, the first group that has equal bounds at all bandwidths."""
        found, known = np.arange(len(self.fixed)), dict[bytes, int]()
        of = np.searchsorted(self.first, found, side="right") - 1
        for row, network in enumerate(of.tolist()):
            own = [each[row].tobytes() for each in (self.fixed, self.slope, self.hops)]
            own += [self._sums[network]] if self._adds[row] else []
            found[row] = known.setdefault(b"".join(own), row)
        return found

    def with_latency(self, more: Floats) -> "BoundTable":
        """Return the table with ``more`` (D,) seconds added to each dimension's hop latency."""
        moved = copy(self)
        moved.fixed = self.fixed.copy()
        moved.fixed[..., 0] += self.hops[..., : len(more)] @ more
        return moved

    def column_factors(self, ways: CommunicationBounds, bandwidth: Floats) -> Floats:
        """Return :meth:`CommunicationBounds.column_factors` of one network, padded to the table."""
        own = ways.column_factors(bandwidth)
        return np.pad(own, (0, self.n_columns - len(own)))


class GroupBounds:
    """Cache of the communication bounds of groups, for clusters that differ in their networks only.

    Bounds are computed once for all clusters whose dimensions and algorithms are equal between the
    group's members.
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, CommunicationBounds] = {}

    def bound_collectives(
        self, cluster: Cluster, groups: Sequence[Group], most: Floats
    ) -> CommunicationBounds:
        """Return lower bounds on collectives over each of ``groups`` of ``cluster``.

        ``most`` (D,) are the largest bandwidths in bytes/s for which they must hold. If a library
        or measurements determine the time of collectives, the bounds are zero.
        """
        model = cluster.collectives
        if model.library is not None or model.timings is not None or not groups:
            return CommunicationBounds.zero(len(groups), len(most))
        # Chunks of groups in one dimension choose no order, unless others of the program do.
        is_ordered = any(len(_crossed_dimensions(group)) > 1 for group in groups)
        keys = [(is_ordered, _communication_key(cluster, group, most)) for group in groups]
        new = {k: g for k, g in zip(keys, groups, strict=True) if k not in self._known}
        if new:
            found = _bound_groups(cluster, [*new.values()], most, is_ordered=is_ordered)
            self._known |= zip(new, found, strict=True)
        return _combine([self._known[k] for k in keys])

    def bound_messages(self, cluster: Cluster, stages: Group, most: Floats) -> CommunicationBounds:
        """Return lower bounds on messages between neighbouring pipeline ``stages``.

        In place of the kinds of collectives, the first bounds messages to the next stage, the
        second messages to the previous stage. The last and the first stage are neighbours, too.
        """
        key = _communication_key(cluster, stages, most)
        if key not in self._known:
            self._known[key] = _bound_messages(cluster, stages, most)
        return self._known[key]


def _communication_key(cluster: Cluster, group: Group, most: Floats) -> Hashable:
    """Return a key of all properties on which the communication of ``group`` depends."""
    dims, chosen = cluster.topology.dims, chosen_algorithms(cluster)
    own = (
        (d, dims[d], chosen[d], most[d], group.sizes[d], group.strides[d])
        for d in _crossed_dimensions(group)
    )
    return len(dims), tuple(own)


def _crossed_dimensions(group: Group) -> list[int]:
    return [d for d, n in enumerate(group.sizes) if n > 1]


def _bound_groups(
    cluster: Cluster, groups: Sequence[Group], most: Floats, *, is_ordered: bool
) -> Iterator[CommunicationBounds]:
    """Yield the bounds on collectives over each group.

    With ``is_ordered``, chunks may choose the order of their dimensions (Themis).
    """
    forms = Forms(cluster, Workload(()), chosen_algorithms(cluster))
    own = [
        forms.collective(Collective(kind, size, ""), group)
        for group in groups
        for kind in KINDS
        for size in _SIZES
    ]
    work = _work_of_forms(cluster, forms, most, is_ordered=is_ordered)
    found = (
        *_affine([work.pieces[f] for f in own]),
        _stack_pieces([work.hops[f] for f in own[::2]]),
    )
    shaped = (each.reshape(len(groups), 1, len(KINDS), *each.shape[1:]) for each in found)
    for each in zip(*shaped, strict=True):
        yield CommunicationBounds(work.sums, *each)


def _combine(ways: Sequence[CommunicationBounds]) -> CommunicationBounds:
    """Return the bounds of several groups in one object; their sums of bandwidths may differ."""
    sums = {tuple(row): None for each in ways for row in each.sums.tolist()}
    number, n_dims = {row: i for i, row in enumerate(sums)}, ways[0].sums.shape[1]
    n_pieces = max(each.fixed.shape[2] for each in ways)
    fixed = np.zeros((len(ways), len(KINDS), n_pieces, 1 + n_dims + len(sums)))
    slope, hops = np.zeros_like(fixed), np.zeros((*fixed.shape[:-1], n_dims))
    for i, each in enumerate(ways):
        columns = [*range(1 + n_dims), *(1 + n_dims + number[tuple(row)] for row in each.sums)]
        pieces = slice(each.fixed.shape[2])
        fixed[i, :, pieces, columns] = np.moveaxis(each.fixed[0], -1, 0)
        slope[i, :, pieces, columns] = np.moveaxis(each.slope[0], -1, 0)
        hops[i, :, pieces] = each.hops[0]
    return CommunicationBounds(
        np.array([*sums], dtype=float).reshape(len(sums), n_dims), fixed, slope, hops
    )


def _bound_messages(cluster: Cluster, stages: Group, most: Floats) -> CommunicationBounds:
    p, mesh = stages.n_members, DeviceMesh({"pipeline": stages})
    forms = Forms(cluster, Workload((), {"pipeline": stages}, stages="pipeline"), ())
    own = [
        forms.transfer(Send(size, mesh.hop(stage, (stage + by) % p)), stage)
        for stage in range(p)
        for by in (1, -1)
        for size in _SIZES
    ]
    work = _work_of_forms(cluster, forms, most, is_ordered=False)
    found = (
        *_affine([work.pieces[f] for f in own]),
        _stack_pieces([work.hops[f] for f in own[::2]]),
    )
    rest = [(0, 0), (0, len(KINDS) - 2), (0, 0), (0, 0)]
    shaped = (np.pad(each.reshape(p, 2, *each.shape[1:]), rest) for each in found)
    return CommunicationBounds(np.zeros((0, len(most))), *shaped)


def _work_of_forms(cluster: Cluster, forms: Forms, most: Floats, *, is_ordered: bool) -> Work:
    found, latency = of_forms(cluster, forms), [dim.latency for dim in cluster.topology.dims]
    order = int(cluster.collectives.order) if is_ordered else 0
    found = found._replace(shape=found.shape._replace(order=order))
    return work_of(found, np.array(latency), most)


def _affine(pieces: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Return fixed part and part per byte of pieces, given for a small and a large size in turn."""
    small, large = (np.roll(_stack_pieces(pieces[i::2]), 1, axis=-1) for i in range(2))
    return 2 * small - large, (large - small) / (_SIZES[1] - _SIZES[0])


def _stack_pieces(pieces: Iterable[Floats]) -> Floats:
    """Return the pieces of F forms in one array (F, n, E + 1), padded with zeros."""
    own = list(pieces)
    whole = np.zeros((len(own), max(map(len, own)), own[0].shape[1]))
    for row, each in zip(whole, own, strict=True):
        row[: len(each)] = each
    return whole


# --- on graphs ------------------------------------------------------------------------------------
# Lower bounds on collectives among groups of NPUs on a graph, from its cuts, as
# :class:`CommunicationBounds`: plans are bounded on graphs as they are on dimensions.
#
# A path through a plan's graph belongs to some rank, and its groups to any of those of their form,
# so the minimum over all of these counts.  Latencies, and messages between stages, are free.


_GROUPS = 64  # of one form; for more groups only the links of single NPUs count


def bound_by_cuts(cluster: Cluster, groups: Sequence[Group]) -> CommunicationBounds:
    """Return lower bounds on collectives over ``groups``, by the cuts of the cluster's graph."""
    network, n_dims = cluster.network.graph, len(cluster.topology.dims)
    assert network is not None
    # Unless other algorithms are named, a switch of the dimensions may reduce.
    names = cluster.collectives.algorithms or ("auto",)
    in_switch = any(name in ("auto", InSwitch().name) for name in names)
    free = CommunicationBounds.zero(len(groups), n_dims)
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
                else bound_by_npu_links(network, group.n_members, kind)
            )
    return replace(free, slope=slope)


def members_of(group: Group, sizes: Sequence[int]) -> list[list[int]]:
    """Return the ranks of each of the equal groups that ``group`` describes.

    ``sizes`` are the NPUs of each dimension.
    """
    found = dict[tuple[int, ...], list[int]]()
    for rank in range(int(np.prod(sizes))):
        place = []
        steps = zip(coordinates_of(rank, sizes), group.sizes, group.strides, strict=True)
        for at, size, stride in steps:
            # Which block of the group's extent, and where between two members.
            place += [at // (size * stride), at % stride]
        found.setdefault(tuple(place), []).append(rank)
    return [*found.values()]


def bound_by_npu_links(network: Network, n: int, kind: CollectiveKind) -> float:
    """Return a lower bound (s per byte) on a collective of ``n`` members by NPU links alone.

    It assumes that all NPUs have the widest links of any NPU.
    """
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
