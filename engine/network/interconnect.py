"""Interconnects: wafer-scale networks that place the ranks and plan the collectives themselves.

An interconnect reduces in its switches, or defines the rings of an all-reduce.  Its I/O controllers
load data from outside in *pieces*: each piece is sent to several NPUs at once over a tree, and a
device copies it at each branching point.  Data that NPUs store take the reversed tree, and a device
sums the data where branches meet.
"""

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, NamedTuple

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.network.graph import Network
from dimsweep.engine.network.routing import Routing
from dimsweep.engine.topology.blocks import Node

NOBODY = -1
Route = tuple[Node, ...]
Load = Mapping[tuple[Node, Node], float]  # of each link, the share of a controller's bytes on it


class Hop(NamedTuple):
    """One link of an :class:`IoTree`, by its number in the network.

    ``next`` are the indices, in the tree, of the hops that continue from the link's end.  A hop
    begins when the ``awaits`` hops before it have begun to arrive.  Where a hop is ``stored``, the
    next hops begin only when it has arrived completely.  ``gets`` is the index of the NPU among the
    receivers (0 for the controller) whose bytes end here, or NOBODY if the bytes only pass.
    """

    link: int
    next: tuple[int, ...]
    awaits: int
    stored: bool
    gets: int


class IoTree(NamedTuple):
    """The links that a piece of a load or store takes; ``first`` has the first hops' indices."""

    hops: tuple[Hop, ...]
    first: tuple[int, ...]


def load_tree(network: Network, routes: Sequence[Route]) -> IoTree:
    """Return the tree of the ``routes`` from one controller to several NPUs.

    A route is a sequence of nodes.  Routes with a common beginning share its links.
    """
    places: dict[Route, int] = {}
    gets: dict[int, int] = {}
    for member, route in enumerate(routes):
        for end in range(2, len(route) + 1):
            places.setdefault(route[:end], len(places))
        gets[places[route]] = member
    below: list[list[int]] = [[] for _ in places]
    for path, place in places.items():
        if len(path) > 2:
            below[places[path[:-1]]].append(place)
    links = [network.number[path[-2], path[-1]] for path in places]
    hops = (
        Hop(
            links[i],
            tuple(on),
            1,
            _build_store_tree(network, links[i], [links[j] for j in on]),
            who,
        )
        for i, on, who in ((i, on, gets.get(i, NOBODY)) for i, on in enumerate(below))
    )
    return IoTree(tuple(hops), (0,))


def store_tree(network: Network, load: IoTree) -> IoTree:
    """Return the tree of a load reversed for a store: every receiving NPU becomes a sender."""
    above = {on: i for i, hop in enumerate(load.hops) for on in hop.next}
    back = [network.links[hop.link] for hop in load.hops]
    links = [network.number[link.target, link.source] for link in back]
    hops = []
    for i, hop in enumerate(load.hops):
        on = (above[i],) if i in above else ()
        stored = _build_store_tree(network, links[i], [links[j] for j in on])
        hops.append(Hop(links[i], on, len(hop.next), stored, NOBODY if on else 0))
    return IoTree(tuple(hops), tuple(i for i, hop in enumerate(load.hops) if not hop.next))


def _build_store_tree(network: Network, link: int, following: Iterable[int]) -> bool:
    """Return whether a piece must arrive fully at the end of ``link``, as a next link is faster."""
    bandwidth = network.links[link].bandwidth
    return any(network.links[on].bandwidth > bandwidth for on in following)


def compute_link_load(network: Network, ways: Sequence[IoTree]) -> Load:
    """Return, per link, the fraction of a controller's bytes that crosses it.

    The controller's pieces take the trees ``ways`` in turn.
    """
    loads: Counter[tuple[Node, Node]] = Counter()
    for tree in ways:
        for hop in tree.hops:
            link = network.links[hop.link]
            loads[link.source, link.target] += 1 / len(ways)  # type: ignore[assignment]
    return loads


def compute_busiest_load(loads: Sequence[Load]) -> float:
    """Return the load of the busiest link: the number of controllers' full rates it must carry."""
    return max(_sum_loads(loads).values())


def compute_line_share(network: Network, loads: Sequence[Load], rate: float) -> float:
    """Return the fraction of ``rate`` (bytes/s) at which all controllers can send at once.

    ``loads`` are the controllers' :func:`compute_link_load`; the narrowest link decides.
    """
    room = 1.0
    for ends, load in _sum_loads(loads).items():
        room = min(room, network.links[network.number[ends]].bandwidth / (load * rate))
    return room


def _sum_loads(loads: Sequence[Load]) -> Counter[tuple[Node, Node]]:
    total: Counter[tuple[Node, Node]] = Counter()
    for load in loads:
        total.update(load)
    return total


@dataclass(frozen=True)
class ReductionTree:
    """A tree of switches that reduces the data of a group of NPUs."""

    #: Members below each leaf switch.
    leaves: Mapping[str, tuple[int, ...]]
    #: Links of each leaf to ``top``, as nodes; empty with one leaf.  Each lane takes an equal part
    #: of the bytes; lanes at equal positions take the same part.
    lanes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: Switch that joins the leaves.
    top: str = ""

    @property
    def n_parts(self) -> int:
        """Number of equal parts into which the data are divided, one for each lane."""
        return len(next(iter(self.lanes.values()))) if self.lanes else 1


Line = tuple[int, ...]  # ranks, or NPUs, that run a collective together


@dataclass(frozen=True)
class InterconnectPlan:
    """Placement of ranks on NPUs, and a schedule of the groups that reduce in switches.

    ``places`` holds the NPU of each rank.  A *line* is a group of ranks that runs a collective,
    given as NPUs.  Lines that run at the same time form a set.  ``rounds[i]`` divides set i into
    rounds: the lines of a round use the switches at once, each with its tree of switches, and the
    rounds of a set take turns.  Lines in ``decomposed`` send messages from NPU to NPU around rings
    instead.
    """

    places: Sequence[int]
    rounds: tuple[tuple[Mapping[frozenset[int], ReductionTree], ...], ...]
    decomposed: frozenset[frozenset[int]] = frozenset()

    @property
    def n_rounds(self) -> int:
        """Maximum number of rounds of a set."""
        return max(map(len, self.rounds), default=1)

    @property
    def n_serialised(self) -> int:
        """Number of lines that wait for other lines of the same set."""
        return sum(len(later) for rounds in self.rounds for later in rounds[1:])

    @property
    def n_moved(self) -> int:
        """Number of ranks that are placed on an NPU with another number."""
        return sum(rank != npu for rank, npu in enumerate(self.places))


def map_lines(lines: Sequence[Line], places: Sequence[int]) -> list[Line]:
    """Return each group of ranks as a tuple of their NPUs; the groups are sorted."""
    return sorted(tuple(places[rank] for rank in line) for line in lines)


class Interconnect(ABC):
    """Base class: a wafer-scale network of NPUs and I/O controllers.

    Ranks are placed in the order of the NPUs unless :meth:`plan` places them differently; NPUs
    without a rank are idle.  ``noun`` is the interconnect's name in messages, and its key in a
    configuration. ``io`` is the line rate of a controller (bytes/s), ``latency`` the latency of a
    link (ps).  Each controller transfers its share of the bytes in ``pieces``, at least four of
    them at a time.  With ``multicasts``, bytes that the members of a group load are sent to their
    NPUs only; else they are broadcast to all NPUs.  With ``preempts``, a message in flight on a
    link is suspended for a more urgent one.
    """

    noun: ClassVar[str]

    latency: int
    io: float
    pieces: int
    multicasts: bool
    preempts: bool

    @property
    @abstractmethod
    def n_npus(self) -> int:
        """Number of NPUs."""

    @property
    @abstractmethod
    def rings(self) -> tuple[int, int, bool] | None:
        """Two-level rings of an all-reduce among all NPUs; None if switches reduce.

        The value is (members of an inner ring, members of an outer ring, whether half of the bytes
        goes around in the opposite direction).
        """

    @property
    @abstractmethod
    def routing(self) -> Routing:
        """Default routing of messages."""

    @abstractmethod
    def io_routes(self, npus: Sequence[int]) -> Sequence[Sequence[Sequence[Route]]]:
        """Return, for each I/O controller, sets of routes that its pieces take in turn.

        A set has one route to each of ``npus``, in their order.  Routes with a common beginning may
        share it.
        """

    def io_trees(self, npus: Sequence[int]) -> Sequence[Sequence[IoTree]]:
        """Return, for each I/O controller, its sets of :meth:`io_routes` as trees."""
        network = self.network
        return [[load_tree(network, routes) for routes in ways] for ways in self.io_routes(npus)]

    @cached_property
    def streams(self) -> Sequence[Load]:
        """Link loads of each I/O controller that broadcasts to all NPUs.

        See :func:`compute_link_load`.
        """
        trees = self.io_trees(range(self.n_npus))
        return [compute_link_load(self.network, ways) for ways in trees]

    @abstractmethod
    def trees(self, lines: Sequence[tuple[int, ...]]) -> Mapping[frozenset[int], ReductionTree]:
        """Return the tree of reducing switches for each group of NPUs in ``lines``, by its members.

        The groups run their collectives at once.  Empty on an interconnect that does not reduce.
        Raises :class:`DimsweepError` for groups that it cannot route at the same time.
        """

    def places(self, sizes: Sequence[int]) -> Sequence[int]:
        """Return the NPU of each rank; ranks form nested groups of ``sizes``, innermost first."""
        return range(math.prod(sizes))

    def plan(self, sets: Sequence[Sequence[Line]], sizes: Sequence[int]) -> InterconnectPlan:
        """Return the :meth:`places` of the ranks and the :meth:`trees` of each set of groups.

        The groups of ranks in one of ``sets`` run their collectives at once.
        """
        places = self.places(sizes)
        return InterconnectPlan(
            places, tuple((self.trees(map_lines(lines, places)),) for lines in sets)
        )

    @abstractmethod
    def bisection(self) -> float:
        """Return the bisection bandwidth: bytes/s in one direction between nearly equal halves."""

    @cached_property
    @abstractmethod
    def network(self) -> Network:
        """Graph of the interconnect's links."""

    @cached_property
    def io_share(self) -> float:
        """Fraction of their line rate at which all I/O controllers can broadcast at once."""
        return compute_line_share(self.network, self.streams, self.io)

    @property
    def stream_bandwidth(self) -> float:
        """Bytes/s that every NPU receives while all I/O controllers broadcast."""
        return len(self.streams) * self.io * self.io_share

    def check_ranks(self, n_ranks: int) -> None:
        """Raise :class:`DimsweepError` if there are more ranks than NPUs."""
        if n_ranks > self.n_npus:
            raise DimsweepError(
                f"{n_ranks} NPUs do not fit a {self.noun} of {self.n_npus}",
                where="topology.shape",
                hint=f"{self.n_npus} or fewer; NPUs without a rank are idle",
                code="mismatch",
            )
