"""Carriers: networks that take whole messages and say when each is through.

They are all that whoever runs collectives knows of the flow and the packet kernel: a message of so
many bytes starts now on a route, and at some time it is through.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from engine.kernels.carriers.traffic import Traffic


class Ways(NamedTuple):
    """The links (by their number) that a message may take, and those that its ACKs take back."""

    out: tuple[tuple[int, ...], ...]
    back: tuple[tuple[int, ...], ...]


class Carrier(Protocol):
    """A network under way; times are ps."""

    def latency_after(self, route: Sequence[int]) -> int:
        """How long after a message is through its last byte is there."""

    def send(self, ways: Ways, n_bytes: float, now: int) -> int:
        """Start a message at ``now``, which is not past; its number, counted from zero."""

    def advance(self, until: int) -> tuple[int, Sequence[int]]:
        """Go on until some messages are through, but not beyond ``until``; when they were, and
        which ones: none if nothing is through by then.

        Raises :class:`DimsweepError` if messages are under way that will never be through.
        """

    def traffic(self, operators: Sequence[str]) -> Traffic:
        """What became of the messages, of which each belongs to an operator."""
