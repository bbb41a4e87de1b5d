"""The cells of a grid beside one another, those of a scenario together: the best of each, what it
is compared with, and its bound."""

from collections.abc import Sequence

import numpy as np
from bokeh.layouts import column
from bokeh.models import ColumnDataSource, UIElement

from dimsweep.sweeper.charts.chart import Chart
from dimsweep.sweeper.charts.frame import bars, legend_outside, rows, stacked
from dimsweep.sweeper.charts.points import Points
from dimsweep.sweeper.report import naming
from dimsweep.sweeper.report.colours import BLUE, GREEN, ORANGE, PALETTE
from dimsweep.sweeper.report.decisions import Decisions
from dimsweep.sweeper.report.summary import CellSummary

_MOST = 48  # cells; more are in the tables
_ROW = 30  # pixels
_Row = tuple[str, CellSummary | None]


def draw(points: Points) -> tuple[str, UIElement] | None:
    decisions = points.report.decisions
    cells = [
        decisions.cells[d, s] for s in range(len(decisions.scenarios)) for d in decisions.order(s)
    ]
    if len(points.report.summaries) == 1:
        return None
    shown = cells[:_MOST]
    some = f" (the first {_MOST} of {len(cells)} cells)" if len(cells) > _MOST else ""
    lines = _lines(decisions, shown)
    made = [_values(points, lines)]
    if len({tuple(cell.dims) for cell in shown}) == 1 and any(c.split_varies for c in shown):
        made.append(_splits(points, lines))
    together = ", those of a scenario together" if len(lines) > len(shown) else ""
    return f"the best of each cell{together}{some}", column(*made, sizing_mode="stretch_width")


def _lines(decisions: Decisions, cells: Sequence[CellSummary]) -> list[_Row]:
    """A row for each cell; where scenarios have several decisions one for the scenario, too, so
    that no name is that of both."""
    if min(len(decisions.decisions), len(decisions.scenarios)) == 1:
        return list(zip(naming.labels(cells), cells, strict=True))
    places = {cell.cell.cell: place for place, cell in decisions.cells.items()}
    found: list[_Row] = []
    last = None
    for cell in cells:
        decision, scenario = places[cell.cell.cell]
        if scenario != last:
            found.append((f"{decisions.scene(scenario)}:", None))
        found.append((decisions.name(decision), cell))
        last = scenario
    return found


def _values(points: Points, lines: Sequence[_Row]) -> UIElement:
    cells = [cell for _, cell in lines]
    (objective, *_) = points.report.study.objectives
    factor, title = points.axis(objective)
    best = [np.nan if cell is None else objective.of(cell.best) for cell in cells]
    chart = rows([name for name, _ in lines], title, _ROW)
    texts = ["" if cell is None else objective.show(objective.of(cell.best)) for cell in cells]
    compared, bounds = [_reference(cell) for cell in cells], [_bound(cell) for cell in cells]
    furthest = factor * np.fmax(compared, bounds)
    names = (cell.reference.name for cell in cells if cell is not None and cell.reference)
    name = next(names, "")
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
    return legend_outside(chart)


def _splits(points: Points, lines: Sequence[_Row]) -> UIElement:
    """Where the best split of each cell puts the bandwidth."""
    none = np.full(len(points.dims), np.nan)
    shares = np.array([none if cell is None else cell.split(cell.best) for _, cell in lines])
    shares *= 100 / shares.sum(axis=1, keepdims=True)
    chart = rows([name for name, _ in lines], "share of the bandwidth (%)", _ROW)
    colours = PALETTE * len(points.dims)
    stacked(chart, list(zip(points.dims, colours, shares.T, strict=False)), "%")
    return legend_outside(chart)


def _reference(cell: CellSummary | None) -> float:
    if cell is None or cell.reference is None:
        return np.nan
    return cell.objective.of(cell.reference.row)


def _bound(cell: CellSummary | None) -> float:
    return np.nan if cell is None or cell.bound is None else cell.bound


CHART = Chart("cells", "The cells compared", draw)
