"""What collectives over a network's groups last at least, as functions of their bytes.

Each is a maximum of pieces, and each piece is fixed seconds plus bytes over bandwidths, both in
proportion to the collective's own bytes but for what rounding may gain.  So the pieces of two sizes
tell those of all.  They are :func:`engine.bound.work.work_of`'s, by which the bound of a lowered
program goes, too.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dimsweep.engine.bound.work import work_of
from dimsweep.engine.cluster.cluster import Cluster
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.lower.lower import lower
from dimsweep.engine.lower.program import Floats, NodeKind
from dimsweep.engine.plan.mesh import DeviceMesh
from dimsweep.engine.workload.graph import (
    Collective,
    GraphBuilder,
    Group,
    Receive,
    Send,
    Workload,
)

KINDS = tuple(CollectiveKind)
_SIZES = (2.0**30, 2.0**31)  # bytes, at which no rounding is left out


@dataclass(frozen=True)
class Ways:
    """For G groups, all KINDS of collectives and E dimensions (sums of them included), pieces:
    ``fixed`` and ``slope`` (G, KINDS, pieces, 1 + E); the columns are seconds, and bytes over each
    bandwidth.  ``sums`` (E - D, D) is the pieces' (see :class:`ConvexModel`)."""

    sums: Floats
    fixed: Floats
    slope: Floats

    def at(self, bandwidth: Floats) -> Floats:
        """What the columns (1 + E,) are multiplied by at bandwidths (D,) in bytes/s."""
        return np.append(1.0, 1 / np.concatenate([bandwidth, self.sums @ bandwidth]))


class Table:
    """Several :class:`Ways` in one table: their groups are numbered one after another, and number
    -1 is a group of one, which has nothing to do."""

    def __init__(self, networks: Sequence[Ways]) -> None:
        sizes = [ways.fixed.shape for ways in networks]
        self.first = np.cumsum([0, *(size[0] for size in sizes)])  # group of each
        self.n_columns = max(size[3] for size in sizes)
        shape = (int(self.first[-1]) + 1, len(KINDS), max(size[2] for size in sizes))
        self.fixed = np.zeros((*shape, self.n_columns))
        self.slope = np.zeros_like(self.fixed)
        for start, ways, size in zip(self.first.tolist(), networks, sizes, strict=False):
            place = (slice(start, start + size[0]), slice(None), slice(size[2]), slice(size[3]))
            self.fixed[place], self.slope[place] = ways.fixed, ways.slope

    def at(self, ways: Ways, bandwidth: Floats) -> Floats:
        """:meth:`Ways.at`, as wide as the table."""
        own = ways.at(bandwidth)
        return np.pad(own, (0, self.n_columns - len(own)))


def ways_of(cluster: Cluster, groups: Sequence[Group], most: Floats) -> Ways:
    """Those of ``groups`` on a cluster; ``most`` (D,) are the greatest bandwidths that are asked
    for, in bytes/s.

    Where a library, or measurements, say how collectives run, nothing is known, and they may be
    free.
    """
    free = cluster.collectives.library is not None or cluster.collectives.timings is not None
    if free or not groups:
        nothing = np.zeros((len(groups), len(KINDS), 1, 1 + len(most)))
        return Ways(np.zeros((0, len(most))), nothing, nothing)
    graph, names = GraphBuilder(), [str(number) for number in range(len(groups))]
    for name in names:
        for kind in KINDS:
            for size in _SIZES:
                graph.add("", Collective(kind, size, name))
    workload = Workload((graph.build(),), dict(zip(names, groups, strict=True)))
    program = lower(workload, replace(cluster, prices=None, power=None))
    s = program.structure
    work = work_of(program, most)
    form = s.flows["form"][s.nodes["flow"]]
    fixed, slope = _affine([work.pieces[f] for f in form])
    shape = (len(groups), len(KINDS), *slope.shape[1:])
    return Ways(work.sums, fixed.reshape(shape), slope.reshape(shape))


def hops_of(cluster: Cluster, stages: Group, most: Floats) -> Ways:
    """Those of messages between neighbouring ``stages``, in the place of collectives: of the first
    of KINDS from each stage to the next one, of the second to the one before; the last and the
    first are neighbours, too."""
    p, mesh = stages.n_members, DeviceMesh({"pipeline": stages})
    graphs = []
    for stage in range(p):
        graph = GraphBuilder()
        for way, by in enumerate((1, -1)):
            for number, size in enumerate(_SIZES):
                tag = way * len(_SIZES) + number
                graph.add("", Send(size, mesh.hop(stage, (stage + by) % p), tag))
                graph.add("", Receive(mesh.hop(stage, (stage - by) % p), tag))
        graphs.append(graph.build())
    workload = Workload(tuple(graphs), {"pipeline": stages}, stages="pipeline")
    program = lower(workload, replace(cluster, prices=None, power=None))
    s = program.structure
    sends = s.nodes["kind"] == NodeKind.SEND
    pieces = work_of(program, most).pieces
    form = s.flows["form"][s.nodes["flow"][sends]]
    fixed, slope = _affine([pieces[f] for f in form])
    shape = (p, 2, *slope.shape[1:])
    rest = [(0, 0), (0, len(KINDS) - 2), (0, 0), (0, 0)]
    fixed, slope = (np.pad(each.reshape(shape), rest) for each in (fixed, slope))
    return Ways(np.zeros((0, len(most))), fixed, slope)


def _affine(pieces: Sequence[Floats]) -> tuple[Floats, Floats]:
    """What is fixed, and what a byte asks for, of pieces by turns at both _SIZES; seconds first."""
    small, large = (np.roll(_stacked(pieces[i::2]), 1, axis=-1) for i in range(2))
    return 2 * small - large, (large - small) / (_SIZES[1] - _SIZES[0])


def _stacked(pieces: Iterable[Floats]) -> Floats:
    """Pieces (F, n, E + 1) of all forms, with pieces of nothing where a form has fewer."""
    own = list(pieces)
    whole = np.zeros((len(own), max(map(len, own)), own[0].shape[1]))
    for row, each in zip(whole, own, strict=True):
        row[: len(each)] = each
    return whole
