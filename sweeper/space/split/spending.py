"""A budget in money: what a split may cost, and that it is spent."""

import math
from dataclasses import dataclass

from engine import DimsweepError, units
from sweeper.space.split.constraint import said
from sweeper.space.split.grid import Floats, Row

usd = units.format_money

_UNITS = 2**44  # of the limit, in which prices are rounded up


@dataclass(frozen=True)
class Spending:
    """At most ``limit`` USD for bandwidths at ``prices`` (D,), above zero, in USD per byte/s.

    A split on a grid rarely costs a given sum to the cent.  It spends the budget when one more step
    of some dimension, as a rule the cheapest, would break it.
    """

    prices: Floats
    limit: float

    def row(self, step: float) -> Row:
        """The budget for bandwidths of n steps, in whole numbers: what obeys them obeys it."""
        unit = self.limit / _UNITS
        return tuple(math.ceil(price * step / unit) for price in self.prices), _UNITS

    def least(self, slack: int, row: Row, most: list[int]) -> float:
        """USD that a split on the grid spends at least: all but ``slack`` units of the row, and
        what rounding its coefficients up took of at most ``most`` steps."""
        rounding = sum(most[d] for d, price in enumerate(row[0]) if price)
        return self.limit * max(0.0, 1 - (slack + rounding) / _UNITS)

    def check_minima(self, low: Floats) -> None:
        """Raise unless it buys the minima (D,)."""
        least = float(self.prices @ low)
        if least > self.limit:
            raise DimsweepError(
                f"the minima cost {usd(least)}: {usd(least - self.limit)} more than "
                f"there is for bandwidth, {usd(self.limit)}",
                where="cost",
            )

    def check_maxima(self, high: Floats, step: float) -> None:
        """Raise unless the maxima (D,) cost as much, to a step."""
        most = float(self.prices @ high)
        if most <= self.limit - step * float(self.prices.min()):
            raise DimsweepError(
                f"the maxima cost {usd(most)}: {usd(self.limit - most)} less than "
                f"there is for bandwidth, {usd(self.limit)}",
                where="max",
                hint="raise the maxima, or lower the cost",
            )

    def check(self, bandwidth: Floats, step: float) -> None:
        """Raise unless ``bandwidth`` (D,) costs the limit, to a step in every dimension."""
        cost, loose = float(self.prices @ bandwidth), step * float(self.prices.sum())
        if cost > self.limit * (1 + 1e-9) or cost < self.limit - loose:
            raise DimsweepError(
                f"the bandwidths cost {usd(cost)}",
                where="cost",
                hint=f"there are {usd(self.limit)} for bandwidth, and a step is {said(step)}",
            )
