"""Interconnects: networks that plan where ranks are and how collectives run on them.

An interconnect reduces in its switches or defines the rings of an all-reduce.  Its I/O controllers
send a piece to several NPUs at once over a tree: a device copies the piece at each branching point.
The reversed tree carries the data that NPUs store: a device sums it where branches meet.

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
    """A link of a tree, by its number in the network.

    ``next`` are the hops that continue from its end, by their places in the tree.  A hop begins
    when the ``awaits`` hops before it have begun to arrive, or have arrived completely if they are
    ``stored`` at their end.  ``gets`` is the place of the NPU (or 0, the controller) that receives
    its bytes, or NOBODY if they only pass.
    """

    link: int
    next: tuple[int, ...]
    awaits: int
    stored: bool
    gets: int


class IoTree(NamedTuple):
    """The route of a piece; ``first`` are its initial hops."""

    hops: tuple[Hop, ...]
    first: tuple[int, ...]


def load_tree(network: Network, routes: Sequence[Route]) -> IoTree:
    """Return the tree of the ``routes`` from a controller to several NPUs.

    Routes with a common beginning share its links.
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
    """Return the reversed tree: every receiving NPU becomes a sender."""
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
    """Return whether a piece is stored at a link's end, so that no faster link after it idles."""
    bandwidth = network.links[link].bandwidth
    return any(network.links[on].bandwidth > bandwidth for on in following)


def compute_link_load(network: Network, ways: Sequence[IoTree]) -> Load:
    """Return the load of each link by a controller's pieces, which take ``ways`` in turn."""
    loads: Counter[tuple[Node, Node]] = Counter()
    for tree in ways:
        for hop in tree.hops:
            link = network.links[hop.link]
            loads[link.source, link.target] += 1 / len(ways)  # type: ignore[assignment]
    return loads


def compute_busiest_load(loads: Sequence[Load]) -> float:
    """Return the load, in controllers, of the busiest link between NPUs or switches."""
    return max(_sum_loads(loads).values())


def compute_line_share(network: Network, loads: Sequence[Load], rate: float) -> float:
    """Return the share of ``rate`` (bytes/s) that all controllers can have at once."""
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
    """A tree of switches that reduce the bytes of a group."""

    #: Members below each leaf switch.
    leaves: Mapping[str, tuple[int, ...]]
    #: Links of each leaf to ``top``, as nodes; empty with one leaf.  Each lane takes an equal part
    #: of the bytes; lanes at equal positions take the same part.
    lanes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: Switch that joins the leaves.
    top: str = ""

    @property
    def n_parts(self) -> int:
        """Number of equal parts into which the bytes are divided."""
        return len(next(iter(self.lanes.values()))) if self.lanes else 1


Line = tuple[int, ...]  # ranks, or NPUs, that run a collective together


@dataclass(frozen=True)
class InterconnectPlan:
    """``places`` are the NPUs of the ranks.

    Lines that run at once are a set; of each set, ``rounds`` are the lines that pass the switches
    at once, with the switches that reduce for them, by their NPUs: the rounds of a set take turns.
    Lines in ``decomposed`` go around rings, as messages from NPU to NPU.
    """

    places: Sequence[int]
    rounds: tuple[tuple[Mapping[frozenset[int], ReductionTree], ...], ...]
    decomposed: frozenset[frozenset[int]] = frozenset()

    @property
    def n_rounds(self) -> int:
        """Largest number of rounds of a set."""
        return max(map(len, self.rounds), default=1)

    @property
    def n_serialised(self) -> int:
        """Number of lines that wait for other lines of their set."""
        return sum(len(later) for rounds in self.rounds for later in rounds[1:])

    @property
    def n_moved(self) -> int:
        """Number of ranks that are not on the NPU of their number."""
        return sum(rank != npu for rank, npu in enumerate(self.places))


def map_lines(lines: Sequence[Line], places: Sequence[int]) -> list[Line]:
    """Return the NPUs of each line of ranks, sorted."""
    return sorted(tuple(places[rank] for rank in line) for line in lines)


class Interconnect(ABC):
    """NPUs and I/O controllers on one fabric.

    Ranks are placed in the order of the NPUs unless :meth:`plan` places them differently; NPUs
    without a rank are idle.  ``noun`` is its name in messages, and its key in a configuration.
    ``io`` is the line rate of a controller (bytes/s), ``latency`` the latency of a link (ps).  Each
    controller transfers its part of the bytes in ``pieces``, at least four of them at a time.  With
    ``multicasts``, bytes that the members of a group load are sent to their NPUs only; else they
    are broadcast to all NPUs.  With ``preempts``, a message in flight on a link is suspended for
    a more urgent one.
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

        Members of an inner ring, members of an outer ring, and whether half of the bytes goes the
        other way round.
        """

    @property
    @abstractmethod
    def routing(self) -> Routing:
        """Default routing of messages."""

    @abstractmethod
    def io_routes(self, npus: Sequence[int]) -> Sequence[Sequence[Sequence[Route]]]:
        """Return, for each I/O controller, the alternatives that its pieces take in turn.

        An alternative is a route to each of ``npus``, in their order.  Routes with a common
        beginning may share it.
        """

    def io_trees(self, npus: Sequence[int]) -> Sequence[Sequence[IoTree]]:
        """Return the trees of :meth:`io_routes`."""
        network = self.network
        return [[load_tree(network, routes) for routes in ways] for ways in self.io_routes(npus)]

    @cached_property
    def streams(self) -> Sequence[Load]:
        """Load of each I/O controller on the links when it broadcasts to all NPUs."""
        trees = self.io_trees(range(self.n_npus))
        return [compute_link_load(self.network, ways) for ways in trees]

    @abstractmethod
    def trees(self, lines: Sequence[tuple[int, ...]]) -> Mapping[frozenset[int], ReductionTree]:
        """Return the reducing switches of each of ``lines`` of NPUs, by its members.

        The lines run their collectives at once.  Empty on a fabric that does not reduce.
        Raises :class:`DimsweepError` for lines that it cannot route.
        """

    def places(self, sizes: Sequence[int]) -> Sequence[int]:
        """Return the NPU of each rank; ranks form nested groups of ``sizes``, innermost first."""
        return range(math.prod(sizes))

    def plan(self, sets: Sequence[Sequence[Line]], sizes: Sequence[int]) -> InterconnectPlan:
        """Return the :meth:`places` of the ranks and the :meth:`trees` of each set of lines.

        The lines of one of ``sets`` run their collectives at once.
        """
        places = self.places(sizes)
        return InterconnectPlan(
            places, tuple((self.trees(map_lines(lines, places)),) for lines in sets)
        )

    @abstractmethod
    def bisection(self) -> float:
        """Return the bytes/s, one way, over the narrowest cut into (nearly) equal halves."""

    @cached_property
    @abstractmethod
    def network(self) -> Network:
        """Graph of the interconnect's links."""

    @cached_property
    def io_share(self) -> float:
        """Share of their line rate at which all I/O controllers can broadcast at once."""
        return compute_line_share(self.network, self.streams, self.io)

    @property
    def stream_bandwidth(self) -> float:
        """Bytes/s at which every NPU receives the broadcasts of all I/O controllers."""
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
