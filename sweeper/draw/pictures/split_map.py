"""How far from the best split a design may stray."""

from typing import Any

import numpy as np

from sweeper.draw.canvas import Picture, panels
from sweeper.draw.scale import TRIAL, Scale, mark, zoom
from sweeper.report import words
from sweeper.report.report import Report
from sweeper.report.summary import CellSummary, Floats


def picture(report: Report) -> bytes | None:
    summaries = [s for s in report.found if len(s.dims) > 1 and s.split_varies]
    if not summaries:
        return None
    scale = Scale.of(summaries, summaries[0].objective)

    def draw(ax: Any, summary: CellSummary) -> None:
        x, y = summary.widest_dims()
        ax.set_xlabel(f"share of {words.dim_name(summary, x)} (%)")
        if len(summary.dims) == 2:  # the other share follows, so show the objective instead
            ax.scatter(100 * summary.shares()[:, x], scale.values(summary.complete), **TRIAL)
            mark(ax, summary, lambda row: (_percent(summary, row)[x], scale.values(row)))
            zoom(ax, summary, y=scale)
        else:
            _colour(ax, summary, scale, x, y)
            mark(ax, summary, lambda row: _percent(summary, row)[[x, y]])
            ax.set_ylabel(f"share of {words.dim_name(summary, y)} (%)")

    overview = "How far from the best split a design may stray"
    return panels(summaries, 4, overview, words.tolerance, draw)


def _colour(ax: Any, summary: CellSummary, scale: Scale, x: int, y: int) -> None:
    """The trials by the shares of two dimensions; the darker the better, the near-best ringed."""
    trials = summary.complete.assign(
        x=100 * summary.shares()[:, x],
        y=100 * summary.shares()[:, y],
        ring=np.where(summary.near_best(), 0.6, 0.0),
    )
    sign, column = scale.objective.sign, scale.objective.column
    trials = trials.sort_values(column, ascending=sign < 0)  # the best come last, so lie on top
    low, high = scale.useful_range(summary)
    drawn = ax.scatter(
        trials["x"],
        trials["y"],
        c=scale.values(trials),
        s=24,
        vmin=low,
        vmax=high,
        cmap="viridis" if sign > 0 else "viridis_r",
        edgecolor="black",
        linewidth=trials["ring"],
    )
    ax.figure.colorbar(drawn, ax=ax, label=scale.label, extend="max" if sign > 0 else "min")
    ax.scatter([], [], s=24, facecolor="none", edgecolor="black", lw=0.8, label="within 1% of best")


def _percent(summary: CellSummary, row: Any) -> Floats:
    """(D,) shares of ``row``'s bandwidth in percent."""
    split = summary.split(row)
    return np.asarray(100 * split / split.sum())


PICTURE = Picture("split_map.png", "How far from the best split a design may stray", picture)
