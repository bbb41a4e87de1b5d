"""Which of its links a group can use: the physics of partial groups in a dimension."""

from __future__ import annotations

from dataclasses import dataclass

from engine.cluster.cluster import SubgroupBandwidth
from engine.cluster.topology import Block


@dataclass(frozen=True)
class LinkUse:
    """What ``p`` of ``n`` NPUs get: ``share`` of an NPU's bandwidth, ``hops`` to the neighbour.

    ``wrap_hops`` is the way from the last member back to the first; it differs from ``hops`` on a
    line (part of a ring), where no link closes the circle.  ``sharers`` groups take turns on every
    link, so that a step's bytes come in as many messages.
    """

    share: float
    hops: int
    wrap_hops: int
    sharers: int = 1


def link_use(block: Block, n: int, p: int, stride: int, policy: SubgroupBandwidth) -> LinkUse:
    """The links of a group of ``p`` members, ``stride`` apart, in a block of ``n``.

    FullyConnected: p - 1 of the NPU's n - 1 links.  Ring: ``stride`` interleaved groups share every
    link; unless the group closes the ring it is a line, which has one of the two directions for
    its one logical direction.  Switch: the NPU's port, two hops, whatever the group.
    """
    if block is Block.SWITCH:
        return LinkUse(1.0, 2, 2)
    if policy is SubgroupBandwidth.FULL:
        return LinkUse(1.0, 1, 1)
    if block is Block.FULLY_CONNECTED:
        return LinkUse((p - 1) / (n - 1), 1, 1)
    if p * stride == n:
        return LinkUse(1 / stride, stride, stride, stride)
    return LinkUse(1 / (2 * stride), stride, (p - 1) * stride, stride)


def point_to_point(
    block: Block, n: int, offset: int, policy: SubgroupBandwidth
) -> tuple[float, int]:
    """Share of the NPU's bandwidth and hops for a message ``offset`` coordinates further on."""
    if block is Block.SWITCH:
        return 1.0, 2
    hops = min(offset, n - offset) if block is Block.RING else 1
    if policy is SubgroupBandwidth.FULL:
        return 1.0, hops
    # Both links of an NPU on a ring of two lead to the same neighbour.
    links = min(2, n - 1) if block is Block.RING else n - 1
    return 1 / links, hops
