"""Carriers: networks that take whole messages and say when each is through.

They are all that whoever runs collectives knows of the flow and the packet kernel: a message of so
many bytes starts now on a route, and at some time it is through.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from itertools import cycle, islice
from typing import NamedTuple

import numpy as np

from dimsweep.engine.kernels.flow import FlowNetwork
from dimsweep.engine.kernels.packet import Completed, History, PacketNetwork, PacketRun, Stop
from dimsweep.engine.lower.program import Floats, Longs
from dimsweep.engine.network.routing import Router


class Ways(NamedTuple):
    """The links (by their number) that a message may take, and those that its ACKs take back."""

    out: tuple[tuple[int, ...], ...]
    back: tuple[tuple[int, ...], ...]


class Kind(NamedTuple):
    """What a message is but for its size; those of a lower ``precedence`` go first where a carrier
    has priorities (:mod:`engine.kernels.messages.precedence`)."""

    ways: Ways
    precedence: int = 0


def ways_between(router: Router, source: int, target: int, way: int) -> Ways:
    """One way between two NPUs and back, or all that are as short, and back by one card of the
    target's; ``way`` as in :meth:`Router.route`."""
    if way < 0 or not router.sprays:
        return Ways((router.route(source, target, way),), (router.route(target, source, way),))
    out, ways_back = router.routes(source, target), router.routes(target, source)
    back = (links for links in ways_back if links[0] == ways_back[0][0])
    return Ways(out, tuple(islice(cycle(back), len(out))))


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


class Carrier(ABC):
    """A network under way, whose messages are moved by ``kernel``; times are ps.

    Rates, and what waits at a port, depend on all that starts at an instant, so the messages of an
    instant are added to the kernel together.
    """

    def __init__(self, kernel: FlowNetwork | PacketNetwork) -> None:
        self.kernel = kernel
        self._known: dict[Kind, int] = {}
        self._kinds: list[Kind] = []  # of messages that have not started yet,
        self._sizes: list[float] = []  # and their bytes
        self._now = self._n_sent = 0

    @abstractmethod
    def traffic(self, operators: Sequence[str]) -> Traffic:
        """What became of the messages, of which each belongs to an operator."""

    @abstractmethod
    def start(self, kinds: Longs, n_bytes: Floats, now: int) -> None:
        """Start messages of kinds by their numbers."""

    @abstractmethod
    def _learn(self, kinds: Sequence[Kind]) -> None:
        """Prepare kinds of messages, which are numbered as they come."""

    def numbers(self, kinds: Sequence[Kind]) -> list[int]:
        """A number for each kind of message."""
        new = list(dict.fromkeys(kind for kind in kinds if kind not in self._known))
        if new:
            self._learn(new)
            self._known |= {kind: len(self._known) + i for i, kind in enumerate(new)}
        return [self._known[kind] for kind in kinds]

    def send(self, kind: Kind, n_bytes: float, now: int) -> int:
        """Start a message at ``now``, which is not past; its number, counted from zero."""
        self._kinds.append(kind)
        self._sizes.append(n_bytes)
        self._now, self._n_sent = now, self._n_sent + 1
        return self._n_sent - 1

    def advance(self, until: int) -> Completed:
        """Go on until some messages are through, or are about to have left their senders, but not
        beyond ``until``; when that was, and which ones: none if nothing is by then.

        Raises :class:`DimsweepError` if messages are under way that will never be through.
        """
        if self._sizes:
            kinds = np.array(self.numbers(self._kinds), np.int64)
            self.start(kinds, np.array(self._sizes), self._now)
            self._kinds, self._sizes = [], []
        return self.kernel.advance(until, Stop.DEPARTURE)
