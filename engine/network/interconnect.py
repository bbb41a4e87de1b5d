"""Interconnects: networks that plan where ranks are and how collectives run on them.

An interconnect reduces in its switches or tells which rings an all-reduce goes around.  Its I/O
controllers send a piece to a few NPUs at once over a tree: where its branches part, the device
there copies it.  The same tree, turned round, takes what NPUs store: where branches meet, the
device there sums it up.
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

    ``next`` are the hops that go on from its end, by their places in the tree; each begins when the
    ``awaits`` hops that lead to it have begun to come, or have come altogether if they are
    ``stored`` at their end.  ``gets`` is the place of the NPU (or 0, the controller) that its bytes
    are for, or NOBODY, if they only pass.
    """

    link: int
    next: tuple[int, ...]
    awaits: int
    stored: bool
    gets: int


class IoTree(NamedTuple):
    """The way of a piece; ``first`` are the hops that begin it."""

    hops: tuple[Hop, ...]
    first: tuple[int, ...]


def load_tree(network: Network, routes: Sequence[Route]) -> IoTree:
    """The tree of the ``routes`` from a controller to each of some NPUs; routes that begin alike
    are one as long as they do."""
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
        Hop(links[i], tuple(on), 1, _stored(network, links[i], [links[j] for j in on]), who)
        for i, on, who in ((i, on, gets.get(i, NOBODY)) for i, on in enumerate(below))
    )
    return IoTree(tuple(hops), (0,))


def store_tree(network: Network, load: IoTree) -> IoTree:
    """A tree turned round: every NPU that gets something gives something."""
    above = {on: i for i, hop in enumerate(load.hops) for on in hop.next}
    back = [network.links[hop.link] for hop in load.hops]
    links = [network.number[link.target, link.source] for link in back]
    hops = []
    for i, hop in enumerate(load.hops):
        on = (above[i],) if i in above else ()
        stored = _stored(network, links[i], [links[j] for j in on])
        hops.append(Hop(links[i], on, len(hop.next), stored, NOBODY if on else 0))
    return IoTree(tuple(hops), tuple(i for i, hop in enumerate(load.hops) if not hop.next))


def _stored(network: Network, link: int, following: Iterable[int]) -> bool:
    """Whether what comes over a link waits at its end till all of it is there, so that no faster
    link stands idle while it comes."""
    bandwidth = network.links[link].bandwidth
    return any(network.links[on].bandwidth > bandwidth for on in following)


def compute_link_load(network: Network, ways: Sequence[IoTree]) -> Load:
    """What a controller's pieces, which take several ways in turn, are on each link."""
    loads: Counter[tuple[Node, Node]] = Counter()
    for tree in ways:
        for hop in tree.hops:
            link = network.links[hop.link]
            loads[link.source, link.target] += 1 / len(ways)  # type: ignore[assignment]
    return loads


def compute_busiest_load(loads: Sequence[Load]) -> float:
    """How many controllers' bytes cross the busiest link between NPUs or switches."""
    return max(_sum(loads).values())


def compute_line_share(network: Network, loads: Sequence[Load], rate: float) -> float:
    """The share of ``rate`` (bytes/s) that all controllers can have at once: that of the link with
    the least room for what crosses it."""
    room = 1.0
    for ends, load in _sum(loads).items():
        room = min(room, network.links[network.number[ends]].bandwidth / (load * rate))
    return room


def _sum(loads: Sequence[Load]) -> Counter[tuple[Node, Node]]:
    total: Counter[tuple[Node, Node]] = Counter()
    for load in loads:
        total.update(load)
    return total


@dataclass(frozen=True)
class ReductionTree:
    """``leaves``: the switch below which each member lies, and the members there.  If there are
    several, ``lanes`` are the links of each leaf to the ``top`` that joins them, as nodes; each
    takes an equal part of the bytes, and lanes at one place are for the same part."""

    leaves: Mapping[str, tuple[int, ...]]
    lanes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    top: str = ""

    @property
    def n_parts(self) -> int:
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
        """The most rounds of any set."""
        return max(map(len, self.rounds), default=1)

    @property
    def n_serialised(self) -> int:
        """How many lines wait for others of their set."""
        return sum(len(later) for rounds in self.rounds for later in rounds[1:])

    @property
    def n_moved(self) -> int:
        """How many ranks are not at the NPU of their number."""
        return sum(rank != npu for rank, npu in enumerate(self.places))


def map_lines(lines: Sequence[Line], places: Sequence[int]) -> list[Line]:
    """The NPUs of lines of ranks."""
    return sorted(tuple(places[rank] for rank in line) for line in lines)


class Interconnect(ABC):
    """NPUs and I/O controllers on one fabric.

    Ranks are placed in the order of the NPUs unless :meth:`plan` says otherwise; NPUs beyond them
    are idle.  ``noun`` is what messages call it, and its key in a configuration.  ``io`` is the
    line rate of a controller (bytes/s) and ``latency`` that of a link (ps).  A controller sends, or
    takes, its part of what goes through all of them in so many ``pieces``, at least four of them at
    a time.  ``multicasts`` says whether what the members of a group load alike goes to their NPUs
    only, or is broadcast to all of the interconnect.  ``preempts`` says whether a message that is
    under way on a link is suspended there for one that goes before it.
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
        """How many NPUs there are."""

    @property
    @abstractmethod
    def rings(self) -> tuple[int, int, bool] | None:
        """The two-level rings of an all-reduce among all NPUs: members of an inner ring, of an
        outer one, and whether half of the bytes goes the other way about; ``None`` where switches
        reduce."""

    @property
    @abstractmethod
    def routing(self) -> Routing:
        """How messages find their way where nothing else is said."""

    @abstractmethod
    def io_routes(self, npus: Sequence[int]) -> Sequence[Sequence[Sequence[Route]]]:
        """Of each I/O controller, the ways that its pieces take in turn: the routes of each to the
        ``npus``, in their order.  Routes may be one as long as they begin alike."""

    def io_trees(self, npus: Sequence[int]) -> Sequence[Sequence[IoTree]]:
        """Of each I/O controller, the trees of those ways."""
        network = self.network
        return [[load_tree(network, routes) for routes in ways] for ways in self.io_routes(npus)]

    @cached_property
    def streams(self) -> Sequence[Load]:
        """What each I/O controller puts on the links when it broadcasts to all NPUs."""
        trees = self.io_trees(range(self.n_npus))
        return [compute_link_load(self.network, ways) for ways in trees]

    @abstractmethod
    def trees(self, lines: Sequence[tuple[int, ...]]) -> Mapping[frozenset[int], ReductionTree]:
        """By its members, the switches that reduce for each of the ``lines`` of NPUs, which run
        their collectives at once; none on a fabric that does not reduce.

        Raises :class:`DimsweepError` for lines that it cannot route.
        """

    def places(self, sizes: Sequence[int]) -> Sequence[int]:
        """The NPU of each rank, where ranks form groups of ``sizes[0]``, and these groups again."""
        return range(math.prod(sizes))

    def plan(self, sets: Sequence[Sequence[Line]], sizes: Sequence[int]) -> InterconnectPlan:
        """Where ranks are (see :meth:`places`), and the :meth:`trees` of each of ``sets`` of lines
        of ranks, which run their collectives at once."""
        places = self.places(sizes)
        return InterconnectPlan(
            places, tuple((self.trees(map_lines(lines, places)),) for lines in sets)
        )

    @abstractmethod
    def bisection(self) -> float:
        """Bytes/s, one way, over the narrowest cut into halves (as equal as can be)."""

    @cached_property
    @abstractmethod
    def network(self) -> Network:
        """Its links."""

    @cached_property
    def io_share(self) -> float:
        """The share of their line rate at which all I/O controllers can broadcast at once."""
        return compute_line_share(self.network, self.streams, self.io)

    @property
    def stream_bandwidth(self) -> float:
        """Bytes/s at which every NPU sees the broadcasts of all I/O controllers come."""
        return len(self.streams) * self.io * self.io_share

    def check_ranks(self, n_ranks: int) -> None:
        """Raise :class:`DimsweepError` unless the interconnect has room for so many ranks."""
        if n_ranks > self.n_npus:
            raise DimsweepError(
                f"{n_ranks} NPUs do not fit a {self.noun} of {self.n_npus}",
                where="topology.shape",
                hint=f"{self.n_npus} or fewer; those beyond are idle",
            )
