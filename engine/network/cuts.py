"""Cuts of a network, which bound collectives from below: capacities and the tightest cuts.

A cut separates a set of devices (its *side*) from all other devices; its capacity is the summed
bandwidth of the links that leave the side.  Results are exact: bandwidths are whole multiples of a
unit, and capacities are summed in integers.  Maximum flows only search for cuts, with capacities
rounded to 32 bits.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import gcd, lcm
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.network.graph import Link, Network
from dimsweep.engine.topology.blocks import Node

if TYPE_CHECKING:  # scipy is imported by the functions that need it: few runs do
    from scipy.sparse import csr_array

Side = NDArray[np.bool_]  # of all devices, those on the sending side of a cut
_MOST = 2**31 - 1  # what scipy's flows can count to


class Cut(NamedTuple):
    """A set of devices with ``n_inside`` NPUs, and the bytes/s of the links that leave the set."""

    inside: frozenset[Node]
    n_inside: int
    capacity: Fraction

    @property
    def ratio(self) -> Fraction:
        """Seconds until each NPU inside has sent one byte out of the set."""
        return self.n_inside / self.capacity


@dataclass(frozen=True, eq=False)
class Capacities:
    """Link capacities as integers: link ``i`` leads from device ``tail[i]`` to ``head[i]``.

    It carries ``capacity[i]`` units of ``unit`` bytes/s.  Devices are numbered by their position in
    ``nodes``; ``ranks`` are the numbers of the NPUs that take part in the collective.  All other
    devices, including other NPUs, forward bytes.  ``link[i]`` is the link's number in its network.
    """

    nodes: tuple[Node, ...]
    ranks: tuple[int, ...]
    tail: NDArray[np.int64]
    head: NDArray[np.int64]
    capacity: tuple[int, ...]
    unit: Fraction
    link: tuple[int, ...]

    @classmethod
    def from_network(cls, network: Network, ranks: Collection[int]) -> "Capacities":
        """Return the capacities of all links of a network.

        Raises :class:`DimsweepError` for fewer than two ranks, a repeated rank or an unknown rank.
        """
        return cls.from_links(dict(enumerate(network.links)), ranks)

    @classmethod
    def from_links(cls, links: Mapping[int, Link], ranks: Collection[int]) -> "Capacities":
        """Return the capacities of ``links``, which are keyed by their numbers."""
        check_group(links, ranks)
        members = sorted(ranks)
        joined = links.values()
        nodes = tuple(dict.fromkeys(end for link in joined for end in (link.source, link.target)))
        number = {node: i for i, node in enumerate(nodes)}
        exact = [Fraction(link.bandwidth) for link in joined]
        scale = lcm(*(each.denominator for each in exact))
        whole = [int(each * scale) for each in exact]
        common = gcd(*whole)
        return cls(
            nodes,
            tuple(number[rank] for rank in members),
            np.array([number[link.source] for link in joined], np.int64),
            np.array([number[link.target] for link in joined], np.int64),
            tuple(each // common for each in whole),
            Fraction(common, scale),
            tuple(links),
        )

    @property
    def reversed(self) -> "Capacities":
        """These capacities with every link reversed."""
        return replace(self, tail=self.head, head=self.tail)

    @cached_property
    def is_symmetric(self) -> bool:
        """True if every link has a reverse link of the same capacity."""
        ends = zip(self.tail.tolist(), self.head.tolist(), strict=True)
        capacity = dict(zip(ends, self.capacity, strict=True))
        return all(capacity.get((b, a)) == c for (a, b), c in capacity.items())

    def outgoing_units(self, side: Side) -> int:
        """Return the total capacity, in units, of the links that leave the device set ``side``."""
        return sum(self.capacity[i] for i in np.flatnonzero(side[self.tail] & ~side[self.head]))

    def cut(self, side: Side) -> Cut:
        """Return the cut around the device set ``side``, with devices by name."""
        inside = frozenset(self.nodes[i] for i in np.flatnonzero(side))
        return Cut(inside, self.n_ranks(side), self.outgoing_units(side) * self.unit)

    def n_ranks(self, side: Side) -> int:
        """Return the number of ranks in the device set ``side``."""
        return int(side[list(self.ranks)].sum())

    def complement_of(self, device: int) -> Side:
        """Return the set of all devices except ``device``, as a mask."""
        side = np.ones(len(self.nodes), np.bool_)
        side[device] = False
        return side

    @cached_property
    def equivalent_ranks(self) -> tuple[tuple[int, ...], ...]:
        """Ranks, grouped by equal connections.

        Two ranks of a group have links of equal capacities to and from the same devices, so
        swapping them does not change the network.
        """
        around: dict[int, list[tuple[int, int, int]]] = {rank: [] for rank in self.ranks}
        for a, b, c in zip(self.tail.tolist(), self.head.tolist(), self.capacity, strict=True):
            for rank, other, way in ((a, b, 0), (b, a, 1)):
                if rank in around:
                    around[rank].append((other, c, way))
        classes: dict[frozenset[tuple[int, int, int]], list[int]] = {}
        for rank, links in around.items():
            classes.setdefault(frozenset(links), []).append(rank)
        return tuple(map(tuple, classes.values()))


def check_group(links: Mapping[int, Link], ranks: Collection[int]) -> None:
    """Raise :class:`DimsweepError` for fewer than two, repeated, or unconnected ``ranks``."""
    n = len(set(ranks))
    if n < 2 or n < len(ranks):
        problem = f"a group of {len(ranks)} ranks, {n} of them different"
        hint = "a group has two ranks or more, each once"
        raise DimsweepError(problem, where="ranks", hint=hint, code="invalid")
    known = {end for link in links.values() for end in (link.source, link.target)}
    for rank in ranks:
        if rank not in known:
            problem = f"NPU {rank} has no link in this network"
            raise DimsweepError(problem, where="ranks", code="unknown-name")


class Flows:
    """Maximum-flow problems on one network, solved for one sink after another.

    The source is either one device, or all ranks at once, each supplying the same number of bytes.
    """

    def __init__(self, capacities: Capacities, ratio: Fraction | None = None) -> None:
        """Prepare flows from all ranks at once if ``ratio`` is given, else from one chosen device.

        Each rank then sends one byte in ``ratio / capacities.unit`` seconds.
        """
        from scipy.sparse import csr_array

        self._capacities = capacities
        n, ranks = len(capacities.nodes), capacities.ranks
        self._source = n
        n_bytes, seconds = (0, 1) if ratio is None else (ratio.denominator, ratio.numerator)
        most = len(ranks) * n_bytes or sum(capacities.capacity)
        # Links never have more to carry than there is: rounded down where that has too many bits.
        scale = max(1, -(-most // _MOST))
        self.wanted = len(ranks) * (n_bytes // scale)
        values = [min(most, c * seconds) // scale for c in capacities.capacity]
        values += [n_bytes // scale] * len(ranks)
        tail = np.append(capacities.tail, np.full(len(ranks), n))
        head = np.append(capacities.head, ranks)
        self._graph: csr_array = csr_array(
            (np.array(values, np.int32), (tail, head)), shape=(n + 1, n + 1)
        )

    def minimum_cut(self, sink: int, source: int | None = None) -> tuple[int, Side, Side]:
        """Return the maximum flow to ``sink``, and the smallest and largest side of a minimum cut.

        The sides are masks of the devices on the source's side of the cut.
        """
        from scipy.sparse.csgraph import maximum_flow

        start = self._source if source is None else source
        found = maximum_flow(self._graph, start, sink)
        return int(found.flow_value), *self._sides(found.flow, start, sink)

    def value(self, sink: int, source: int | None = None) -> int:
        """Return the value of the maximum flow to ``sink``."""
        from scipy.sparse.csgraph import maximum_flow

        start = self._source if source is None else source
        return int(maximum_flow(self._graph, start, sink).flow_value)

    def _sides(self, flow: "csr_array", start: int, sink: int) -> tuple[Side, Side]:
        from scipy.sparse.csgraph import breadth_first_order

        left = self._graph - flow
        left.eliminate_zeros()
        n = len(self._capacities.nodes)
        reached, reaching = np.zeros(n + 1, np.bool_), np.zeros(n + 1, np.bool_)
        reached[breadth_first_order(left, start, return_predecessors=False)] = True
        reaching[breadth_first_order(left.T.tocsr(), sink, return_predecessors=False)] = True
        return reached[:n], ~reaching[:n]


def find_minimum_side(capacities: Capacities, inside: Collection[int]) -> Side:
    """Return the device set of minimum outgoing capacity whose ranks are exactly ``inside``."""
    n, others = len(capacities.nodes), set(capacities.ranks) - set(inside)
    # Contracted: those inside are one device, the other ranks are another one.
    place = np.arange(n)
    place[list(inside)], place[list(others)] = min(inside), min(others)
    joined = replace(capacities, tail=place[capacities.tail], head=place[capacities.head])
    return Flows(joined).minimum_cut(min(others), min(inside))[1][place]


def find_slowest_side(capacities: Capacities) -> Side:
    """Return the device set that takes longest to send out one byte of each of its ranks.

    At least one rank is outside.  The time is 1/x* of Zhao et al., "ForestColl" (arXiv 2402.06787),
    which searches for it by bisection; here each cut determines the next time to try (Dinkelbach,
    1967).
    """

    def ratio(side: Side) -> Fraction:
        return Fraction(capacities.n_ranks(side), capacities.outgoing_units(side))

    sinks = [twins[0] for twins in capacities.equivalent_ranks]
    worst = max((capacities.complement_of(sink) for sink in sinks), key=ratio)
    open_, flows = list(sinks), Flows(capacities, ratio(worst))
    while open_:
        sink = open_[-1]
        value, side, _ = flows.minimum_cut(sink)
        if value < flows.wanted and capacities.n_ranks(side) and ratio(side) > ratio(worst):
            worst, flows = side, Flows(capacities, ratio(side))
        else:
            open_.pop()  # and it never falls behind: less is asked for from now on
    return worst


def find_tight_sides(capacities: Capacities, worst: Side) -> list[Side]:
    """Return, for each rank, the smallest device set around it that is as slow as ``worst``.

    A set is as slow if its ranks' bytes take as long to enter as those of ``worst`` take to leave.
    Ranks without such a set are left out.
    """
    ratio = Fraction(capacities.n_ranks(worst), capacities.outgoing_units(worst))
    flows, found = Flows(capacities, ratio), []
    for first, *others in capacities.equivalent_ranks:
        inside = ~flows.minimum_cut(first)[2]
        if not capacities.n_ranks(~inside):
            continue
        found.append(inside)
        for other in others:
            if not inside[other]:
                swapped = inside.copy()
                swapped[[first, other]] = swapped[[other, first]]
                found.append(swapped)
    return found


def find_narrowest_side(capacities: Capacities) -> Side:
    """Return the device set of minimum outgoing capacity that has ranks inside and outside."""
    first = capacities.ranks[0]
    others = {rank for twins in capacities.equivalent_ranks for rank in twins[:2]} - {first}
    ways: Sequence[Capacities] = (capacities,)
    if not capacities.is_symmetric:
        ways = (capacities, capacities.reversed)
    best, least = capacities.complement_of(first), None
    for way in ways:
        flows = Flows(way)
        for other in sorted(others):
            side = flows.minimum_cut(other, first)[1]
            side = side if way is capacities else ~side
            if least is None or capacities.outgoing_units(side) < least:
                best, least = side, capacities.outgoing_units(side)
    return best
