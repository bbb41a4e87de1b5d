"""What spaces of splits share: a budget, of bandwidth or of money, and rules in text."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import numpy as np

from dimsweep.engine.bound import LinearSpace
from dimsweep.sweeper.space.split.constraint import Constraint
from dimsweep.sweeper.space.split.grid import Floats
from dimsweep.sweeper.space.split.spending import Spending

Rule = tuple[str, Floats, str, float]  # of a LinearSpace: its text, coefficients, relation, limit


class Budgeted(ABC):
    """Splits whose bandwidths add up to a total (bytes/s), or cost a sum of money, or neither."""

    n_free: int
    _total: float | None
    _spending: Spending | None
    _constraints: Sequence[Constraint]

    @abstractmethod
    def nearest(self, bandwidth: Floats) -> Floats:
        """The split nearest (least squares) to ``bandwidth``, both (D,) in bytes/s."""

    @abstractmethod
    def linear(self) -> LinearSpace:
        """The linear rules that every split obeys, and some that are no splits."""

    @property
    def has_budget(self) -> bool:
        """Whether there is a total or a sum of money."""
        return self._total is not None or self._spending is not None

    def along(self, direction: Floats) -> Floats:
        """The split (D,) nearest to that multiple of ``direction`` (D,) which uses up the total, or
        the money.  Raises ValueError where there is neither."""
        if self._spending is not None:
            scale = self._spending.limit / float(self._spending.prices @ direction)
        elif self._total is not None:
            scale = self._total / float(direction.sum())
        else:
            raise ValueError("no total and no cost to use up")
        return self.nearest(direction * scale)

    def _unit_points(self, u: Floats) -> Floats:
        """Points (P, F) of the unit cube; raises ValueError for others."""
        u = np.asarray(u, dtype=float)
        if u.ndim != 2 or u.shape[1] != self.n_free:
            raise ValueError(f"unit points of shape {u.shape}; expected (points, {self.n_free})")
        if not ((u >= 0) & (u <= 1)).all():
            raise ValueError("unit points outside [0, 1]")
        return u

    def _in_text(self) -> Iterator[Rule]:
        """The constraints."""
        for constraint in self._constraints:
            excess = constraint.excess()
            row = np.array(excess.coefficients, dtype=float)
            yield constraint.text, row, constraint.relation, -float(excess.constant)
