"""What goes through the I/O controllers at a wafer's edge: trees of links, down them or up.

A controller sends a piece to a few NPUs at once over a tree: where its branches part, the device
there copies it.  The same tree, turned round, takes what NPUs store: where branches meet, the
device there sums it up.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from dimsweep.engine.network.graph import Network
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


def load_of(network: Network, ways: Sequence[IoTree]) -> Load:
    """What a controller's pieces, which take several ways in turn, are on each link."""
    loads: Counter[tuple[Node, Node]] = Counter()
    for tree in ways:
        for hop in tree.hops:
            link = network.links[hop.link]
            loads[link.source, link.target] += 1 / len(ways)  # type: ignore[assignment]
    return loads


def heaviest(loads: Sequence[Load]) -> float:
    """How many controllers' bytes cross the busiest link between NPUs or switches."""
    return max(_sum(loads).values())


def line_share(network: Network, loads: Sequence[Load], rate: float) -> float:
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
