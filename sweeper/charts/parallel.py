"""Parallel coordinates: each design as a line through its bandwidths, its keys and its result."""

from itertools import pairwise

import numpy as np
from bokeh.models import (
    CDSView,
    FixedTicker,
    HoverTool,
    IndexFilter,
    IntersectionFilter,
    LinearInterpolator,
    UIElement,
)
from bokeh.plotting import figure
from bokeh.transform import factor_cmap, transform

from sweeper.charts.chart import Chart
from sweeper.charts.frame import BLUE, GREY, plot
from sweeper.charts.points import Points
from sweeper.charts.scatter import tooltips

_MOST = 600  # designs, the best; more lines hide one another


def draw(points: Points) -> tuple[str, UIElement] | None:
    objective = points.report.study.objectives[0]
    axes = [*points.design, objective.column]
    if len(axes) < 3:
        return None
    n = min(len(points.rows), _MOST)
    chart = plot("", "", 380, x_range=(-0.3, len(axes) - 0.7), y_range=(-0.12, 1.12))
    both = IntersectionFilter(operands=[points.kept, IndexFilter(indices=list(range(n)))])
    view = CDSView(filter=both)
    for i, (left, right) in enumerate(pairwise(axes)):
        _lines(chart, points, view, i, left, right, n)
    _ends(chart, points, axes, n)
    many = f" of {len(points.rows):,}" if n < len(points.rows) else ""
    best = f"the best {n:,}{many} designs" if many else f"all {n:,} designs"
    return f"{best}, and the best one as a thick line; brush to follow some", chart


def _unit(points: Points, name: str, n: int) -> LinearInterpolator:
    values = points.source.data[name][:n]
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    return LinearInterpolator(x=[low, high if high > low else low + 1.0], y=[0.0, 1.0])


def _lines(
    chart: figure, points: Points, view: CDSView, i: int, left: str, right: str, n: int
) -> None:
    """Every design's line from one axis to the next, and the best one's."""
    colours, source = points.colours, points.source
    units = _unit(points, left, n), _unit(points, right, n)
    drawn = chart.segment(
        x0=i,
        x1=i + 1,
        y0=transform(left, units[0]),
        y1=transform(right, units[1]),
        source=source,
        view=view,
        line_color=factor_cmap("bottleneck", list(colours.values()), list(colours)),
        line_alpha=0.25,
        line_width=1.2,
        nonselection_line_alpha=0.03,
        selection_line_alpha=0.8,
    )
    chart.add_tools(HoverTool(renderers=[drawn], tooltips=tooltips(points), limit=1))
    ends = [float(source.data[name][0]) for name in (left, right)]
    y = [np.interp(end, unit.x, [0, 1]) for end, unit in zip(ends, units, strict=True)]
    chart.line([i, i + 1], y, line_width=4, color=BLUE)


def _ends(chart: figure, points: Points, axes: list[str], n: int) -> None:
    """A vertical axis for each column, with its name below and its smallest and largest value."""
    for i, name in enumerate(axes):
        low, high = _unit(points, name, n).x
        chart.line([i, i], [0, 1], color=GREY, line_width=1.5)
        for y, value, baseline in ((0, low, "top"), (1, high, "bottom")):
            chart.text(
                [i],
                [y],
                [f"{value:.4g}"],
                text_align="center",
                text_baseline=baseline,
                text_color=GREY,
                text_font_size="12px",
            )
    chart.xaxis.ticker = FixedTicker(ticks=list(range(len(axes))))
    titles = [points.columns[name].title for name in axes]
    folded = {i: title.replace(": ", ":\n").replace(", ", "\n") for i, title in enumerate(titles)}
    chart.xaxis.major_label_overrides = {i: text.replace(" (", "\n(") for i, text in folded.items()}
    chart.yaxis.visible = chart.xgrid.visible = chart.ygrid.visible = False


CHART = Chart("parallel", "Every design at once", draw, coloured=True)
