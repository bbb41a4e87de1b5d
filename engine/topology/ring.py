"""A ring: every NPU is joined to the next one and the previous one."""

from collections.abc import Iterator

import numpy as np

from dimsweep.engine.topology.block import Block, LinkUse, Pair, Senders, Way


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
