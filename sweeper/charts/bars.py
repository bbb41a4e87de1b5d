"""Charts with a row of bars or marks for each compared item."""

from collections.abc import Sequence

import numpy as np
from bokeh.layouts import column
from bokeh.models import UIElement

from dimsweep.engine import units
from dimsweep.sweeper.charts.chart import Chart
from dimsweep.sweeper.charts.frame import draw_rows
from dimsweep.sweeper.charts.points import Points
from dimsweep.sweeper.questions.what_if import findings as what_if
from dimsweep.sweeper.report import describe, naming
from dimsweep.sweeper.report.charts import Bars, RowChart, chart_best_split, chart_values
from dimsweep.sweeper.report.colours import dimension_colour
from dimsweep.sweeper.report.decisions import Decisions
from dimsweep.sweeper.report.sections import claim_next_bandwidth, common_unit, saved_at_best
from dimsweep.sweeper.report.summary import CellSummary
from dimsweep.sweeper.report.words import seconds


def draw_best_split(points: Points) -> tuple[str, UIElement] | None:
    """Draw the bandwidths of the best split next to the equal split; only for a single cell."""
    (summary, *others) = points.report.found
    if others or not summary.split_varies:
        return None
    return describe.largest_share(summary), draw_rows(chart_best_split(summary))


BEST_SPLIT = Chart("best_split", "The best split", draw_best_split)


_MOST_CELLS = 48  # cells; more are in the tables
_ROW = 30  # pixels
_UNEVEN = 5.0  # factor between bars that share no axis
_Row = tuple[str, CellSummary | None]


def draw_cells(points: Points) -> tuple[str, UIElement] | None:
    """Draw the best value of each cell, and the bandwidth split of each."""
    decisions = points.report.decisions
    cells = [
        decisions.cells[d, s] for s in range(len(decisions.scenarios)) for d in decisions.order(s)
    ]
    if len(points.report.summaries) == 1:
        return None
    shown = cells[:_MOST_CELLS]
    some = f" (the first {_MOST_CELLS} of {len(cells)} cells)" if len(cells) > _MOST_CELLS else ""
    lines = _cell_rows(decisions, shown)
    made = [_draw_values(points, lines)]
    if len({tuple(cell.dims) for cell in shown}) == 1 and any(c.split_varies for c in shown):
        made.append(_draw_splits(points, lines))
    together = ", those of a scenario together" if len(lines) > len(shown) else ""
    return f"the best of each cell{together}{some}", column(*made, sizing_mode="stretch_width")


def _cell_rows(decisions: Decisions, cells: Sequence[CellSummary]) -> list[_Row]:
    """Return a row of text for each cell, grouped under its scenario if decisions compete."""
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


def _draw_values(points: Points, lines: Sequence[_Row]) -> UIElement:
    (objective, *_) = points.report.study.objectives
    names, cells = zip(*lines, strict=True)
    axis = points.axis(objective)

    def text(cell: CellSummary) -> str:
        value = objective.show(objective.value(cell.best))
        return value if cell.reference is None else f"best: {value}"  # beyond the reference's mark

    return draw_rows(chart_values(names, cells, axis, lambda cell: cell.best, text, "best"), _ROW)


def _draw_splits(points: Points, lines: Sequence[_Row]) -> UIElement:
    """Draw the share of bandwidth that the best split of each cell gives to each dimension."""
    none = np.full(len(points.dims), np.nan)
    shares = np.array([none if cell is None else cell.split(cell.best) for _, cell in lines])
    shares *= 100 / shares.sum(axis=1, keepdims=True)
    parts = [
        Bars(values, (), dimension_colour(d), name)
        for d, (name, values) in enumerate(zip(points.dims, shares.T, strict=False))
    ]
    names = [name for name, _ in lines]
    return draw_rows(RowChart(names, "share of the bandwidth (%)", parts=parts, unit="%"), _ROW)


CELLS = Chart("cells", "The cells compared", draw_cells)


def draw_next_bandwidth(points: Points) -> tuple[str, UIElement] | None:
    """Draw the time that more bandwidth, or more money, saves in each dimension."""
    cells = _cells_with_slopes(points)
    if not cells or len({tuple(cell.dims) for cell in cells}) > 1:
        return None
    unit = common_unit(cells)
    saved = np.array([saved_at_best(cell, unit) for cell in cells])
    factor, name = units.scale(float(np.nanmax(saved)), units.TIME)
    title = f"saved by the next {unit} ({name} an iteration)"
    dims = cells[0].dims
    if len(cells) == 1:
        colours = [dimension_colour(d) for d in range(len(dims))]
        bars = Bars(factor * saved[0], [seconds(v) for v in saved[0]], colours, "at the best")
        chart = draw_rows(RowChart(dims, title, [bars], room=0.5))
        return claim_next_bandwidth(cells[0], unit), chart
    names, shown, sums = naming.labels(cells), factor * saved, np.nansum(saved, axis=1)
    if sums.max() > _UNEVEN * sums.min():  # each cell has a separate scale, and its sum in words
        title, name = "share of the saved time (%)", "%"
        shown = 100 * saved / np.where(sums > 0, sums, np.nan)[:, np.newaxis]
        names = [f"{own}: {seconds(total)}" for own, total in zip(names, sums, strict=True)]
    parts = [
        Bars(values, (), dimension_colour(d), dim)
        for d, (dim, values) in enumerate(zip(dims, shown.T, strict=True))
    ]
    chart = draw_rows(RowChart(names, title, parts=parts, unit=name))
    return f"the time that the next {unit} saves, by the dimension it is spent on", chart


def _cells_with_slopes(points: Points) -> list[CellSummary]:
    return [cell for cell in points.report.found if cell.saved() is not None]


def _caption_next_bandwidth(points: Points) -> str:
    unit = common_unit(_cells_with_slopes(points))
    return (
        "Where the next dollar should go"
        if unit == "1,000 USD"
        else f"What the next {unit} is worth"
    )


NEXT_BANDWIDTH = Chart("next_bandwidth", _caption_next_bandwidth, draw_next_bandwidth)


def draw_what_if(points: Points) -> tuple[str, UIElement] | None:
    """Draw the effect of each change on the best designs."""
    found = what_if.chart_changes(points.report.found)
    return None if found is None else (found[0], draw_rows(found[1]))


WHAT_IF = Chart("what_if", "What if one thing were changed", draw_what_if)
