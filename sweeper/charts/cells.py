"""The cells of a grid beside one another, those of a scenario together: the best of each, what it
is compared with, and its bound."""

import numpy as np
from bokeh.layouts import column
from bokeh.models import ColumnDataSource, UIElement

from sweeper.charts.chart import Chart
from sweeper.charts.frame import BLUE, GREEN, ORANGE, PALETTE, bars, legend_above, rows, stacked
from sweeper.charts.points import Points
from sweeper.report import words
from sweeper.report.headline import headline
from sweeper.report.summary import CellSummary

_MOST = 100  # cells; more are in the tables


def draw(points: Points) -> tuple[str, UIElement] | None:
    decisions = points.report.decisions
    cells = [
        decisions.cells[d, s] for s in range(len(decisions.scenarios)) for d in decisions.order(s)
    ]
    if len(points.report.summaries) == 1:
        return None
    shown = cells[:_MOST]
    some = f" (the first {_MOST} of {len(cells)} cells)" if len(cells) > _MOST else ""
    made = [_values(points, shown)]
    if len({tuple(cell.dims) for cell in shown}) == 1 and any(c.split_varies for c in shown):
        made.append(_splits(points, shown))
    return headline(decisions) + some, column(*made, sizing_mode="stretch_width")


def _values(points: Points, cells: list[CellSummary]) -> UIElement:
    objective = cells[0].objective
    factor, title = points.axis(objective)
    best = [objective.of(cell.best) for cell in cells]
    chart = rows([words.label(cell) for cell in cells], title)
    texts = [objective.show(value) for value in best]
    compared, bounds = [_reference(cell) for cell in cells], [_bound(cell) for cell in cells]
    furthest = factor * np.fmax(compared, bounds)
    name = next((cell.reference.name for cell in cells if cell.reference), "")
    bars(chart, factor * np.array(best), texts, BLUE, "best", beyond=furthest)
    marks = (
        (name.removeprefix("the "), "diamond", 12, ORANGE, compared),
        ("proven bound", "dash", 24, GREEN, bounds),
    )
    for legend, marker, size, colour, values in marks:
        if not np.isnan(values).all():
            source = ColumnDataSource(
                {"x": factor * np.array(values), "y": np.arange(len(cells), dtype=float)}
            )
            angle = np.pi / 2 if marker == "dash" else 0.0
            chart.scatter(
                "x",
                "y",
                source=source,
                marker=marker,
                size=size,
                angle=angle,
                color=colour,
                line_width=3 if marker == "dash" else 1,
                legend_label=legend,
            )
    chart.x_range.start = 0.0
    chart.x_range.range_padding = 0.3
    return legend_above(chart)


def _splits(points: Points, cells: list[CellSummary]) -> UIElement:
    """Where the best split of each cell puts the bandwidth."""
    shares = np.array([cell.split(cell.best) for cell in cells])
    shares *= 100 / shares.sum(axis=1, keepdims=True)
    chart = rows([words.label(cell) for cell in cells], "share of the bandwidth (%)")
    colours = PALETTE * len(points.dims)
    stacked(chart, list(zip(points.dims, colours, shares.T, strict=False)), "%")
    return legend_above(chart)


def _reference(cell: CellSummary) -> float:
    return np.nan if cell.reference is None else cell.objective.of(cell.reference.row)


def _bound(cell: CellSummary) -> float:
    return np.nan if cell.bound is None else cell.bound


CHART = Chart("cells", "The cells compared", draw)
