"""Whether the search converged: every trial, and the best so far."""

from typing import Any

import numpy as np

from sweeper.draw.canvas import BLUE, ORANGE, Picture, panels
from sweeper.draw.scale import TRIAL, Scale, zoom
from sweeper.report import words
from sweeper.report.report import Report
from sweeper.report.summary import CellSummary


def picture(report: Report) -> bytes:
    scale = Scale.of(report.found, report.found[0].objective)

    def draw(ax: Any, summary: CellSummary) -> None:
        values, sign = scale.values(summary.complete), scale.objective.sign
        number = summary.complete["trial"] + 1
        ax.scatter(number, values, **TRIAL)
        best = sign * np.minimum.accumulate(sign * values)
        ax.step(number, best, where="post", color=BLUE, lw=2.2, label="best so far")
        if summary.equal is not None:
            equal = scale.values(summary.equal)
            ax.axhline(equal, color=ORANGE, lw=1.8, ls="--", label="equal split")
        ax.set(xlabel="trials", xlim=(0, number.max() + 1))
        ax.xaxis.get_major_locator().set_params(integer=True)
        zoom(ax, summary, y=scale)

    return panels(report.found, 8, words.headline(report.found), words.convergence, draw)


PICTURE = Picture("convergence.png", "How the search converged", picture)
