"""The least time that any run can reach for each amount of money: a proven Pareto front.

phi(c), the least of a convex model of the time over the bandwidths that cost at most c, is convex
and never grows with c (Boyd and Vandenberghe, Convex Optimization, 2004, section 5.6).  So between
amounts at which it is known a line drawn on from two of them lies below it.
"""

from dataclasses import dataclass, replace

import numpy as np

from dimsweep.engine.bound.event import EventBound
from dimsweep.engine.bound.optimum import Optimum, optimum
from dimsweep.engine.bound.space import LinearSpace
from dimsweep.engine.cluster.cost import Prices
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.lower.program import Floats, Program

_INSIDE = 1e-4  # of the range of costs: the cheapest network alone leaves a solver no room


@dataclass(frozen=True)
class Frontier:
    """K amounts of money with the least time for each, from the cheapest network to the one that
    more money does not make faster.

    ``cost`` (K,) in USD grows; ``bound`` (K,) in seconds is proven, ``value`` (K,) what the model
    of the time has at ``bandwidth`` (K, D), in bytes/s.
    """

    cost: Floats
    bound: Floats
    value: Floats
    bandwidth: Floats

    def least_time(self, cost: Floats) -> Floats:
        """Seconds (...,) that no run beats on a network of at most ``cost`` (...,) USD."""
        at = np.asarray(cost, dtype=float)
        c, low, high = self.cost, self.bound, self.value
        # phi never grows: it is no less than at the next known amount, or at the last one.
        least = low[np.minimum(np.searchsorted(c, at), len(c) - 1)]
        for k in range(len(c)):
            # phi(c_k) is at most the mean of phi at another known amount and at the cost beyond.
            for other, beyond in ((k - 1, at >= c[k]), (k + 1, at <= c[k])):
                if 0 <= other < len(c):
                    slope = (low[k] - high[other]) / (c[k] - c[other])
                    line = low[k] + slope * (at - c[k])
                    least = np.where(beyond, np.maximum(least, line), least)
        return np.asarray(least)


def frontier(program: Program, space: LinearSpace, prices: Prices, n: int = 64) -> Frontier:
    """The front at about ``n`` amounts, closer to each other where they are small.

    Raises what :func:`optimum` raises.
    """
    model = EventBound(program, space)
    last = optimum(model, space)
    most = float(prices.cost(last.bandwidth))
    first = _cheapest(space, prices)
    span = most - first
    if not span > 1e-9 * most:
        return _of([(most, last)])
    steps = np.geomspace(max(_INSIDE, 1e-2 / n), 1.0, n)[:-1]
    found: list[tuple[float, Optimum]] = []
    for cost in (first + span * steps).tolist():
        try:
            found.append((cost, optimum(model, _at_most(space, prices, cost))))
        except DimsweepError:  # too close to the cheapest for the solver
            continue
    return _of([*found, (most, last)])


def _of(found: list[tuple[float, Optimum]]) -> Frontier:
    optima = [one for _, one in found]
    return Frontier(
        np.array([cost for cost, _ in found]),
        np.array([one.bound for one in optima]),
        np.array([one.value for one in optima]),
        np.array([one.bandwidth for one in optima]),
    )


def _at_most(space: LinearSpace, prices: Prices, cost: float) -> LinearSpace:
    """The bandwidths of ``space`` that cost no more."""
    unit = float(np.max(prices.per_bandwidth)) or 1.0  # coefficients about one, as other rules have
    row = np.array(prices.per_bandwidth) / unit
    return replace(
        space,
        coefficients=np.vstack([space.coefficients, row]),
        limits=np.append(space.limits, (cost - prices.fixed) / unit),
        equal=np.append(space.equal, False),
        names=(*space.names, f"cost <= {cost:.6g} USD"),
    )


def _cheapest(space: LinearSpace, prices: Prices) -> float:
    """The least cost in USD over ``space``."""
    from scipy.optimize import linprog  # takes a while to import

    same = space.equal
    ends = list(zip(space.low, space.high, strict=True))
    scale = float(np.abs(space.limits).max(initial=1.0))
    found = linprog(
        prices.per_bandwidth,
        space.coefficients[~same] if (~same).any() else None,
        space.limits[~same] / scale if (~same).any() else None,
        space.coefficients[same] if same.any() else None,
        space.limits[same] / scale if same.any() else None,
        bounds=[(low / scale, high / scale) for low, high in ends],
    )
    if found.x is None:
        space.check()
        raise DimsweepError("the solver found no cheapest network", where="space")
    return float(prices.cost(found.x * scale))
