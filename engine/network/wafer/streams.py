"""What I/O controllers broadcast, and how much of it the fabric can carry."""

from collections import Counter
from collections.abc import Mapping, Sequence

from engine.cluster.blocks.block import Node
from engine.network.graph import Network

Stream = Mapping[tuple[Node, Node], float]  # of each link, the share of the stream that crosses it


def heaviest(streams: Sequence[Stream]) -> float:
    """How many streams cross the busiest link between NPUs or switches."""
    return max(_loads(streams).values())


def line_share(network: Network, streams: Sequence[Stream], rate: float) -> float:
    """The share of ``rate`` (bytes/s) that all streams can have at once: that of the link with the
    least room for what crosses it."""
    room = 1.0
    for ends, load in _loads(streams).items():
        room = min(room, network.links[network.number[ends]].bandwidth / (load * rate))
    return room


def _loads(streams: Sequence[Stream]) -> Counter[tuple[Node, Node]]:
    loads: Counter[tuple[Node, Node]] = Counter()
    for stream in streams:
        loads.update(stream)
    return loads
