"""Carriers: networks that take whole messages and say when each is through.

They are all that whoever runs collectives knows of the flow and the packet kernel: a message of so
many bytes starts now on a route, and at some time it is through.
"""

from collections.abc import Sequence
from itertools import cycle, islice
from typing import NamedTuple, Protocol

from engine.kernels.carriers.traffic import Traffic
from engine.kernels.packet import Completed
from engine.network.routing import Router


class Ways(NamedTuple):
    """The links (by their number) that a message may take, and those that its ACKs take back."""

    out: tuple[tuple[int, ...], ...]
    back: tuple[tuple[int, ...], ...]


class Kind(NamedTuple):
    """What a message is but for its size; those of a lower ``precedence`` go first where a carrier
    has priorities (:mod:`engine.kernels.messages.precedence`)."""

    ways: Ways
    precedence: int = 0


def routes_between(
    router: Router, source: int, target: int, way: int, *, spray: bool
) -> tuple[tuple[int, ...], ...]:
    """One route between two NPUs, or all that are as short and leave by the same link: a message is
    one's of the sender's network cards; ``way`` as in :meth:`Router.route`."""
    if not spray:
        return (router.route(source, target, way),)
    routes = router.routes(source, target)
    return tuple(route for route in routes if route[0] == routes[0][0])


def ways_between(router: Router, source: int, target: int, way: int, *, spray: bool) -> Ways:
    """The same, with the ways of the ACKs."""
    out = routes_between(router, source, target, way, spray=spray)
    back = routes_between(router, target, source, way, spray=spray)
    return Ways(out, tuple(islice(cycle(back), len(out))))


class Carrier(Protocol):
    """A network under way; times are ps."""

    def latency_after(self, route: Sequence[int]) -> int:
        """How long after a message is through its last byte is there."""

    def send(self, kind: Kind, n_bytes: float, now: int) -> int:
        """Start a message at ``now``, which is not past; its number, counted from zero."""

    def advance(self, until: int) -> Completed:
        """Go on until some messages are through, or are about to have left their senders, but not
        beyond ``until``; when that was, and which ones: none if nothing is by then.

        Raises :class:`DimsweepError` if messages are under way that will never be through.
        """

    def traffic(self, operators: Sequence[str]) -> Traffic:
        """What became of the messages, of which each belongs to an operator."""
