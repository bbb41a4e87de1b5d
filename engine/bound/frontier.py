"""Pareto fronts of time and cost, and one network for several workloads.

phi(c), the minimum of a convex model of the time over bandwidths that cost at most c, is convex
and never grows with c (Boyd and Vandenberghe, Convex Optimization, 2004, section 5.6).  So the line
through two known points of it, extended beyond them, is a lower bound.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from dimsweep.engine.bound.event import EventBound
from dimsweep.engine.bound.optimum import ConvexModel, Optimum, optimum, time_of
from dimsweep.engine.bound.space import LinearSpace
from dimsweep.engine.cluster.cost import Prices
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.lower.program import Floats, Program

_INSIDE = 1e-4  # of the range of costs: the cheapest network alone leaves a solver no room


@dataclass(frozen=True)
class Frontier:
    """The Pareto front of time and cost, from the cheapest network to the fastest one.

    For each cost in USD: a proven lower bound on the time, the best time found, and its bandwidths.
    """

    cost: Floats
    bound: Floats
    value: Floats
    bandwidth: Floats

    def minimum_time(self, cost: Floats) -> Floats:
        """Return a lower bound (s) on any run on a network of at most ``cost`` USD, elementwise."""
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
    """Return the Pareto front of time and cost at about ``n`` costs, denser at low costs.

    Raises :class:`DimsweepError` as :func:`optimum` does.
    """
    model = EventBound(program, space)
    last = optimum(model, space)
    most = float(prices.cost(last.bandwidth))
    first = _minimum_cost(space, prices)
    span = most - first
    if not span > 1e-9 * most:
        return _build_frontier([(most, last)])
    steps = np.geomspace(max(_INSIDE, 1e-2 / n), 1.0, n)[:-1]
    found: list[tuple[float, Optimum]] = []
    for cost in (first + span * steps).tolist():
        try:
            found.append((cost, optimum(model, _limit_cost(space, prices, cost))))
        except DimsweepError:  # too close to the cheapest for the solver
            continue
    return _build_frontier([*found, (most, last)])


def _build_frontier(found: list[tuple[float, Optimum]]) -> Frontier:
    optima = [one for _, one in found]
    return Frontier(
        np.array([cost for cost, _ in found]),
        np.array([one.bound for one in optima]),
        np.array([one.value for one in optima]),
        np.array([one.bandwidth for one in optima]),
    )


def _limit_cost(space: LinearSpace, prices: Prices, cost: float) -> LinearSpace:
    """Return ``space`` with one more rule: the bandwidths cost at most ``cost`` USD."""
    unit = float(np.max(prices.per_bandwidth)) or 1.0  # coefficients about one, as other rules have
    row = np.array(prices.per_bandwidth) / unit
    return replace(
        space,
        coefficients=np.vstack([space.coefficients, row]),
        limits=np.append(space.limits, (cost - prices.fixed) / unit),
        equal=np.append(space.equal, False),
        names=(*space.names, f"cost <= {cost:.6g} USD"),
    )


def _minimum_cost(space: LinearSpace, prices: Prices) -> float:
    """Return the cost in USD of the cheapest bandwidths in ``space``."""
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
        raise DimsweepError(
            "the solver found no cheapest network", where="space", code="infeasible"
        )
    return float(prices.cost(found.x * scale))


# --- portfolios -----------------------------------------------------------------------------------
# One network for several workloads: least weighted time, worst regret, or tail of the regrets.
#
# A workload's *regret* is its relative loss against its own optimum over the same space, its time
# (or time * cost) over the best one less one.  Each measure is the greatest mean of the workloads
# over a set of weights q: the given weights alone; any weights; or, for the conditional value at
# risk at level alpha, any q <= weight / (1 - alpha) that add up to one (Rockafellar and Uryasev,
# 2000).  A maximum of means of convex times is convex, and certified like one time.


class Measure(StrEnum):
    """The objective of a portfolio: how the times of several workloads become one number."""

    WEIGHTED_TIME = "weighted_time"
    WORST_REGRET = "worst_regret"
    CVAR = "cvar"


@dataclass(frozen=True)
class Weighing:
    """The objective of a portfolio and its workloads' weights; :meth:`build` checks them."""

    share: Floats
    measure: Measure
    level: float

    @classmethod
    def build(
        cls, weights: Sequence[float], measure: Measure | str, level: float = 0.9
    ) -> "Weighing":
        """Build from ``weights`` (N,) of N workloads, which count relative to their sum.

        The worst regret ignores them. ``level`` 0 is the mean regret, and towards 1 it approaches
        the worst regret. Raises :class:`DimsweepError` for invalid weights, and for a level outside
        [0, 1).
        """
        if not len(weights):
            raise DimsweepError(
                "the portfolio is empty; it needs a workload", where="portfolio", code="missing"
            )
        share = np.array(weights, dtype=float)
        if not (np.isfinite(share).all() and (share >= 0).all() and share.sum() > 0):
            raise DimsweepError(
                "weights must be zero or more, finite, and not all zero",
                where="weights",
                code="out-of-range",
            )
        if not 0 <= level < 1:
            problem = f"{level:g}; it must be 0 or more and below 1"
            raise DimsweepError(problem, where="level", code="out-of-range")
        return cls(share / share.sum(), Measure(measure), level)

    @property
    def uses_regrets(self) -> bool:
        """True if each workload's time counts relative to its optimum in the same space."""
        return self.measure is not Measure.WEIGHTED_TIME

    def weights(self, ratios: Floats) -> Floats:
        """Return the weights (..., N) for which the weighted mean of ``ratios`` is greatest.

        The measure limits the weights: to the given ones, to any, or to a multiple of the given
        ones.
        """
        caps = {
            Measure.WEIGHTED_TIME: self.share,
            Measure.WORST_REGRET: np.ones(len(self.share)),
            Measure.CVAR: self.share / (1 - self.level),
        }[self.measure]
        # The worst come first, each with as much weight as it may have.
        order = np.argsort(-ratios, axis=-1, kind="stable")
        most = caps[order]
        before = np.zeros_like(most)
        np.cumsum(most[..., :-1], axis=-1, out=before[..., 1:])
        found = np.zeros_like(most)
        np.put_along_axis(found, order, np.clip(1.0 - before, 0.0, most), axis=-1)
        return found

    def mean(self, ratios: Floats) -> Floats:
        """Return the greatest weighted mean (...) of ``ratios`` (..., N) that the measure allows.

        It never decreases in a ratio, and is infinite if any ratio is.
        """
        known = np.asarray(np.isfinite(ratios).all(axis=-1))
        finite = np.where(known[..., None], ratios, 0.0)
        return np.where(known, (self.weights(finite) * finite).sum(axis=-1), np.inf)


@dataclass(frozen=True)
class Portfolio:
    """The best bandwidths for all workloads together, and each workload's ``regret`` at them."""

    bandwidth: Floats  # (D,) bytes/s
    value: float
    bound: float
    regret: dict[str, float]
    separate_optima: dict[str, Optimum]


def portfolio(
    models: Mapping[str, ConvexModel],
    space: LinearSpace,
    *,
    weights: Mapping[str, float] | None = None,
    measure: Measure | str = Measure.WEIGHTED_TIME,
    level: float = 0.9,
    prices: Prices | None = None,
    best: Mapping[str, float] | None = None,
) -> Portfolio:
    """Return the bandwidths of ``space`` that are best by ``measure`` for all of ``models``.

    Parameters
    ----------
    models
        The model of each workload, by name.
    space
        The possible bandwidths.
    weights
        The weight of each workload, equal if not given (see :meth:`Weighing.build`).
    measure, level
        The objective, and the level of the conditional value at risk.
    prices
        If given, time * cost counts instead of time.
    best
        The values, in seconds (times USD), that regrets count against instead of the models'
        own optima. With values of runs, the bound holds for the regrets of runs.

    Raises
    ------
    DimsweepError
        For invalid weights, and as :func:`optimum` does.
    """
    if weights is None:
        weights = dict.fromkeys(models, 1.0)
    for given, noun in ((weights, "weight"), (best, "best value")):
        if given is not None and set(given) != set(models):
            odd = sorted(set(given) ^ set(models))[0]
            problem = f"{odd!r} needs both a workload and a {noun}, and has only one of them"
            raise DimsweepError(problem, where="weights", code="mismatch")
    weighing = Weighing.build([weights[name] for name in models], measure, level)
    own = {name: optimum(model, space, prices) for name, model in models.items()}
    least = np.array([own[name].value if best is None else best[name] for name in models])
    if weighing.uses_regrets and not (least > 0).all():
        name = list(models)[int(least.argmin())]
        problem = f"workload {name!r} takes 0 s, so its regret is undefined"
        raise DimsweepError(problem, where="portfolio")
    unit = least if weighing.uses_regrets else np.ones(len(least))
    found = optimum(_PortfolioModel(list(models.values()), unit, weighing), space, prices)
    times = np.array([time_of(model, found.bandwidth) for model in models.values()])
    values = times * (1.0 if found.cost is None else found.cost)
    # A mean of ratios to the optima; regrets count from one.
    less = 1.0 if weighing.uses_regrets else 0.0
    with np.errstate(invalid="ignore", divide="ignore"):
        regret = np.where(values > least, values / least - 1, 0.0)
    return Portfolio(
        found.bandwidth,
        found.value - less,
        found.bound - less,
        dict(zip(models, regret.tolist(), strict=True)),
        own,
    )


class _PortfolioModel:
    """A :class:`ConvexModel`: the greatest weighted mean of models' times, each over ``unit``."""

    def __init__(self, models: Sequence[ConvexModel], unit: Floats, weighing: Weighing) -> None:
        self.sums = np.vstack([model.sums for model in models])
        self._models, self._unit, self._weighing = models, unit, weighing

    def pieces(self, reciprocal: Floats) -> Floats:
        """Return the weighted mean of the models' greatest pieces at 1/b."""
        n_dims = self.sums.shape[1]
        rows = np.zeros((len(self._models), len(reciprocal) + 1))
        first = n_dims
        for row, model in zip(rows, self._models, strict=True):
            last = first + len(model.sums)
            columns = [*range(n_dims), *range(first, last)]
            row[[*columns, -1]] = model.pieces(reciprocal[columns]).sum(axis=0)
            first = last
        rows /= self._unit[:, None]
        ratios = rows @ np.append(reciprocal, 1.0)
        piece: Floats = self._weighing.weights(ratios) @ rows
        return piece[None]
