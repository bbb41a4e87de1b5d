"""What NPUs can send to one another at once: links, joined to ways through devices without data."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

import numpy as np

from dimsweep.engine.network.cuts import Capacities

Way = tuple[int, ...]  # links by number
Bundle = dict[Way, int]  # how much of the capacity between two devices goes which way
Pair = tuple[int, int]


class Wires:
    """Capacities between devices, in units; each by the ways of links that it consists of."""

    def __init__(self, bundles: dict[Pair, Bundle]) -> None:
        self._bundles = bundles
        self.into: defaultdict[int, dict[int, int]] = defaultdict(dict)
        self.out: defaultdict[int, dict[int, int]] = defaultdict(dict)
        for (a, b), bundle in bundles.items():
            self.out[a][b] = self.into[b][a] = sum(bundle.values())

    @classmethod
    def of(cls, capacities: Capacities, times: int, over: int) -> "Wires":
        """The links by themselves, their capacities ``times / over`` as they are, rounded down."""
        ends = zip(capacities.tail.tolist(), capacities.head.tolist(), strict=True)
        units = [c * times // over for c in capacities.capacity]
        told = zip(ends, capacities.link, units, strict=True)
        return cls({pair: {(link,): n} for pair, link, n in told if n})

    def between(self, a: int, b: int) -> int:
        """What ``a`` can send to ``b``."""
        return self.out[a].get(b, 0)

    def ways(self, a: int, b: int) -> Bundle:
        """By which ways."""
        return self._bundles.get((a, b), {})

    def items(self) -> Iterator[tuple[int, int, int]]:
        """All pairs of devices with what one can send to the other."""
        for a, targets in self.out.items():
            for b, n in targets.items():
                yield a, b, n

    def joins(self, ranks: Collection[int]) -> bool:
        """Whether each of the ranks reaches all others."""
        first = next(iter(ranks))
        return all(set(ranks) <= _reached(first, ways) for ways in (self.out, self.into))

    def times(self, factor: int) -> "Wires":
        """As many times the capacities."""
        told = self._bundles.items()
        return Wires({pair: {way: n * factor for way, n in own.items()} for pair, own in told})

    def copy(self) -> "Wires":
        return Wires({pair: dict(bundle) for pair, bundle in self._bundles.items()})

    def take(self, a: int, b: int, n: int) -> Bundle:
        """Take ``n`` units out, of the shortest ways first."""
        bundle, taken = self._bundles[a, b], Bundle()
        for way in sorted(bundle, key=lambda way: (len(way), way)):
            part = min(n, bundle[way])
            if part:
                taken[way], n = part, n - part
                bundle[way] -= part
                if not bundle[way]:
                    del bundle[way]
        self._count(a, b)
        return taken

    def put(self, a: int, b: int, bundle: Bundle) -> None:
        """Add what can be sent."""
        own = self._bundles.setdefault((a, b), {})
        for way, n in bundle.items():
            own[way] = own.get(way, 0) + n
        self._count(a, b)

    def _count(self, a: int, b: int) -> None:
        n = sum(self._bundles[a, b].values())
        if n:
            self.out[a][b] = self.into[b][a] = n
        else:
            del self._bundles[a, b], self.out[a][b], self.into[b][a]

    def join(self, a: int, device: int, b: int, n: int) -> None:
        """Let ``n`` units from ``a`` through a device to ``b`` be units from ``a`` to ``b``; back
        to ``a`` itself they are of no use."""
        first, second = self.take(a, device, n), self.take(device, b, n)
        if a == b:
            return
        joined, after = Bundle(), list(second.items())
        for way, n_first in first.items():
            while n_first:
                on, left = after.pop()
                part = min(n_first, left)
                joined[way + on] = joined.get(way + on, 0) + part
                n_first -= part
                if left > part:
                    after.append((on, left - part))
        self.put(a, b, joined)

    def drop(self, device: int) -> None:
        """Take a device out, with all that goes through it."""
        for a, n in list(self.into[device].items()):
            self.take(a, device, n)
        for b, n in list(self.out[device].items()):
            self.take(device, b, n)

    def capacities(self, like: Capacities) -> Capacities:
        """As capacities of the same devices, each pair of devices one link."""
        rows = list(self.items())
        tail, head, capacity = zip(*rows, strict=True) if rows else ((), (), ())
        return replace(
            like,
            tail=np.array(tail, np.int64),
            head=np.array(head, np.int64),
            capacity=tuple(capacity),
            link=(),
        )


def _reached(first: int, ways: Mapping[int, Mapping[int, int]]) -> set[int]:
    """All devices that ways from the first one lead to."""
    reached, open_ = {first}, [first]
    while open_:
        new = set(ways.get(open_.pop(), ())) - reached
        reached |= new
        open_ += new
    return reached
