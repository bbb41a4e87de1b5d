"""What a search is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sweeper.space.space import Point

# A point's objective values in the study's order, or None if it failed.
Values = Sequence[float] | None


# What one more unit of bandwidth in each dimension adds to a point's time, in seconds per byte/s;
# None where that is not known.
Slopes = Sequence[float] | None


class Search(Protocol):
    """Proposes points, and perhaps learns from their values.

    The driver asks for a wave while those before it, up to ``waves_ahead`` with it, are being
    simulated, and tells each wave in the order of its points, so what is proposed depends on the
    seed and on nothing else.
    """

    waves_ahead: int

    def ask(self, n: int) -> list[Point]:
        """The next points: up to ``n``, and at least one."""

    def tell(
        self, points: Sequence[Point], values: Sequence[Values], slopes: Sequence[Slopes]
    ) -> None:
        """The values of points asked for earlier, and slopes if the sampler learns from them."""
