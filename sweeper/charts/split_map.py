"""How far from the best split a design may stray: any two columns against each other."""

import numpy as np
from bokeh.layouts import column, row
from bokeh.models import CustomJS, Select, UIElement

from dimsweep.sweeper.charts.chart import Chart
from dimsweep.sweeper.charts.frame import WIDGET, legend_outside, plot
from dimsweep.sweeper.charts.points import Points
from dimsweep.sweeper.charts.ranges import span, useful
from dimsweep.sweeper.charts.scatter import marks, trials
from dimsweep.sweeper.report import words

# An objective's range is the one worth showing at first; a search also tries what is far worse.
_CHOOSE = """
glyphs.forEach((glyph) => { glyph[side] = {field: this.value}; });
axis.axis_label = titles[this.value];
[range.start, range.end] = ranges[this.value];
"""


def draw(points: Points) -> tuple[str, UIElement] | None:
    if not points.design or not points.searched:
        return None
    objective = points.report.study.objectives[0].column
    x, y, claim = points.design[0], objective, "choose what is drawn against what"
    (summary, *others) = points.report.found
    if not others and len(points.design) > 2 and summary.split_varies:
        x, y = (f"b{d}" for d in summary.trials.widest_dims)
        claim = words.tolerance(summary)
    numbers = {name: c.title for name, c in points.columns.items() if c.format}
    ranges = {name: _range(points, name) for name in numbers}
    chart = plot(numbers[x], numbers[y], x_range=span(ranges[x]), y_range=span(ranges[y]))
    drawn = trials(chart, points, x, y)
    glyphs = [drawn.glyph, drawn.selection_glyph, drawn.nonselection_glyph]
    glyphs += [mark.glyph for mark in marks(chart, points, x, y)]
    chosen = []
    for side, axis, value in (("x", chart.xaxis[0], x), ("y", chart.yaxis[0], y)):
        select = Select(
            title=f"{side} axis",
            value=value,
            options=list(numbers.items()),
            width=160,
            stylesheets=[WIDGET],
        )
        arguments = {
            "glyphs": glyphs,
            "axis": axis,
            "titles": numbers,
            "side": side,
            "range": chart.x_range if side == "x" else chart.y_range,
            "ranges": ranges,
        }
        select.js_on_change("value", CustomJS(args=arguments, code=_CHOOSE))
        chosen.append(select)
    return claim, column(row(*chosen), legend_outside(chart), sizing_mode="stretch_width")


def _range(points: Points, name: str) -> tuple[float, float]:
    """What is shown of a column: of an objective what is worth showing, of others all."""
    for objective in points.report.study.objectives:
        if name == objective.column:
            return useful(points.report, objective)
    values = points.source.data[name]
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    return low - margin, high + margin


CHART = Chart("split_map", "How far from the best a design may stray", draw, coloured=True)
