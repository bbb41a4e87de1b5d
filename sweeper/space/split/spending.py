"""A budget in money: what a split costs at most."""

import math
from dataclasses import dataclass

import numpy as np

from dimsweep.engine import DimsweepError, units
from dimsweep.sweeper.space.split.grid import Floats, Row

usd = units.format_money

_UNITS = 2**44  # of the limit, in which prices are rounded up
_NOISE = 1e-9


@dataclass(frozen=True)
class Spending:
    """At most ``limit`` USD for bandwidths at ``prices`` (D,), above zero, in USD per byte/s.

    What more bandwidth is worth is for the objective to say: the best split for time as a rule
    costs the limit, to a step, and that for performance per cost may cost much less.
    """

    prices: Floats
    limit: float

    def row(self, step: float) -> Row:
        """The budget for bandwidths of n steps, in whole numbers: what obeys them obeys it."""
        unit = self.limit / _UNITS
        return tuple(math.ceil(price * step / unit) for price in self.prices), _UNITS

    def rule(self) -> tuple[str, Floats, str, float]:
        """The budget as a rule of a LinearSpace: in bandwidths at the mean price."""
        mean = float(self.prices.mean())
        return f"cost <= {usd(self.limit)}", self.prices / mean, "<=", self.limit / mean

    def check_minima(self, low: Floats, step: float) -> None:
        """Raise unless it buys the minima (D,), as :meth:`row` has it."""
        row, most = self.row(step)
        if float(np.dot(row, low / step)) > most:
            raise DimsweepError(
                f"the minima cost {usd(float(self.prices @ low))}, which is more than there is for "
                f"bandwidth, {usd(self.limit)}",
                where="cost",
            )

    def check(self, bandwidth: Floats) -> None:
        """Raise for a ``bandwidth`` (D,) that costs more than the limit."""
        cost = float(self.prices @ np.asarray(bandwidth))
        if cost > self.limit * (1 + _NOISE):
            raise DimsweepError(
                f"the bandwidths cost {usd(cost)}",
                where="cost",
                hint=f"there are {usd(self.limit)} for bandwidth",
            )
