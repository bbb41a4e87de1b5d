"""Checks for unbalanced designs: dimensions with too much or too little bandwidth, tiny chunks."""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dimsweep.engine.kernels.phase.batch import run_batch, times_of
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.lower.program import Floats, Program
from dimsweep.engine.units import PICOSECONDS
from dimsweep.engine.workload.plan.mesh import EXPERT_REPLICAS, REPLICAS, SHARDS

# --- provisioning ---------------------------------------------------------------------------------
# The balance of the dimensions that a group's collectives cross.
#
# Of a chunk that enters dimension K, dimension L > K sees a share, 1/P with P = p_K ...
# p_{L-1}.  So L keeps pace with K when BW(K) = P * BW(L): *just enough*.  With more, L is
# *over-provisioned*: in the baseline order it waits for K, and only another order (Themis) can use
# it.  With less, L is *under-provisioned*: it delays K in every order (Rashidi et al., "Themis",
# ISCA 2022, section 6.3).  The paper drops the factors (p - 1)/p, which differ for small groups,
# and gives every group the whole dimension.  Here both are kept, because the bytes and links of
# each group are known.


@dataclass(frozen=True)
class Pair:
    """Two dimensions, ``inner`` < ``outer``, that collectives of the process group ``group`` use.

    They are balanced if the inner dimension has ``balance`` times the bandwidth of the outer one.
    """

    group: str
    inner: int
    outer: int
    balance: float

    def provision(self, bandwidth: Floats) -> float:
        """Return the outer dimension's bandwidth, divided by its bandwidth when balanced.

        ``bandwidth`` is in bytes/s, shape (D,).  Above 1 the outer dimension is over-provisioned,
        below 1 under-provisioned.
        """
        return float(self.balance * bandwidth[self.outer] / bandwidth[self.inner])

    def enough(self, bandwidth: Floats) -> float:
        """Return the outer bandwidth (bytes/s) that balances the inner one in ``bandwidth``."""
        return float(bandwidth[self.inner] / self.balance)


def list_crossed_pairs(program: Program) -> list[Pair]:
    """Return all pairs of dimensions that reductions and all-gathers of one group use.

    Bytes per dimension are counted in the baseline order of dimensions.  Groups are in the order of
    their first collectives.
    """
    s = program.structure
    s = s._replace(shape=s.shape._replace(order=0))
    times = times_of(dataclasses.replace(program, structure=s))
    demand: dict[str, Floats] = {}
    flows = Counter(zip(program.names.flow_group, s.flows["form"].tolist(), strict=True))
    for (group, form), count in flows.items():
        if s.forms["kind"][form] <= CollectiveKind.ALL_GATHER:
            more = count * times.demand[form]
            demand[group] = demand.get(group, np.zeros(s.shape.n_dims)) + more
    return [
        Pair(group, int(inner), int(outer), float(n_bytes[inner] / n_bytes[outer]))
        for group, n_bytes in demand.items()
        for inner, outer in itertools.combinations(np.flatnonzero(n_bytes), 2)
    ]


def simulate_balanced_times(program: Program, pairs: Sequence[Pair]) -> Floats:
    """Return the time of ``program`` with each pair balanced, relative to its time now.

    Shape (pairs,).  Each run gives the outer dimension of one pair its balanced bandwidth.
    """
    points = np.tile(program.bandwidth, (1 + len(pairs), 1))
    for point, pair in zip(points[1:], pairs, strict=True):
        point[pair.outer] = pair.enough(program.bandwidth)
    now, *others = run_batch(program, points).time.tolist()
    return np.array(others) / now


# --- hops -----------------------------------------------------------------------------------------


_GROUPS = (REPLICAS, EXPERT_REPLICAS, SHARDS)


@dataclass(frozen=True)
class Exchange:
    """A collective of ``n_bytes`` on ``group``, with the ps of its hops and of its bytes."""

    group: str
    n_bytes: float
    hops: float
    bytes: float


def find_latency_bound_exchange(program: Program) -> Exchange | None:
    """Return the largest repeated reduction among replicas that is limited by latency, or None.

    Its hops last longer than its bytes; each is taken in the dimension where it lasts longest.
    """
    s = program.structure
    reduces = (CollectiveKind.ALL_REDUCE, CollectiveKind.REDUCE_SCATTER)
    own = np.flatnonzero(np.isin(s.forms["kind"], reduces)[s.flows["form"]])
    groups, forms = program.names.flow_group, s.flows["form"][own].tolist()
    flows = Counter(
        (groups[flow], form)
        for flow, form in zip(own.tolist(), forms, strict=True)
        if groups[flow] in _GROUPS
    )
    held = {key: float(s.forms[key[1]]["n_bytes"] * s.forms[key[1]]["chunks"]) for key in flows}
    often = [key for key, n in flows.items() if n >= 2 * s.shape.n_classes]
    if not often:
        return None
    group, form = max(often, key=held.__getitem__)
    times = times_of(program)
    span = times.spans[form]
    phases = times.phases[int(span["start"]) : int(span["start"] + span["length"])]
    hops = float(phases["late"].max())
    of_bytes = float((times.demand[form] / times.bandwidth).max()) * PICOSECONDS
    return Exchange(group, held[group, form], hops, of_bytes) if hops > of_bytes else None
