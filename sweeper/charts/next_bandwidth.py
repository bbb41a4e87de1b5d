"""Where the next dollar should go, or, without prices, what the next bandwidth is worth: the time
that it saves."""

import numpy as np
from bokeh.models import UIElement

from dimsweep.engine import units
from dimsweep.sweeper.charts.chart import Chart
from dimsweep.sweeper.charts.frame import bars, legend_outside, rows, stacked
from dimsweep.sweeper.charts.points import Points
from dimsweep.sweeper.report import naming
from dimsweep.sweeper.report.colours import dimension_colour
from dimsweep.sweeper.report.sections.next_bandwidth import at_best, claim, common_unit
from dimsweep.sweeper.report.summary import CellSummary
from dimsweep.sweeper.report.words import seconds


def draw(points: Points) -> tuple[str, UIElement] | None:
    cells = _told(points)
    if not cells or len({tuple(cell.dims) for cell in cells}) > 1:
        return None
    unit = common_unit(cells)
    saved = np.array([at_best(cell, unit) for cell in cells])
    factor, name = units.scale(float(np.nanmax(saved)), units.TIME)
    title = f"saved by the next {unit} ({name} an iteration)"
    if len(cells) == 1:
        chart = rows(cells[0].dims, title)
        colours = [dimension_colour(d) for d in range(len(cells[0].dims))]
        bars(chart, factor * saved[0], [seconds(v) for v in saved[0]], colours, "at the best")
        chart.x_range.start, chart.x_range.range_padding = 0.0, 0.5
        return claim(cells[0], unit), chart
    chart = rows(naming.labels(cells), title)
    parts = enumerate(zip(cells[0].dims, factor * saved.T, strict=True))
    stacked(chart, [(dim, dimension_colour(d), values) for d, (dim, values) in parts], name)
    return f"what the next {unit} saves, by the dimension it is spent on", legend_outside(chart)


def _told(points: Points) -> list[CellSummary]:
    return [cell for cell in points.report.found if cell.saved() is not None]


def _caption(points: Points) -> str:
    unit = common_unit(_told(points))
    return (
        "Where the next dollar should go" if unit == "k USD" else f"What the next {unit} is worth"
    )


CHART = Chart("next_bandwidth", _caption, draw)
