"""Where the next dollar, or the next bandwidth, should go: the time that it saves."""

from typing import Any

import numpy as np

from engine import units
from sweeper.draw.canvas import BLUE, ORANGE, Bars, Picture, draw_bars, panels
from sweeper.report.report import Report
from sweeper.report.sections.next_bandwidth import at_optimum, claim, common_unit, per
from sweeper.report.summary import CellSummary, Floats
from sweeper.report.words import seconds


def picture(report: Report) -> bytes | None:
    summaries = [s for s in report.found if s.saved() is not None]
    if not summaries:
        return None
    unit = common_unit(summaries)
    longest = max(float(np.nanmax(at_optimum(s, unit))) for s in summaries)
    factor, name = units.scale(longest, units.TIME)

    def bars(saved: Floats, colour: str, label: str) -> Bars:
        return Bars(np.nan_to_num(saved) * factor, [seconds(v) for v in saved], colour, label)

    def draw(ax: Any, summary: CellSummary) -> None:
        shown = [bars(at_optimum(summary, unit), BLUE, "at the best")]
        equal = None if summary.equal is None else summary.saved(summary.equal)
        if equal is not None and (found := per(summary, equal, unit)) is not None:
            shown.append(bars(found, ORANGE, "at the equal split, in this dimension alone"))
        draw_bars(ax, summary.dims, shown)
        ax.margins(x=0.2)
        ax.set_xlabel(f"saved by the next {unit} ({name} an iteration)")

    overview = f"What the next {unit} saves, by the dimension that it is spent on"
    return panels(summaries, 8, overview, lambda s: claim(s, unit), draw)


PICTURE = Picture("worth.png", "Where the next dollar should go", picture)
