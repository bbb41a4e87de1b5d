"""What became of the messages that a carrier took."""

from collections import Counter
from typing import NamedTuple

from dimsweep.engine.kernels.packet import History, PacketRun
from dimsweep.engine.lower.program import Longs


class Traffic(NamedTuple):
    """Messages as they were sent, each of an operator, from their start to their last byte's
    arrival (ps); and the ``packets`` that carried them, if any did: a flow a message, a port a link
    of the network."""

    operators: tuple[str, ...]
    starts: Longs
    arrivals: Longs
    packets: PacketRun | None = None

    @property
    def completion_times(self) -> Longs:
        """Picoseconds that each message took."""
        return self.arrivals - self.starts

    @property
    def histories(self) -> dict[int, History]:
        """What the links did that were watched, by their number."""
        if self.packets is None:
            return {}
        link = _links(self.packets)
        return {link[port]: history for port, history in self.packets.histories.items()}

    @property
    def roots(self) -> dict[int, Counter[int]]:
        """For each link that was told to pause, by its number: how often by a tree of pauses that
        begins at which link."""
        found: dict[int, Counter[int]] = {}
        if self.packets is not None:
            link = _links(self.packets)
            for pausing in self.packets.pausings:
                found.setdefault(link[pausing.port], Counter())[link[pausing.root]] += 1
        return found


def _links(packets: PacketRun) -> dict[tuple[int, int], int]:
    return {(port.node, port.to): i for i, port in enumerate(packets.ports)}
