"""What each link of a run by rank did."""

from typing import NamedTuple

from engine.kernels.phase.phase_time import whole
from engine.network.graph import Link
from engine.units import PICOSECONDS


class Span(NamedTuple):
    """When a message held a link (ps), and what it belonged to."""

    start: int
    end: int
    name: str


class LinkAccount(NamedTuple):
    """What a link did.

    ``busy`` is the ps in which messages held it, ``utilisation`` the bytes over what its bandwidth
    could have carried in the whole time, ``longest_queue`` how many messages waited for it at once,
    or, where they share it, were on it beside another.
    """

    link: Link
    n_bytes: float
    busy: int
    utilisation: float
    longest_queue: int
    spans: tuple[Span, ...]  # empty unless recorded


def utilisation(link: Link, n_bytes: float, end: int) -> float:
    """Bytes over what the link could have carried in ``end`` ps."""
    return n_bytes / (link.bandwidth * end / PICOSECONDS) if end else 0.0


def whole_picoseconds(picoseconds: float) -> int:
    """How long something lasts, rounded as in all kernels."""
    return int(whole(picoseconds))
