"""Groups whose surroundings are alike: told apart by numbers that depend on nothing else.

Ranks are numbered in their order, all other devices by what they are joined to, and so on until no
more can be told apart (the refinement of colours); of those that are still alike one is taken
first, and the rest told apart by it.  Two groups that get the same numbered links are joined in the
same way, which the links themselves prove; where that is not found, two are merely looked at.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dimsweep.engine.network.graph import Link
from dimsweep.engine.topology.block import Node

Joined = tuple[
    tuple[int, int, float], ...
]  # devices by number, and the bandwidth from one to another


class Likeness(NamedTuple):
    """``joined``: links between numbered devices, of which the first are the ranks; ``links``: the
    number of each in its network."""

    joined: Joined
    links: tuple[int, ...]


def likeness_of(links: Mapping[int, Link], ranks: Sequence[int]) -> Likeness:
    """What some links between ``ranks`` and other devices look like."""
    number = _numbered(links, ranks)
    rows = sorted((number[x.source], number[x.target], x.bandwidth, i) for i, x in links.items())
    return Likeness(tuple(row[:3] for row in rows), tuple(row[3] for row in rows))


def _numbered(links: Mapping[int, Link], ranks: Sequence[int]) -> dict[Node, int]:
    around: defaultdict[Node, list[tuple[Node, float, int]]] = defaultdict(list)
    for link in links.values():
        around[link.source].append((link.target, link.bandwidth, 0))
        around[link.target].append((link.source, link.bandwidth, 1))
    number: dict[Node, int] = {rank: i for i, rank in enumerate(ranks)}
    others = [node for node in around if node not in number]
    number |= dict.fromkeys(others, len(ranks))
    while True:
        n_before = len({number[node] for node in others})
        looks = {
            node: (number[node], sorted((number[a], b, way) for a, b, way in around[node]))
            for node in others
        }
        alike: dict[str, list[Node]] = {}
        for node in sorted(others, key=looks.__getitem__):
            alike.setdefault(repr(looks[node]), []).append(node)
        for i, nodes in enumerate(alike.values(), len(ranks)):
            number |= dict.fromkeys(nodes, i)
        if len(alike) > n_before:
            continue
        several = next((nodes for nodes in alike.values() if len(nodes) > 1), None)
        if several is None:
            return number
        # Doubled, so that there is a number between it and the next.
        number |= {node: 2 * number[node] for node in others}
        number[several[0]] -= 1
