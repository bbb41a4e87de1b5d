"""What both carriers have in common: the flows of an instant are added to a kernel together."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from engine.kernels.carriers.carrier import Kind
from engine.kernels.carriers.traffic import Traffic
from engine.kernels.flow import FlowNetwork
from engine.kernels.packet import Completed, PacketNetwork, Stop
from engine.lower.program import Floats, Longs


class BatchingCarrier(ABC):
    """A carrier that has its flows moved by ``kernel``.

    Rates, and what waits at a port, then depend on all that starts at an instant.
    """

    def __init__(self, kernel: FlowNetwork | PacketNetwork) -> None:
        self.kernel = kernel
        self._known: dict[Kind, int] = {}
        self._kinds: list[Kind] = []  # of messages that have not started yet,
        self._sizes: list[float] = []  # and their bytes
        self._now = self._n_sent = 0

    @abstractmethod
    def latency_after(self, route: Sequence[int]) -> int:
        """How long after a message is through its last byte is there (ps)."""

    @abstractmethod
    def _learn(self, kinds: Sequence[Kind]) -> None:
        """Prepare kinds of messages, which are numbered as they come."""

    @abstractmethod
    def start(self, kinds: Longs, n_bytes: Floats, now: int) -> None:
        """Start messages of kinds by their numbers."""

    @abstractmethod
    def traffic(self, operators: Sequence[str]) -> Traffic:
        """What became of the messages; see :class:`Carrier`."""

    def numbers(self, kinds: Sequence[Kind]) -> list[int]:
        """A number for each kind of message."""
        new = list(dict.fromkeys(kind for kind in kinds if kind not in self._known))
        if new:
            self._learn(new)
            self._known |= {kind: len(self._known) + i for i, kind in enumerate(new)}
        return [self._known[kind] for kind in kinds]

    def send(self, kind: Kind, n_bytes: float, now: int) -> int:
        """Start a message; see :class:`Carrier`."""
        self._kinds.append(kind)
        self._sizes.append(n_bytes)
        self._now, self._n_sent = now, self._n_sent + 1
        return self._n_sent - 1

    def advance(self, until: int) -> Completed:
        """Go on until something is through, or leaves; see :class:`Carrier`."""
        if self._sizes:
            kinds = np.array(self.numbers(self._kinds), np.int64)
            self.start(kinds, np.array(self._sizes), self._now)
            self._kinds, self._sizes = [], []
        return self.kernel.advance(until, Stop.DEPARTURE)
