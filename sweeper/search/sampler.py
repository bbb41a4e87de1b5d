"""What a sampler is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sweeper.space.space import Trial

# A trial's objective values in the study's order, or None if it failed.
Values = Sequence[float] | None


# What one more unit of bandwidth in each dimension adds to a trial's time, in seconds per byte/s;
# None where that is not known.
Slopes = Sequence[float] | None


class Sampler(Protocol):
    """Proposes trials, and perhaps learns from their values.

    The driver asks for a batch while those before it, up to ``prefetch`` with it, are being
    simulated, and tells each batch in the order of its trials, so what is proposed depends on the
    seed and on nothing else.
    """

    prefetch: int

    def ask(self, n: int) -> list[Trial]:
        """The next trials: up to ``n``, and at least one."""

    def tell(
        self, trials: Sequence[Trial], values: Sequence[Values], slopes: Sequence[Slopes]
    ) -> None:
        """The values of trials asked for earlier, and slopes if the sampler learns from them."""
