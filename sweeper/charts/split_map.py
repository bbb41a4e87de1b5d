"""How far from the best split a design may stray: any two columns against each other."""

from bokeh.layouts import column, row
from bokeh.models import CustomJS, Select, UIElement

from sweeper.charts.chart import Chart
from sweeper.charts.frame import WIDGET, legend_above, plot
from sweeper.charts.points import Points
from sweeper.charts.scatter import marks, trials
from sweeper.report import words

_CHOOSE = """
glyphs.forEach((glyph) => { glyph[side] = {field: this.value}; });
axis.axis_label = titles[this.value];
"""


def draw(points: Points) -> tuple[str, UIElement] | None:
    if not points.design:
        return None
    objective = points.report.study.objectives[0].column
    x, y, claim = points.design[0], objective, "choose what is drawn against what"
    (summary, *others) = points.report.found
    if not others and len(points.design) > 2 and summary.split_varies:
        x, y = (f"b{d}" for d in summary.widest_dims())
        claim = words.tolerance(summary)
    numbers = {name: c.title for name, c in points.columns.items() if c.format}
    chart = plot(numbers[x], numbers[y])
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
        arguments = {"glyphs": glyphs, "axis": axis, "titles": numbers, "side": side}
        select.js_on_change("value", CustomJS(args=arguments, code=_CHOOSE))
        chosen.append(select)
    return claim, column(row(*chosen), legend_above(chart), sizing_mode="stretch_width")


CHART = Chart("split_map", "How far from the best a design may stray", draw, coloured=True)
