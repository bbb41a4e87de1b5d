"""A full mesh: every NPU is joined to every other one."""

from collections.abc import Iterator
from itertools import permutations

from dimsweep.engine.topology.block import Block, LinkUse, Pair, Way


class FullyConnected(Block):
    """n - 1 links of equal shares of an NPU's bandwidth."""

    name = "FullyConnected"
    algorithms = ("direct",)
    all_to_all = "direct"
    hops = 1
    side_by_side = True
    symmetric = True
    parts = ()

    def use(self, n: int, p: int, stride: int) -> LinkUse:
        """The links to the group's other members."""
        return LinkUse((p - 1) / (n - 1), 1, 1)

    def way(self, n: int, offset: int) -> Way:
        return Way(1 / (n - 1), 1)

    def circles(self, n: int, p: int, stride: int) -> bool:
        return False

    def links(self, n: int) -> int:
        return n - 1

    def wire(self, npus: range, place: str) -> Iterator[Pair]:
        return permutations(npus, 2)

    def cut(self, n: int) -> float:
        """floor(n/2) * ceil(n/2) links of b/(n-1)."""
        return (n // 2) * (n - n // 2) / (n - 1)
