"""One network for several workloads: least weighted time, worst regret, or tail of the regrets.

A workload's *regret* is its relative loss against its own optimum over the same space, its time
(or time * cost) over the best one less one.  Each measure is the greatest mean of the workloads
over a set of weights q: the given weights alone; any weights; or, for the conditional value at
risk at level alpha, any q <= weight / (1 - alpha) that add up to one (Rockafellar and Uryasev,
2000).  A maximum of means of convex times is convex, and certified like one time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from engine.bound.optimum import ConvexModel, Optimum, optimum, time_of
from engine.bound.space import LinearSpace
from engine.cluster.cost import Prices
from engine.errors import DimsweepError
from engine.lower.program import Floats


class Measure(StrEnum):
    """What a portfolio minimises."""

    WEIGHTED_TIME = "weighted_time"
    WORST_REGRET = "worst_regret"
    CVAR = "cvar"


@dataclass(frozen=True)
class Portfolio:
    """The best bandwidths for all workloads together, and each one's ``regret`` there.

    ``value`` and ``bound`` are regrets, or for the weighted time seconds (times USD where there
    were prices); no bandwidths of the space beat the bound.  ``own`` is each workload's optimum
    when the network is for it alone.
    """

    bandwidth: Floats  # (D,) bytes/s
    value: float
    bound: float
    regret: dict[str, float]
    own: dict[str, Optimum]


def portfolio(
    models: Mapping[str, ConvexModel],
    space: LinearSpace,
    *,
    weights: Mapping[str, float] | None = None,
    measure: Measure | str = Measure.WEIGHTED_TIME,
    level: float = 0.9,
    prices: Prices | None = None,
) -> Portfolio:
    """The bandwidths of ``space`` that are best by ``measure`` for all of ``models``.

    ``weights`` are equal if not given, and count relative to their sum; the worst regret does not
    ask for them.  ``level`` is the conditional value at risk's: 0 is the mean regret, and towards
    1 comes the worst one.  Raises :class:`DimsweepError` for weights that are no weights, and what
    :func:`optimum` raises.
    """
    measure = Measure(measure)
    share = _shares(models, weights)
    if not 0 <= level < 1:
        raise DimsweepError(f"level {level:g}", where="level", hint="0 <= level < 1")
    own = {name: optimum(model, space, prices) for name, model in models.items()}
    best = np.array([found.value for found in own.values()])
    if measure is not Measure.WEIGHTED_TIME and not (best > 0).all():
        raise DimsweepError("a workload that takes no time has no regret", where="portfolio")
    unit = np.ones(len(best)) if measure is Measure.WEIGHTED_TIME else best
    caps = {
        Measure.WEIGHTED_TIME: share,
        Measure.WORST_REGRET: np.ones(len(share)),
        Measure.CVAR: share / (1 - level),
    }[measure]
    found = optimum(_Together(list(models.values()), unit, caps), space, prices)
    times = np.array([time_of(model, found.bandwidth) for model in models.values()])
    values = times * (1.0 if found.cost is None else found.cost)
    # A mean of ratios to the optima; regrets count from one.
    less = 0.0 if measure is Measure.WEIGHTED_TIME else 1.0
    with np.errstate(invalid="ignore", divide="ignore"):
        regret = np.where(values > best, values / best - 1, 0.0)
    return Portfolio(
        found.bandwidth,
        found.value - less,
        found.bound - less,
        dict(zip(models, regret.tolist(), strict=True)),
        own,
    )


def _shares(models: Mapping[str, ConvexModel], weights: Mapping[str, float] | None) -> Floats:
    if not models:
        raise DimsweepError("a portfolio needs a workload", where="portfolio")
    if weights is None:
        weights = dict.fromkeys(models, 1.0)
    if set(weights) != set(models):
        odd = sorted(set(weights) ^ set(models))[0]
        raise DimsweepError(f"{odd!r} has a weight or a workload, but not both", where="weights")
    share = np.array([weights[name] for name in models], dtype=float)
    if not (np.isfinite(share).all() and (share >= 0).all() and share.sum() > 0):
        raise DimsweepError("weights are zero or more, and not all zero", where="weights")
    normal: Floats = share / share.sum()
    return normal


class _Together:
    """A :class:`ConvexModel`: the greatest mean of the models' times over ``unit``, by weights up
    to ``caps`` that add up to one."""

    def __init__(self, models: Sequence[ConvexModel], unit: Floats, caps: Floats) -> None:
        self.sums = np.vstack([model.sums for model in models])
        self._models, self._unit, self._caps = models, unit, caps

    def pieces(self, reciprocal: Floats) -> Floats:
        n_dims = self.sums.shape[1]
        rows = np.zeros((len(self._models), len(reciprocal) + 1))
        first = n_dims
        for row, model in zip(rows, self._models, strict=True):
            last = first + len(model.sums)
            columns = [*range(n_dims), *range(first, last)]
            row[[*columns, -1]] = model.pieces(reciprocal[columns]).sum(axis=0)
            first = last
        rows /= self._unit[:, None]
        # The worst come first, each with as much weight as it may have.
        order = np.argsort(-(rows @ np.append(reciprocal, 1.0)))
        before = np.concatenate([[0.0], np.cumsum(self._caps[order])[:-1]])
        weight = np.clip(1.0 - before, 0.0, self._caps[order])
        piece: Floats = weight @ rows[order]
        return piece[None]
