"""A switch: every NPU has one port to one ideal switch."""

from collections.abc import Iterator

from dimsweep.engine.topology.block import Block, LinkUse, Pair, Senders, Way


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
