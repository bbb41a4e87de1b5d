"""Charts with a row of bars or marks for each thing that is compared."""

from collections.abc import Sequence

import numpy as np
from bokeh.layouts import column
from bokeh.models import ColumnDataSource, HoverTool, Span, UIElement
from bokeh.plotting import figure

from dimsweep.engine import units
from dimsweep.sweeper.charts.chart import Chart
from dimsweep.sweeper.charts.frame import bars, legend_outside, rows, stacked
from dimsweep.sweeper.charts.points import Points
from dimsweep.sweeper.report import naming, words
from dimsweep.sweeper.report.colours import BLUE, GREEN, GREY, ORANGE, PALETTE, dimension_colour
from dimsweep.sweeper.report.decisions import Decisions
from dimsweep.sweeper.report.sections import claim_next_bandwidth, common_unit, saved_at_best
from dimsweep.sweeper.report.summary import CellSummary
from dimsweep.sweeper.report.what_if import WhatIf, claim, factor, groups
from dimsweep.sweeper.report.words import seconds


def draw_best_split(points: Points) -> tuple[str, UIElement] | None:
    (summary, *others) = points.report.found
    if others or not summary.split_varies:
        return None
    best = summary.split(summary.best)
    equal = None if summary.equal is None else summary.split(summary.equal)
    chart = rows(summary.dims, "bandwidth per NPU (GB/s)")
    texts = [f"{words.gbps(b)} ({words.percent(b / best.sum())})" for b in best]
    name = words.best_name(summary)
    colours = [dimension_colour(d) for d in range(len(best))]
    bars(chart, best, texts, colours, name, shift=-0.2 if equal is not None else 0.0)
    if equal is not None:
        bars(chart, equal, [words.gbps(b) for b in equal], ORANGE, "equal split", shift=0.2)
    chart.x_range.start = 0.0  # a bar is as long as what it stands for
    chart.x_range.range_padding = 0.4
    return words.largest_share(summary), legend_outside(chart)


BEST_SPLIT = Chart("best_split", "The best split", draw_best_split)


_MOST_CELLS = 48  # cells; more are in the tables
_ROW = 30  # pixels
_Row = tuple[str, CellSummary | None]


def draw_cells(points: Points) -> tuple[str, UIElement] | None:
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


def _draw_values(points: Points, lines: Sequence[_Row]) -> UIElement:
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


def _draw_splits(points: Points, lines: Sequence[_Row]) -> UIElement:
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


CELLS = Chart("cells", "The cells compared", draw_cells)


def draw_next_bandwidth(points: Points) -> tuple[str, UIElement] | None:
    cells = _cells_with_slopes(points)
    if not cells or len({tuple(cell.dims) for cell in cells}) > 1:
        return None
    unit = common_unit(cells)
    saved = np.array([saved_at_best(cell, unit) for cell in cells])
    factor, name = units.scale(float(np.nanmax(saved)), units.TIME)
    title = f"saved by the next {unit} ({name} an iteration)"
    if len(cells) == 1:
        chart = rows(cells[0].dims, title)
        colours = [dimension_colour(d) for d in range(len(cells[0].dims))]
        bars(chart, factor * saved[0], [seconds(v) for v in saved[0]], colours, "at the best")
        chart.x_range.start, chart.x_range.range_padding = 0.0, 0.5
        return claim_next_bandwidth(cells[0], unit), chart
    chart = rows(naming.labels(cells), title)
    parts = enumerate(zip(cells[0].dims, factor * saved.T, strict=True))
    stacked(chart, [(dim, dimension_colour(d), values) for d, (dim, values) in parts], name)
    return f"what the next {unit} saves, by the dimension it is spent on", legend_outside(chart)


def _cells_with_slopes(points: Points) -> list[CellSummary]:
    return [cell for cell in points.report.found if cell.saved() is not None]


def _caption_next_bandwidth(points: Points) -> str:
    unit = common_unit(_cells_with_slopes(points))
    return (
        "Where the next dollar should go" if unit == "k USD" else f"What the next {unit} is worth"
    )


NEXT_BANDWIDTH = Chart("next_bandwidth", _caption_next_bandwidth, draw_next_bandwidth)


_MOST_CHANGES = 16  # changes, those with the largest effect
_CELLS_SHOWN = 8  # told apart by colour
_CHANGE_TITLE = "change of throughput (%)"


def draw_what_if(points: Points) -> tuple[str, UIElement] | None:
    told = [cell for cell in points.report.found if groups(cell)]
    found = {name: groups(cell) for name, cell in zip(naming.labels(told), told, strict=True)}
    if len(found) > 1:
        return _draw_cells({name: own[0] for name, own in list(found.items())[:_CELLS_SHOWN]})
    for own in found.values():
        if any(not each.failed and not each.is_idle for each in own[0]):
            return _draw_designs(own)
    return None


def _draw_designs(of: list[list[WhatIf]]) -> tuple[str, UIElement]:
    """Bars for the best design, and for the baseline if there is one; else what is got for a
    dollar, where that is known."""
    # What is asked of the baseline alone, as its plan is another, comes after the best design's.
    told = [each for own in of for each in own if not each.failed and not each.is_idle]
    names = list(dict.fromkeys(each.name for each in told))[:_MOST_CHANGES]
    series = []
    for name, own in zip(("the best design", "the baseline"), of, strict=False):
        speeds = {each.name: each.speed for each in own}
        series.append((name, [speeds.get(each, np.nan) for each in names]))
    shown = told[: len(names)]
    if len(of) == 1 and all(np.isfinite(each.per_cost) for each in shown):
        series[0] = ("throughput", series[0][1])
        series.append(("throughput per USD", [each.per_cost for each in shown]))
    chart = _change_rows(names)
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
    names = sorted(sizes, key=lambda name: -sizes[name])[:_MOST_CHANGES]
    if not names:
        return None
    chart = _change_rows(names)
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


def _change_rows(names: list[str]) -> figure:
    chart = rows(names, _CHANGE_TITLE)
    chart.x_range.range_padding = 0.3
    chart.add_layout(Span(location=0, dimension="height", line_color=GREY))
    return chart


WHAT_IF = Chart("what_if", "What if one thing were changed", draw_what_if)
