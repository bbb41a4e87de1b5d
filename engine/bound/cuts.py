"""Lower bounds on the time of a collective on any network, from cuts of its graph.

They hold for every algorithm, route and order, in any fidelity, at any latency. They are exact
fractions: seconds for a byte that each member holds on entering.  Devices outside the group may
forward bytes, other NPUs included.

*All-gather.*  Take any set S of devices that lacks some member. The bytes of its members must leave
it: ``max |S| / capacity out of S`` (Zhao et al., "ForestColl", arXiv 2402.06787).  Trees reach this
bound, up to latencies (:mod:`engine.network.forest`), if the capacities into and out of each switch
are equal. *Reduce-scatter*: the same bound on the reversed network.  Both bounds hold for switches
that copy and reduce, too.

*All-reduce.*  Take any set that has some members and not others. The bytes of one member must leave
it. This also holds for switches that reduce.  If only NPUs reduce, and nothing is compressed: of m
disjoint sets that have all members between them, m - 1 must send each byte before any set knows its
sum, and then m - 1 must receive the sum.  So at least ``2 (m - 1)`` times the bytes of a member
cross their borders (Patarasuk and Yuan, 2009, for sets of one NPU).  The sets tried are single
members, and the sets that bytes enter most slowly.  A reduce-scatter followed by an all-gather may
take longer than this bound, unless the network is equal around all of its members.

*All-to-all.*  From any set, the bytes of its members for other members must leave.  Also, for any
lengths of the links, bytes times the lengths of their shortest routes are at most capacities times
lengths: the dual of the multi-commodity flow (Shahrokhi and Matula, 1990).  The lengths tried are
one for each link, and, on small networks, a solver's. Shortest routes are then found in integers,
so no solver is trusted.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.collective.algorithms import InSwitch
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.lower.program import Program
from dimsweep.engine.network.cuts import (
    Capacities,
    Side,
    find_minimum_side,
    find_narrowest_side,
    find_slowest_side,
    find_tight_sides,
)
from dimsweep.engine.network.graph import Network, abbreviate, node_name

if TYPE_CHECKING:  # scipy is imported by the functions that need it: few runs do
    from scipy.sparse import csr_array

Ints = NDArray[np.int64]

# Members times links for which the multi-commodity flow is solved: some seconds.
_SMALL = 10_000
_QUICK = 4_000_000  # classes of alike members times links: some seconds
_NEAR = 6  # different numbers of hops around a member
_FINE = 2**20  # the longest link, in the integers that a solver's lengths are rounded to


class CutBound(NamedTuple):
    """A lower bound on a collective, in seconds per byte that a member holds, and its reason."""

    per_byte: Fraction
    reason: str

    def picoseconds(self, n_bytes: float) -> float:
        """Return the lower bound in ps if each member holds ``n_bytes`` on entering."""
        return float(self.per_byte * Fraction(n_bytes) * 10**12)


def cut_bound(
    network: Network,
    ranks: Collection[int],
    kind: CollectiveKind,
    *,
    switches_reduce: bool = False,
) -> CutBound:
    """Return a lower bound on the time of a ``kind`` of collective among ``ranks``, from cuts.

    Raises :class:`DimsweepError` for fewer than two ranks, and for missing ranks.
    """
    capacities = Capacities.from_network(network, ranks)
    if kind is CollectiveKind.ALL_REDUCE and switches_reduce:
        return _bound_by_narrowest_side(capacities)
    return max(_BOUNDS[kind](capacities), key=lambda bound: bound.per_byte)


class CutTime(NamedTuple):
    """A lower bound in ps on the time of an iteration, and the cut that causes it."""

    picoseconds: float
    reason: str


def time_by_cuts(program: Program, network: Network) -> CutTime | None:
    """Return a lower bound on an iteration on ``network``, by the cuts that its collectives cross.

    None without collectives. ``program`` must have one class for each rank.

    All collectives of a kind over one group send their bytes across the same cuts, even if they
    overlap. For each kind and name of groups, only the members that send the most are examined;
    cuts that take more than seconds to find are skipped.
    """
    s = program.structure
    moved: defaultdict[tuple[str, CollectiveKind, tuple[int, ...]], float] = defaultdict(float)
    for flow, group in zip(s.flows, program.names.flow_group, strict=True):
        if group:
            form = s.forms[flow["form"]]
            members = s.members["cls"][flow["member_start"] : flow["member_end"]].tolist()
            kind = CollectiveKind(int(form["kind"]))
            moved[group, kind, tuple(members)] += float(form["n_bytes"] * form["chunks"])
    chosen = program.communication.algorithms
    in_switch = any(isinstance(each.others, InSwitch) for each in chosen)
    most: dict[tuple[str, CollectiveKind], tuple[float, tuple[int, ...]]] = {}
    for (group, kind, members), n_bytes in moved.items():
        if len(members) > 1 and n_bytes > most.get((group, kind), (0.0, ()))[0]:
            most[group, kind] = n_bytes, members
    found = []
    for (group, kind), (n_bytes, members) in most.items():
        if (
            len(Capacities.from_network(network, members).equivalent_ranks) * len(network.links)
            > _QUICK
        ):
            continue
        bound = cut_bound(network, members, kind, switches_reduce=in_switch)
        found.append(CutTime(bound.picoseconds(n_bytes), f"{kind} over {group}: {bound.reason}"))
    return max(found, default=None)


def _bound_all_gather(capacities: Capacities) -> Iterator[CutBound]:
    yield _bound_by_side(capacities, find_slowest_side(capacities), 1, "leave")


def _bound_reduce_scatter(capacities: Capacities) -> Iterator[CutBound]:
    back = capacities.reversed
    yield _bound_by_side(back, find_slowest_side(back), len(back.ranks), "enter")


def _bound_by_side(capacities: Capacities, side: Side, parts: int, verb: str) -> CutBound:
    cut = capacities.cut(side)
    return CutBound(
        cut.ratio / parts, f"the bytes that must {verb} {_describe_side(capacities, side)}"
    )


def _bound_all_reduce(capacities: Capacities) -> Iterator[CutBound]:
    yield _bound_by_narrowest_side(capacities)
    tight = find_tight_sides(capacities, find_slowest_side(capacities))
    if not capacities.is_symmetric:
        back = capacities.reversed
        tight += find_tight_sides(back, find_slowest_side(back))
    for sides in _partitions(capacities, tight):
        ways = (capacities,) if capacities.is_symmetric else (capacities, capacities.reversed)
        least = min(sum(map(way.outgoing_units, sides)) for way in ways) * capacities.unit
        such_as = _describe_side(capacities, sides[0])
        yield CutBound(
            Fraction(2 * (len(sides) - 1)) / least,
            f"the bytes that {len(sides)} parts, such as {such_as}, must exchange",
        )


def _bound_by_narrowest_side(capacities: Capacities) -> CutBound:
    side = find_narrowest_side(capacities)
    what = f"the bytes that must leave {_describe_side(capacities, side)}"
    return CutBound(1 / capacities.cut(side).capacity, what)


def _partitions(capacities: Capacities, tight: Sequence[Side]) -> Iterator[list[Side]]:
    """Yield partitions of the ranks into disjoint sides (sets of devices).

    The first partition has single ranks. The others have disjoint ``tight`` sides, with all other
    ranks single or together.
    """
    n = len(capacities.nodes)
    ranks = np.zeros(n, np.bool_)
    ranks[list(capacities.ranks)] = True
    sides, taken = list[Side](), np.zeros(n, np.bool_)
    for side in sorted(tight, key=lambda side: int(side.sum())):
        if not (side & taken).any():
            sides.append(side)
            taken |= side
    single = [~capacities.complement_of(rank) for rank in capacities.ranks]
    yield single
    left = ranks & ~taken
    yield sides + [side for side in single if (side & left).any()]
    if left.any() and sides:
        yield [*sides, left]


def _bound_all_to_all(capacities: Capacities) -> Iterator[CutBound]:
    n = len(capacities.ranks)
    worst = find_slowest_side(capacities)
    sides = [worst, find_narrowest_side(capacities), *find_tight_sides(capacities, worst)]
    others = [capacities.complement_of(rank) for rank in capacities.ranks]
    sides += [*others, *(~side for side in others)]
    sides += [find_minimum_side(capacities, near) for near in _neighbourhoods(capacities)]
    for side in {side.tobytes(): side for side in sides}.values():
        inside = capacities.n_ranks(side)
        per_byte = Fraction(inside * (n - inside), n) / (
            capacities.outgoing_units(side) * capacities.unit
        )
        yield CutBound(per_byte, f"the bytes that must leave {_describe_side(capacities, side)}")
    yield _bound_by_lengths(
        capacities, np.ones(len(capacities.tail), np.int64), "all links together"
    )
    if len(capacities.equivalent_ranks) * len(capacities.tail) <= _SMALL:
        yield _bound_by_lengths(capacities, _dual_lengths(capacities), "the multi-commodity flow")


def _neighbourhoods(capacities: Capacities) -> set[frozenset[int]]:
    """Return sets of members within a number of hops of one member.

    The member is one of each class of twins (members with equal links).
    """
    from scipy.sparse.csgraph import dijkstra

    ranks = np.array(capacities.ranks)
    firsts = [twins[0] for twins in capacities.equivalent_ranks]
    lengths = np.ones(len(capacities.tail), np.int64)
    hops = dijkstra(_graph(capacities, lengths), indices=firsts)[:, ranks]
    found = {
        frozenset(ranks[row <= most].tolist())
        for row in hops
        for most in np.unique(row)[:_NEAR].tolist()
    }
    return {near for near in found if 1 < len(near) < len(ranks)}


def _graph(capacities: Capacities, length: Ints) -> "csr_array":
    from scipy.sparse import csr_array

    n = len(capacities.nodes)
    return csr_array((length.astype(float), (capacities.tail, capacities.head)), shape=(n, n))


def _bound_by_lengths(capacities: Capacities, length: Ints, why: str) -> CutBound:
    """Return a bound on an all-to-all: shortest routes by link ``length`` against all capacity."""
    from scipy.sparse.csgraph import dijkstra

    ranks = list(capacities.ranks)
    # Whole numbers far below 2**53, whose sums are exact.
    found = dijkstra(_graph(capacities, length), indices=ranks)[:, ranks]
    ways = int(found.astype(np.int64).sum())
    room = sum(map(int.__mul__, capacities.capacity, length.tolist())) * capacities.unit
    return CutBound(Fraction(ways, len(ranks)) / room, f"what {why} can carry")


def _dual_lengths(capacities: Capacities) -> Ints:
    """Return link lengths close to the best bound's lengths: each link's dual value in the flow.

    The flows of twins to all others count as one, as lengths may be equal for all of them.
    """
    from scipy.optimize import linprog
    from scipy.sparse import block_diag, coo_array, hstack

    n, m, classes = len(capacities.nodes), len(capacities.tail), capacities.equivalent_ranks
    capacity = np.array([float(c) for c in capacities.capacity])
    capacity /= capacity.mean()
    link, one = np.arange(m), np.ones(m)
    balance = coo_array(
        (np.append(one, -one), (np.append(capacities.head, capacities.tail), np.tile(link, 2))),
        shape=(n, m),
    ).tocsr()
    rows, ends = [], []
    others = capacities.complement_of(classes[0][0])  # whose balance follows from all others'
    for twins in classes:
        arrive = np.zeros(n)
        arrive[list(capacities.ranks)] = len(twins)
        arrive[list(twins)] -= len(capacities.ranks)
        rows.append(balance[others])
        ends.append(arrive[others])
    carried = hstack([*[coo_array((one, (link, link)), shape=(m, m))] * len(classes)])
    equal = block_diag(rows)
    found = linprog(
        np.append(np.zeros(len(classes) * m), 1.0),
        A_ub=hstack([carried, coo_array(-capacity[:, None])]),
        b_ub=np.zeros(m),
        A_eq=hstack([equal, coo_array((equal.shape[0], 1))]),
        b_eq=np.concatenate(ends),
        method="highs",
    )
    if found.x is None:
        return np.ones(m, np.int64)
    worth = np.maximum(-found.ineqlin.marginals, 0.0)
    lengths: Ints = (worth / max(worth.max(), 1e-300) * _FINE).astype(np.int64) + 1
    return lengths


def _describe_side(capacities: Capacities, side: Side) -> str:
    """Return the ranks of a side in words, or the ranks outside of it if they are fewer."""
    inside = [rank for rank in capacities.ranks if side[rank]]
    beyond = [rank for rank in capacities.ranks if not side[rank]]
    if len(beyond) < len(inside):
        return "every NPU except " + abbreviate(
            node_name(capacities.nodes[rank]) for rank in beyond
        )
    return abbreviate(node_name(capacities.nodes[rank]) for rank in inside)


_BOUNDS = {
    CollectiveKind.ALL_GATHER: _bound_all_gather,
    CollectiveKind.REDUCE_SCATTER: _bound_reduce_scatter,
    CollectiveKind.ALL_REDUCE: _bound_all_reduce,
    CollectiveKind.ALL_TO_ALL: _bound_all_to_all,
}
