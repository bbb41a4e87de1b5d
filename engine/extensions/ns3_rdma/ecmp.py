"""Which way a flow takes: every switch hashes its addresses and ports."""

from collections import defaultdict, deque
from collections.abc import Iterable

_WORD = 0xFFFFFFFF


class Ways:
    """The shortest ways between the hosts of a topology; a host forwards nothing."""

    def __init__(self, links: Iterable[tuple[int, int]], switches: Iterable[int]) -> None:
        self._switches = frozenset(switches)
        self._beside: dict[int, list[int]] = defaultdict(list)
        for a, b in links:
            self._beside[a].append(b)
            self._beside[b].append(a)
        self._distances: dict[int, dict[int, int]] = {}
        self._hops: dict[tuple[int, int], tuple[int, ...]] = {}

    def way(self, source: int, target: int, source_port: int, target_port: int) -> tuple[int, ...]:
        """The nodes from host ``source`` to host ``target``, both included."""
        key = mixed(address(source), address(target), source_port | target_port << 16)
        way = [source]
        while way[-1] != target:
            hops = self._next(way[-1], target)
            way.append(hops[0] if len(hops) == 1 else hops[murmur3(key, way[-1]) % len(hops)])
        return tuple(way)

    def _next(self, node: int, target: int) -> tuple[int, ...]:
        """The nodes one hop nearer to ``target``, from the highest number down."""
        if (node, target) not in self._hops:
            left = self._to(target)
            nearer = [n for n in self._beside[node] if left.get(n, -1) == left[node] - 1]
            self._hops[node, target] = tuple(sorted(nearer, reverse=True))
        return self._hops[node, target]

    def _to(self, target: int) -> dict[int, int]:
        """Hops from each node to ``target`` through switches only."""
        if target not in self._distances:
            found, queue = {target: 0}, deque([target])
            while queue:
                node = queue.popleft()
                for other in self._beside[node]:
                    if other not in found:
                        found[other] = found[node] + 1
                        if other in self._switches:
                            queue.append(other)
            self._distances[target] = found
        return self._distances[target]


def address(node: int) -> int:
    """The IPv4 address of a node: 11.0.0.1, with the node's number in the second and third byte."""
    return 0x0B000001 + (node // 256 << 16) + (node % 256 << 8)


def mixed(*words: int) -> tuple[int, ...]:
    """32-bit words as MurmurHash3 mixes them, whatever its seed."""
    return tuple(_rotated(k * 0xCC9E2D51 & _WORD, 15) * 0x1B873593 & _WORD for k in words)


def murmur3(key: tuple[int, ...], seed: int) -> int:
    """MurmurHash3_x86_32 (Appleby) of a key of ``mixed`` words."""
    h = seed
    for k in key:
        h = _rotated(h ^ k, 13) * 5 + 0xE6546B64 & _WORD
    h ^= 4 * len(key)
    h = (h ^ h >> 16) * 0x85EBCA6B & _WORD
    h = (h ^ h >> 13) * 0xC2B2AE35 & _WORD
    return h ^ h >> 16


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & _WORD
