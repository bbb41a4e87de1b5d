"""Parallel coordinates: each design as a line through its bandwidths, its keys and its result."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from bokeh.models import (
    CDSView,
    FixedTicker,
    IndexFilter,
    IntersectionFilter,
    LinearInterpolator,
    UIElement,
)
from bokeh.plotting import figure
from bokeh.transform import factor_cmap, transform

from dimsweep.sweeper.charts.chart import Chart
from dimsweep.sweeper.charts.frame import plot, small_hover
from dimsweep.sweeper.charts.points import Points
from dimsweep.sweeper.charts.scatter import tooltip
from dimsweep.sweeper.report import words
from dimsweep.sweeper.report.colours import BLUE, GREY
from dimsweep.sweeper.report.naming import folded

_MOST = 600  # designs, the best; more lines hide one another
_FEW = 8  # values of a key that have a place each
_WIDE = 92  # pixels of an axis; narrower, its name would run into the next one's


@dataclass(frozen=True)
class _Axis:
    """A vertical axis: the column that it is of, its name, where values lie on it (from 0 to 1),
    and what is written where."""

    column: str
    title: str
    unit: LinearInterpolator
    marks: Sequence[tuple[float, str]]


def draw(points: Points) -> tuple[str, UIElement] | None:
    objective = points.report.study.objectives[0]
    n = min(len(points.rows), _MOST)
    keys = [key for key in points.report.study.parameters if points.differs(key)]
    numbers = [name for name in points.design if name not in keys]
    axes = [_axis(points, name, n) for name in (*numbers, *keys, objective.column)]
    if len(axes) < 3 or not points.searched:
        return None
    chart = plot("", "", 380, x_range=(-0.5, len(axes) - 0.5), y_range=(-0.12, 1.12))
    chart.min_width = _WIDE * len(axes)  # its section scrolls on a narrow page
    both = IntersectionFilter(operands=[points.kept, IndexFilter(indices=list(range(n)))])
    view = CDSView(filter=both)
    for i, (left, right) in enumerate(pairwise(axes)):
        _lines(chart, points, view, i, left, right)
    _ends(chart, axes)
    many = f" of {points.n:,}" if n < points.n else ""
    lines = f"the best {n:,}{many} designs" if many else f"all {n:,} designs"
    decisions = points.report.decisions
    several = len(decisions.scenarios) > 1
    which = f"the best one {decisions.first}," if several else "the best one"
    return f"{lines}, and {which} as a thick line; brush to follow some", chart


def _axis(points: Points, name: str, n: int) -> _Axis:
    """A key of few values has a place for each; anything else lies between its ends."""
    title = points.columns[name].title
    if name in points.report.study.parameters:
        column, values = points.coded(name)
        if len(values) <= _FEW or points.columns[name].format is None:
            places = np.linspace(0, 1, len(values)).tolist()
            unit = LinearInterpolator(x=list(map(float, range(len(values)))), y=places)
            shown = (
                values
                if len(values) <= _FEW
                else [values[0], *[""] * (len(values) - 2), values[-1]]
            )
            return _Axis(column, title, unit, list(zip(places, shown, strict=True)))
    values = points.source.data[name][:n]
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    unit = LinearInterpolator(x=[low, high if high > low else low + 1.0], y=[0.0, 1.0])
    ends = [(y, words.number(float(f"{value:.4g}"))) for y, value in ((0.0, low), (1.0, high))]
    return _Axis(name, title, unit, ends)


def _lines(chart: figure, points: Points, view: CDSView, i: int, left: _Axis, right: _Axis) -> None:
    """Every design's line from one axis to the next, and that of the answer."""
    colours, source = points.colours, points.source
    drawn = chart.segment(
        x0=i,
        x1=i + 1,
        y0=transform(left.column, left.unit),
        y1=transform(right.column, right.unit),
        source=source,
        view=view,
        line_color=factor_cmap("bottleneck", list(colours.values()), list(colours)),
        line_alpha=0.25,
        line_width=1.2,
        nonselection_line_alpha=0.03,
        selection_line_alpha=0.8,
    )
    chart.add_tools(small_hover(drawn, tooltip(points)))
    best = points.place(points.report.decisions.chosen()[0].best)
    ends = [(float(source.data[axis.column][best]), axis.unit) for axis in (left, right)]
    y = [np.interp(end, unit.x, unit.y) for end, unit in ends]
    chart.line([i, i + 1], y, line_width=4, color=BLUE)


def _ends(chart: figure, axes: Sequence[_Axis]) -> None:
    """A vertical axis for each column, with its name below and its values on it."""
    for i, axis in enumerate(axes):
        chart.line([i, i], [0, 1], color=GREY, line_width=1.5)
        for y, text in axis.marks:
            inside = 0 < y < 1
            chart.text(
                [i],
                [y],
                [text],
                x_offset=5 if inside else 0,
                text_align="left" if inside else "center",
                text_baseline="middle" if inside else "bottom" if y else "top",
                text_color=GREY,
                text_font_size="12px",
            )
    chart.xaxis.ticker = FixedTicker(ticks=list(range(len(axes))))
    titles = [axis.title.replace(" (", "\n(").replace(", GB/s", "\nGB/s") for axis in axes]
    lines = [[folded(line, 13) for line in title.split("\n")] for title in titles]
    chart.xaxis.major_label_overrides = {i: "\n".join(each) for i, each in enumerate(lines)}
    chart.yaxis.visible = chart.xgrid.visible = chart.ygrid.visible = False


CHART = Chart("parallel", "Every design at once", draw, coloured=True)
