"""The common measure of several workloads on one design, such as the mean regret."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dimsweep.engine import DimsweepError, Prices
from dimsweep.engine.bound import EventBound, Portfolio, Weighing, portfolio
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.objective import Objective, follows_slopes
from dimsweep.sweeper.part import naming_key
from dimsweep.sweeper.search import Slopes, Values
from dimsweep.sweeper.space.space import Space

if TYPE_CHECKING:
    import pandas as pd


def build_weighing(config: Config) -> Weighing | None:
    """Return the study's weighing of workloads in a common measure; None without a portfolio.

    Raises :class:`DimsweepError` for an impossible portfolio.
    """
    given, objective = config.portfolio, config.objective
    if not given.workloads:
        return None
    if config.space.network is None and not follows_slopes(objective):
        raise DimsweepError(
            "a portfolio is searched for time or perf_per_cost, not "
            + ", ".join(each.name for each in objective),
            where="objective",
            code="unsupported",
        )
    if config.recheck.rungs:
        raise DimsweepError(
            "a portfolio's designs cannot be rechecked message by message",
            where="recheck.top",
            hint="recheck designs in a study of one workload",
            code="unsupported",
        )
    with naming_key("portfolio"):
        return Weighing.build(list(given.workloads.values()), given.measure, given.level)


def find_common_designs(
    tables: "Sequence[pd.DataFrame]", design: Sequence[str], objective: Objective
) -> "tuple[pd.DataFrame, np.ndarray]":
    """Return the P designs that each of N cells has simulated, and their losses (P, N).

    ``tables`` have each cell's complete rows. ``design`` names the columns that distinguish
    designs. If a cell has several rows of a design, the first one is used.
    """
    found = None
    for i, rows in enumerate(tables):
        values = rows.drop_duplicates(design)[[*design, objective.column]]
        values = values.rename(columns={objective.column: f"#{i}"})
        found = values if found is None else found.merge(values, on=list(design))
    assert found is not None
    losses = objective.loss(found[[f"#{i}" for i in range(len(tables))]].to_numpy(float))
    return found[list(design)], losses


def find_design_row(rows: "pd.DataFrame", design: "pd.Series") -> "pd.Series":
    """Return the first of a cell's rows whose columns equal ``design``."""
    return rows[(rows[design.index] == design).all(axis=1)].iloc[0]


@dataclass(frozen=True)
class SharedMeasure:
    """The measure of N workloads on one design, minimised by a search."""

    weighing: Weighing
    #: minimum loss of each workload on its own best design (N,), in s or s USD
    own: np.ndarray
    objective: Objective

    def combine(self, values: Sequence[Values], slopes: Sequence[Slopes]) -> tuple[Values, Slopes]:
        """Return the measure of one split, and its slopes, from the workloads' values and slopes.

        Regrets are means of ratios to ``own``, not of differences, so they are positive like times.
        The measure is None if a workload failed. The slopes are None if they are unknown.
        """
        if any(value is None for value in values):
            return None, None
        losses = self.objective.loss(np.array([value[0] for value in values if value is not None]))
        unit = self._unit()
        weights = self.weighing.weights(losses / unit)
        value = float(weights @ (losses / unit))
        measure = (self.objective.loss(value),)
        if any(slope is None for slope in slopes):
            return measure, None
        return measure, tuple((weights / unit @ np.array(slopes, dtype=float)).tolist())

    def best_design(self, losses: np.ndarray) -> int:
        """Return the index of the best of P designs with losses (P, N), the first of equal ones."""
        return int(self.measured(losses).argmin())

    def measured(self, losses: np.ndarray) -> np.ndarray:
        """Return the measure (P,) of losses (P, N): a regret, or mean seconds (times USD)."""
        return self.mean(losses) - self.offset

    def mean(self, losses: np.ndarray) -> np.ndarray:
        """Return the measure (...,) of losses (..., N), with 1 added to a regret."""
        return self.weighing.mean(losses / self._unit())

    @property
    def offset(self) -> float:
        """Value of the mean at zero regret: 1 if the measure is a regret, else 0."""
        return 1.0 if self.weighing.uses_regrets else 0.0

    def _unit(self) -> np.ndarray:
        return self.own if self.weighing.uses_regrets else np.ones_like(self.own)

    def proven(
        self, models: Mapping[str, EventBound], space: Space, prices: Prices | None
    ) -> Portfolio | None:
        """Return a model of the measure's lower bound, from bounds on the workloads' times.

        The result is None if more, or less, bandwidth is always better, or if cost has steps.
        """
        assert space.split is not None
        if self.objective.needs_prices and prices is not None and not prices.is_linear:
            return None
        shares = self.weighing.share.tolist()
        try:
            return portfolio(
                models,
                space.split.linear(),
                weights=dict(zip(models, shares, strict=True)),
                measure=self.weighing.measure,
                level=self.weighing.level,
                prices=prices if self.objective.needs_prices else None,
                best=dict(zip(models, self.own.tolist(), strict=True)),
            )
        except DimsweepError:
            return None
