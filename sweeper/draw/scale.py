"""The axes of objectives: their units, and the range worth showing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from sweeper.draw.canvas import BEST, EQUAL, GREY
from sweeper.objective import Objective
from sweeper.report import words
from sweeper.report.summary import CellSummary

LOG_RATIO = 20.0  # bars that differ more than this are drawn on a logarithmic scale
TRIAL = {"s": 12, "color": GREY, "alpha": 0.5, "lw": 0, "label": "one trial"}


@dataclass(frozen=True)
class Scale:
    """An objective in the unit it is drawn in: ``factor`` times the ledger's."""

    objective: Objective
    factor: float
    label: str

    @classmethod
    def of(cls, summaries: Sequence[CellSummary], objective: Objective) -> Self:
        """One unit for all panels: that of the smallest best value."""
        smallest = min(objective.of(s.best) for s in summaries)
        return cls(objective, *words.axis(objective, smallest))

    def values(self, rows: Any) -> Any:
        """The objective of some rows, or of one."""
        return self.factor * rows[self.objective.column]

    def useful_range(self, summary: CellSummary) -> tuple[float, float]:
        """From the best value to that of the equal split, the front's end or most trials.

        A search also tries splits that are many times slower; showing them would hide the rest.
        """
        losses = self.objective.sign * self.values(summary.complete)
        poor = [np.percentile(losses, 80), (self.objective.sign * self.values(summary.front)).max()]
        if summary.equal is not None:
            poor.append(self.objective.sign * self.values(summary.equal))
        low, high = sorted(self.objective.sign * loss for loss in (losses.min(), max(poor)))
        return float(low), float(high)


def zoom(ax: Any, summary: CellSummary, **scales: Scale) -> None:
    """Label the axes ``x`` and ``y``, show their useful ranges, and count the trials outside."""
    outside = np.zeros(len(summary.complete), bool)
    for side, scale in scales.items():
        low, high = scale.useful_range(summary)
        margin = 0.08 * (high - low) or 0.05 * abs(high)
        ends = (low - margin, high + margin)
        if high > LOG_RATIO * low > 0:
            ends = (low / 1.3, high * 1.3)
            ax.set(**{f"{side}scale": "log"})
            axis = getattr(ax, f"{side}axis")
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter("")
        ax.set(**{f"{side}label": scale.label, f"{side}lim": ends})
        outside |= ~scale.values(summary.complete).between(*ends).to_numpy()
    if outside.any():
        ax.set_xlabel(f"{ax.get_xlabel()}   [{outside.sum()} worse trials lie outside]")


def mark(ax: Any, summary: CellSummary, place: Callable[[Any], Any]) -> None:
    """Mark the best trial and the equal split, each at the ``place`` (x, y) of its row."""
    ax.scatter(*place(summary.best), **BEST, label=words.best_name(summary))
    if summary.equal is not None:
        ax.scatter(*place(summary.equal), **EQUAL, label="equal split")
