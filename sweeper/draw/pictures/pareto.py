"""The front of two objectives, and what is proven to be impossible."""

from typing import Any

import numpy as np

from engine.bound import Frontier
from sweeper.draw.canvas import BLUE, GREEN, Picture, panels
from sweeper.draw.scale import TRIAL, Scale, mark, zoom
from sweeper.objective import COST, TIME
from sweeper.report import words
from sweeper.report.report import Report
from sweeper.report.summary import CellSummary, Floats


def picture(report: Report) -> bytes | None:
    summaries = report.found
    if len(summaries[0].objectives) == 1:
        return None
    x, y = (Scale.of(summaries, objective) for objective in summaries[0].objectives)

    def draw(ax: Any, summary: CellSummary) -> None:
        ax.scatter(x.values(summary.complete), y.values(summary.complete), **TRIAL)
        ax.plot(
            x.values(summary.front),
            y.values(summary.front),
            "o-",
            color=BLUE,
            ms=5,
            lw=1.5,
            drawstyle="steps-post",
            label="no trial is better in both",
        )
        if summary.cell.front is not None:
            rows = _proven_front(summary.cell.front)
            line = {"color": GREEN, "lw": 3, "zorder": 1, "label": "proven bound"}
            ax.plot(x.values(rows), y.values(rows), **line)
        mark(ax, summary, lambda row: (x.values(row), y.values(row)))
        zoom(ax, summary, x=x, y=y)

    return panels(summaries, 4, "What one objective costs in the other", words.trade_off, draw)


def _proven_front(proven: Frontier) -> dict[str, Floats]:
    """The bound on the front as rows of a ledger are, close enough to each other for a curve."""
    cost = np.interp(np.arange(0, len(proven.cost), 0.1), range(len(proven.cost)), proven.cost)
    return {COST.column: cost, TIME.column: proven.least_time(cost)}


PICTURE = Picture("pareto.png", "What one objective costs in the other", picture)
