"""The building blocks of network dimensions, and the registry that shapes name them by."""

from collections.abc import Iterator
from itertools import permutations

import numpy as np

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.registry import Registry
from dimsweep.engine.topology.block import (
    Block,
    LinkUse,
    Pair,
    Senders,
    Way,
)
from dimsweep.engine.topology.grid import Grid, Mesh2D, Torus2D


class Ring(Block):
    """Two links of half an NPU's bandwidth; on a ring of two NPUs one link of all of it."""

    name = "Ring"
    algorithms = ("ring",)
    all_to_all = "relay"
    hops = 1
    side_by_side = False
    parts = ()

    def use(self, n: int, p: int, stride: int) -> LinkUse:
        """``stride`` interleaved groups share every link; unless the group closes the ring it is a
        line, which has one of the two directions for its one logical direction."""
        if p * stride == n:
            return LinkUse(1 / stride, stride, stride, stride)
        return LinkUse(1 / (2 * stride), stride, (p - 1) * stride, stride)

    def way(self, n: int, offset: int) -> Way:
        """The shorter way round, on one of the links."""
        return Way(1 / self.links(n), min(offset, n - offset))

    def entrance(self, n: int, offset: int, senders: Senders) -> int:
        """From below, where both ways are as short, too."""
        return int(offset > n - offset)

    def crowd(self, n: int, offset: int, senders: Senders) -> int:
        """Messages cross the links of those between their ends."""
        hops = min(offset, n - offset)  # those that pass an NPU are ``hops`` neighbours'
        return int(np.sum([np.roll(senders, k, axis=1) for k in range(hops)], axis=0).max())

    def circles(self, n: int, p: int, stride: int) -> bool:
        """A group that goes all round; two NPUs are joined by one link."""
        return p * stride == n > 2

    def links(self, n: int) -> int:
        return min(2, n - 1)

    def wire(self, npus: range, place: str) -> Iterator[Pair]:
        """Each NPU to its next and its previous; of two NPUs those are the same, and one link."""
        for i, npu in enumerate(npus):
            yield npu, npus[(i + 1) % len(npus)]
            if len(npus) > 2:
                yield npu, npus[i - 1]

    def cut(self, n: int) -> float:
        """Two links of b/2, or one of b on a ring of two."""
        return 1.0


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


class Switch(Block):
    """One link of an NPU's whole bandwidth, and two hops to any other NPU."""

    name = "Switch"
    algorithms = (
        "halving_doubling",
        "direct",
        "ring",
        "in_switch",
        "double_binary_tree",
        "rabenseifner",
    )
    all_to_all = "direct"
    hops = 2
    side_by_side = False
    symmetric = True
    parts = ("switch", "nic")

    def use(self, n: int, p: int, stride: int) -> LinkUse:
        """The NPU's port, whatever the group."""
        return LinkUse(1.0, 2, 2)

    def way(self, n: int, offset: int) -> Way:
        return Way(1.0, 2)

    def entrance(self, n: int, offset: int, senders: Senders) -> int:
        """The one link from the switch."""
        return 0

    def circles(self, n: int, p: int, stride: int) -> bool:
        return False

    def links(self, n: int) -> int:
        return 1

    def wire(self, npus: range, place: str) -> Iterator[Pair]:
        switch = f"switch {place}"
        for npu in npus:
            yield npu, switch
            yield switch, npu

    def cut(self, n: int) -> float:
        """What the ports of the smaller half carry."""
        return float(n // 2)


BLOCKS: Registry[Block] = Registry("block")  # by the name in shapes
# Those of two sides, ``Mesh2D(5,4)``; a grid of every size is a block of its own.
GRIDS: dict[str, type[Grid]] = {grid.name: grid for grid in (Mesh2D, Torus2D)}


def register(*blocks: Block) -> None:
    """Let shapes such as ``Ring(4)`` name the blocks.

    Raises :class:`DimsweepError` for a name that another block has, whatever its case.
    """
    for block in blocks:
        taken = {name.lower(): other for name, other in BLOCKS.items()}.get(block.name.lower())
        if taken is not None and taken != block:
            raise DimsweepError(
                f"two blocks are called {block.name}: {type(taken).__qualname__} and "
                f"{type(block).__qualname__}",
                where="blocks",
            )
        BLOCKS[block.name] = block


register(Ring(), FullyConnected(), Switch())
