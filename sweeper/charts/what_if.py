"""How much faster or slower one change makes a design, the rest of it as it is."""

import numpy as np
from bokeh.models import ColumnDataSource, HoverTool, Span, UIElement
from bokeh.plotting import figure

from dimsweep.sweeper.charts.chart import Chart
from dimsweep.sweeper.charts.frame import bars, legend_outside, rows
from dimsweep.sweeper.charts.points import Points
from dimsweep.sweeper.report import naming
from dimsweep.sweeper.report.colours import BLUE, GREY, ORANGE, PALETTE
from dimsweep.sweeper.report.what_if import WhatIf, claim, factor, groups

_MOST = 16  # changes, those with the largest effect
_CELLS = 8  # told apart by colour
_TITLE = "change of throughput (%)"


def draw(points: Points) -> tuple[str, UIElement] | None:
    told = [cell for cell in points.report.found if groups(cell)]
    found = {name: groups(cell) for name, cell in zip(naming.labels(told), told, strict=True)}
    if len(found) > 1:
        return _draw_cells({name: own[0] for name, own in list(found.items())[:_CELLS]})
    for own in found.values():
        if any(not each.failed and not each.is_idle for each in own[0]):
            return _draw_designs(own)
    return None


def _draw_designs(of: list[list[WhatIf]]) -> tuple[str, UIElement]:
    """Bars for the best design, and for the baseline if there is one; else what is got for a
    dollar, where that is known."""
    # What is asked of the baseline alone, as its plan is another, comes after the best design's.
    told = [each for own in of for each in own if not each.failed and not each.is_idle]
    names = list(dict.fromkeys(each.name for each in told))[:_MOST]
    series = []
    for name, own in zip(("the best design", "the baseline"), of, strict=False):
        speeds = {each.name: each.speed for each in own}
        series.append((name, [speeds.get(each, np.nan) for each in names]))
    shown = told[: len(names)]
    if len(of) == 1 and all(np.isfinite(each.per_cost) for each in shown):
        series[0] = ("throughput", series[0][1])
        series.append(("throughput per USD", [each.per_cost for each in shown]))
    chart = _rows(names)
    chart.x_range.start = 105 * min(0.0, np.nanmin([values for _, values in series]) - 1)
    for i, ((name, values), colour) in enumerate(zip(series, (BLUE, ORANGE), strict=False)):
        shift = 0.0 if len(series) == 1 else 0.38 * (i - 0.5)
        percent = 100 * (np.array(values) - 1)
        texts = [factor(value) if np.isfinite(value) else "" for value in values]
        bars(chart, percent, texts, colour, name, shift=shift, beyond=np.zeros(len(values)))
    return f"{claim(of[0])}; the rest of the design stays as it is", legend_outside(chart)


def _draw_cells(of: dict[str, list[WhatIf]]) -> tuple[str, UIElement] | None:
    """A mark for each cell."""
    own = [each for changes in of.values() for each in changes if not each.failed]
    sizes: dict[str, float] = {}
    for each in own:
        if each.speed != 1:  # prices alone say nothing here
            sizes[each.name] = max(sizes.get(each.name, 0.0), abs(np.log(each.speed)))
    names = sorted(sizes, key=lambda name: -sizes[name])[:_MOST]
    if not names:
        return None
    chart = _rows(names)
    common, own_names = _apart(list(of))
    for cell, changes, colour in zip(own_names, of.values(), PALETTE, strict=False):
        there = [each for each in changes if each.name in names and not each.failed]
        source = ColumnDataSource(
            {
                "y": [names.index(each.name) for each in there],
                "x": [100 * (each.speed - 1) for each in there],
                "text": [factor(each.speed) for each in there],
            }
        )
        drawn = chart.scatter("x", "y", source=source, size=10, color=colour, legend_label=cell)
        chart.add_tools(HoverTool(renderers=[drawn], tooltips=[(cell, "@text")]))
    all_with = f", all with {common}" if common else ""
    text = f"the best designs of {len(of)} cells{all_with}, the rest of each as it is"
    return text, legend_outside(chart)


def _apart(labels: list[str]) -> tuple[str, list[str]]:
    """What all labels have in common, and what each has of its own."""
    parts = [label.split(", ") for label in labels]
    common = [part for part in parts[0] if all(part in own for own in parts)]
    own = [", ".join(part for part in each if part not in common) for each in parts]
    return (", ".join(common), own) if all(own) else ("", labels)


def _rows(names: list[str]) -> figure:
    chart = rows(names, _TITLE)
    chart.x_range.range_padding = 0.3
    chart.add_layout(Span(location=0, dimension="height", line_color=GREY))
    return chart


CHART = Chart("what_if", "What if one thing were changed", draw)
