"""Trees of one level: every root sends to each of the others itself, where switches have room.

On a switch, or a network of them that is not oversubscribed, no trees are faster, and none has
fewer levels.  Whether that is so is tried: each unit takes the shortest way with the most room.
"""

from collections.abc import Iterator, Mapping
from itertools import islice, pairwise

from dimsweep.engine.network.forest.wires import Bundle, Way, Wires

_WAYS = 16  # of two NPUs, that are tried
_Before = dict[int, list[int]]  # the devices before each one on shortest ways


def direct_ways(wires: Wires, ranks: tuple[int, ...], k: int) -> dict[tuple[int, int], Bundle]:
    """How ``k`` units get from each rank to each other one, without passing by a third; nothing if
    they do not find room."""
    room = {(a, b): n for a, b, n in wires.items()}
    found: dict[tuple[int, int], Bundle] = {}
    for place, source in enumerate(ranks):
        before = _shortest(wires, source, set(ranks))
        for target in (*ranks[place + 1 :], *ranks[:place]):
            ways = list(islice(_ways(before, source, target), _WAYS))
            bundle = _fill(ways, room, k)
            if not bundle:
                return {}
            found[source, target] = {_links(way, wires): n for way, n in bundle.items()}
    return found


def _shortest(wires: Wires, source: int, ranks: set[int]) -> _Before:
    """Of all that is reached from a rank by other devices only, in the fewest hops."""
    before: _Before = {source: []}
    layer = [source]
    while layer:
        following: _Before = {}
        for a in layer:
            if a == source or a not in ranks:
                for b in wires.out[a]:
                    if b not in before:
                        following.setdefault(b, []).append(a)
        before |= following
        layer = list(following)
    return before


def _ways(before: Mapping[int, list[int]], source: int, target: int) -> Iterator[tuple[int, ...]]:
    """The devices on each shortest way."""
    if target == source:
        yield (source,)
    for device in before.get(target, ()):
        yield from ((*way, target) for way in _ways(before, source, device))


def _fill(ways: list[tuple[int, ...]], room: dict[tuple[int, int], int], k: int) -> Bundle:
    """``k`` units on some ways, in equal parts as far as that goes; nothing if they do not fit."""
    bundle: Bundle = {}
    while k and ways:
        least = {way: min(room[pair] for pair in _pairs(way)) for way in ways}
        best = max(ways, key=least.__getitem__)
        n = min(max(1, k // len(ways)), least[best])
        if not n:
            return {}
        for pair in _pairs(best):
            room[pair] -= n
        bundle[best] = bundle.get(best, 0) + n
        k -= n
    return bundle


def _pairs(way: tuple[int, ...]) -> list[tuple[int, int]]:
    return list(pairwise(way))


def _links(way: tuple[int, ...], wires: Wires) -> Way:
    """The links of a way over devices, each pair of which one link joins."""
    return tuple(link for a, b in _pairs(way) for (link,) in wires.ways(a, b))
