"""What both carriers have in common: the flows of an instant are added to a kernel together."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from engine.kernels.carriers.carrier import Ways
from engine.kernels.carriers.traffic import Traffic
from engine.kernels.flow import FlowNetwork
from engine.kernels.packet import PacketNetwork, flow_columns


class Route(NamedTuple):
    """What all flows on the same ways have in common; the ways by their nodes, out and back."""

    ways: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    window: int = 0  # bytes; 0: none
    round_trip: int = 0  # ps


class BatchingCarrier(ABC):
    """A carrier that has its flows moved by ``kernel``.

    Rates, and what waits at a port, then depend on all that starts at an instant.
    """

    def __init__(self, kernel: FlowNetwork | PacketNetwork) -> None:
        self.kernel = kernel
        self._routes: dict[Ways, Route] = {}
        self._sizes: list[int] = []  # of flows that are not added yet,
        self._taken: list[Route] = []  # and their ways
        self._now = self._n_sent = 0

    @abstractmethod
    def latency_after(self, route: Sequence[int]) -> int:
        """How long after a message is through its last byte is there (ps)."""

    @abstractmethod
    def _route(self, ways: Ways) -> Route:
        """How flows go these ways."""

    @abstractmethod
    def _size(self, n_bytes: float) -> int:
        """The kernel's whole number for the size of a message."""

    @abstractmethod
    def traffic(self, operators: Sequence[str]) -> Traffic:
        """What became of the messages; see :class:`Carrier`."""

    def send(self, ways: Ways, n_bytes: float, now: int) -> int:
        """Start a message; see :class:`Carrier`."""
        if ways not in self._routes:
            self._routes[ways] = self._route(ways)
        self._sizes.append(max(self._size(n_bytes), 1))
        self._taken.append(self._routes[ways])
        self._now, self._n_sent = now, self._n_sent + 1
        return self._n_sent - 1

    def advance(self, until: int) -> tuple[int, Sequence[int]]:
        """Go on until something is through; see :class:`Carrier`."""
        if self._sizes:
            self._add()
        completed = self.kernel.advance(until)
        return completed.time, completed.arrived.tolist()

    def _add(self) -> None:
        known: dict[Route, int] = {}
        way = [known.setdefault(route, len(known)) for route in self._taken]
        flows = flow_columns(
            self._sizes,
            [route.ways for route in known],
            way,
            windows=[route.window for route in self._taken],
            round_trips=[route.round_trip for route in self._taken],
        )
        self.kernel.add(flows, self._now)
        self._sizes, self._taken = [], []
