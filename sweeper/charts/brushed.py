"""Charts of all trials; trials selected (brushed) in one chart are marked in all of them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from bokeh.layouts import column, row
from bokeh.models import (
    CDSView,
    ColumnDataSource,
    CustomJS,
    DataTable,
    FixedTicker,
    GlyphRenderer,
    IndexFilter,
    IntersectionFilter,
    LinearInterpolator,
    NumberFormatter,
    Select,
    Span,
    StringFormatter,
    TableColumn,
    UIElement,
)
from bokeh.plotting import figure
from bokeh.transform import factor_cmap, transform

from dimsweep.engine.bound import Frontier
from dimsweep.sweeper.charts.chart import Chart
from dimsweep.sweeper.charts.frame import WIDGET, format_tip, legend_outside, plot, small_hover
from dimsweep.sweeper.charts.points import (
    RELATIVE,
    Points,
    scale,
    span,
    useful,
    useful_relative,
)
from dimsweep.sweeper.ledger.record import Proof
from dimsweep.sweeper.objective import COST, TIME
from dimsweep.sweeper.questions.networks.findings import trade
from dimsweep.sweeper.report import describe, naming, words
from dimsweep.sweeper.report.colours import BLUE, GREEN, GREY, ORANGE
from dimsweep.sweeper.report.naming import folded
from dimsweep.sweeper.report.summary import Floats

_MARKED = 60  # cells whose best trials are marked


def tooltip(points: Points) -> str:
    """Return the tooltip text of a trial: objectives, split, keys, cell and bottleneck."""

    def value(name: str) -> str:
        column = points.columns[name]
        return f"@{{{name}}}{{{column.format}}}" if column.format else f"@{{{name}}}"

    report = points.report
    unit = {o: points.axis(o)[1] for o in report.study.objectives}
    lines = [f"{value(o.column)} {_in_brackets(unit[o])}" for o in report.study.objectives]
    if any(name.startswith("b") for name in points.design):
        split = " | ".join(value(f"b{d}") for d in range(len(points.dims)))
        lines.append(f"{split} GB/s")
    keys = report.study.parameters
    names = zip(naming.short_keys(keys), keys, strict=True)
    lines += [", ".join(f"{short} {value(key)}" for short, key in names)] if keys else []
    lines += [value("cell")] if "cell" in points.columns else []
    return format_tip(*lines, f"trial {value('trial')}, bottleneck {value('bottleneck')}")


def _in_brackets(title: str) -> str:
    """Return the unit in the title of an axis, such as ms in "iteration time (ms)"."""
    return title.rsplit("(", 1)[-1].removesuffix(")")


def trials(chart: figure, points: Points, x: str, y: str) -> GlyphRenderer:
    """Draw all trials as points, at the values of the columns ``x`` and ``y``."""
    colours = points.colours
    drawn = chart.scatter(
        x,
        y,
        source=points.source,
        view=points.view,
        size=5,
        line_color=None,
        fill_color=factor_cmap("bottleneck", list(colours.values()), list(colours)),
        fill_alpha=0.6,
        nonselection_fill_alpha=0.06,
        selection_fill_alpha=0.9,
    )
    chart.add_tools(small_hover(drawn, tooltip(points)))
    return drawn


def marks(chart: figure, points: Points, x: str, y: str) -> list[GlyphRenderer]:
    """Mark the best trial and the equal split of each cell; nothing if there are many cells."""
    cells = points.report.found[:_MARKED]
    best = [points.place(cell.best) for cell in cells]
    equal = [points.place(cell.equal) for cell in cells if cell.equal is not None]
    named = (("best", best, "star", 17, BLUE), ("equal split", equal, "diamond", 13, ORANGE))
    return [
        chart.scatter(
            x,
            y,
            source=ColumnDataSource({name: points.take(name, places) for name in points.columns}),
            marker=marker,
            size=size,
            color=colour,
            line_color="white",
            legend_label=name,
        )
        for name, places, marker, size, colour in named
        if places
    ]


_LOG_RATIO = 5.0  # of an axis: a front bends where little is gained, which is near one end
_MOST_FRONTS = 12  # fronts; more would be a tangle


def draw_front(points: Points) -> tuple[str, UIElement] | None:
    """Draw the Pareto front of two objectives, and its proven bound."""
    cells = points.report.found
    if len(cells[0].objectives) == 1:
        return None
    x, y = cells[0].objectives
    (fx, x_title), (fy, y_title) = points.axis(x), points.axis(y)
    ends = useful(points.report, x), useful(points.report, y)
    chart = plot(
        x_title,
        y_title,
        420,
        x_range=span(ends[0]),
        y_range=span(ends[1]),
        x_axis_type=scale(ends[0], _LOG_RATIO),
        y_axis_type=scale(ends[1], _LOG_RATIO),
    )
    trials(chart, points, x.column, y.column)
    if claim := trade(points.report.study):
        _draw_proof(chart, points.report.study.proof, fx, fy)
        marks(chart, points, x.column, y.column)
        return claim, legend_outside(chart)
    for cell in cells[:_MOST_FRONTS]:
        chart.step(
            fx * cell.front[x.column].to_numpy(float),
            fy * cell.front[y.column].to_numpy(float),
            mode="after",
            line_width=2,
            color=BLUE,
            legend_label="no trial is better in both",
        )
        if cell.cell.front is not None:
            proven = _proven_front(cell.cell.front)
            chart.line(
                fx * proven[x.column],
                fy * proven[y.column],
                line_width=3,
                color=GREEN,
                legend_label="proven bound",
            )
    marks(chart, points, x.column, y.column)
    claim = describe.trade_off(cells[0]) if len(cells) == 1 else f"{len(cells)} fronts"
    return claim, legend_outside(chart)


def _draw_proof(chart: figure, proof: Proof | None, fx: float, fy: float) -> None:
    """Draw the time-cost steps below which no network and plan can be.

    ``fx`` and ``fy`` are the factors of the axes.
    """
    front = () if proof is None else proof.front
    chart.step(
        fx * np.array([step.bound for step in front]),
        fy * np.array([step.cost for step in front]),
        mode="after",
        line_width=3,
        color=GREEN,
        legend_label="no design is below",
    )


def _proven_front(proven: Frontier) -> dict[str, Floats]:
    """Return the bound on the front, as columns of a ledger, with enough points for a curve."""
    cost = np.interp(np.arange(0, len(proven.cost), 0.1), range(len(proven.cost)), proven.cost)
    return {COST.column: cost, TIME.column: proven.minimum_time(cost)}


FRONT = Chart("front", "What one objective costs in the other", draw_front, coloured=True)


_MOST_SEARCHES = 24  # searches; more lines would be a tangle


def draw_convergence(points: Points) -> tuple[str, UIElement] | None:
    """Draw the trials in order of their numbers, and the best value so far of each search."""
    cells = points.report.found
    if max(cell.trials.n_complete for cell in cells) < 3:
        return None
    objective = cells[0].objective
    column = points.shown_column(objective)
    title = points.columns[column].title
    ends = _range(points, column)
    chart = plot("trial", title, y_range=span(ends), y_axis_type=scale(ends))
    trials(chart, points, "trial", column)
    for cell in cells[:_MOST_SEARCHES]:
        steps = cell.trials.steps
        best = points.scaled(cell, objective, steps[objective.column].to_numpy(float))
        chart.step(
            np.append(steps["trial"].to_numpy(), cell.trials.last),
            np.append(best, best[-1]),
            mode="after",
            line_width=2,
            color=BLUE,
            legend_label="best so far",
        )
    marks(chart, points, "trial", column)
    if len(cells) == 1:
        factor, _ = points.axis(objective)
        for value, colour in ((_equal(points), ORANGE), (cells[0].bound, GREEN)):
            if value is not None:
                line = Span(
                    location=factor * value,
                    dimension="width",
                    line_color=colour,
                    line_dash="dashed",
                    line_width=2,
                )
                chart.add_layout(line)
        return describe.convergence(cells[0]), legend_outside(chart)
    return f"{len(cells)} searches", legend_outside(chart)


def _equal(points: Points) -> float | None:
    (cell,) = points.report.found
    return None if cell.equal is None else cell.objective.value(cell.equal)


CONVERGENCE = Chart("convergence", "How the search converged", draw_convergence, coloured=True)


# An objective's range is the one worth showing at first; a search also tries what is far worse.
_CHOOSE = """
glyphs.forEach((glyph) => { glyph[side] = {field: this.value}; });
axis.axis_label = titles[this.value];
[range.start, range.end] = ranges[this.value];
"""


def draw_split_map(points: Points) -> tuple[str, UIElement] | None:
    """Draw the trials over two columns that the reader chooses."""
    if not points.design or not points.searched:
        return None
    shown = points.shown_column(points.report.study.objectives[0])
    x, y, claim = points.design[0], shown, "choose what is drawn against what"
    (summary, *others) = points.report.found
    if not others and len(points.design) > 2 and summary.split_varies:
        x, y = (f"b{d}" for d in summary.trials.widest_dims)
        claim = describe.tolerance(summary)
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
    """Return the visible range of a column: its useful part for an objective, else all of it."""
    if name == RELATIVE:
        return useful_relative(points.report)
    for objective in points.report.study.objectives:
        if name == objective.column:
            return useful(points.report, objective)
    values = points.source.data[name]
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    return low - margin, high + margin


SPLIT_MAP = Chart(
    "split_map", "How far from the best a design may stray", draw_split_map, coloured=True
)


_MOST_LINES = 600  # designs, the best; more lines hide one another
_FEW = 8  # values of a key that have a place each
_INNER_CAPITAL = r"(?<=[a-z])(?=[A-Z])"  # where a long name of a block may break
_WIDE = 66  # pixels of an axis; narrower, its name would run into the next one's


@dataclass(frozen=True)
class _Axis:
    """A vertical axis of the parallel plot: its column, name, and values' positions (0 to 1)."""

    column: str
    title: str
    unit: LinearInterpolator
    marks: Sequence[tuple[float, str]]


def draw_parallel(points: Points) -> tuple[str, UIElement] | None:
    """Draw a parallel plot: a line for each design, through an axis for each varied column."""
    objective = points.report.study.objectives[0]
    n = min(len(points.rows), _MOST_LINES)
    keys = [key for key in points.report.study.parameters if points.differs(key)]
    numbers = [name for name in points.design if name not in keys]
    shown = points.shown_column(objective)
    axes = [_axis(points, name, n) for name in (*numbers, *keys, shown)]
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
    which = f"the best one {decisions.first_scenario}," if several else "the best one"
    return f"{lines}, and {which} as a thick line; brush to follow some", chart


def _axis(points: Points, name: str, n: int) -> _Axis:
    """Return the ``n``-th axis, of a column; a key with few values has equally spaced positions."""
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
    """Draw each design's line between two neighbouring axes, and the answer's line on top."""
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
    """Draw a vertical axis for each column, with its name below it and its values on it."""
    for i, axis in enumerate(axes):
        chart.line([i, i], [0, 1], color=GREY, line_width=1.5)
        for y, text in axis.marks:
            inside = 0 < y < 1
            chart.text(
                [i],
                [y],
                [text],
                x_offset=5 if inside else 0,
                y_offset=0 if inside else -4 if y else 4,
                text_align="left" if inside else "center",
                text_baseline="middle" if inside else "bottom" if y else "top",
                text_color=GREY,
                text_font_size="12px",
            )
    chart.xaxis.ticker = FixedTicker(ticks=list(range(len(axes))))
    titles = [axis.title.replace(" (", "\n(").replace(", GB/s", "\nGB/s") for axis in axes]
    parts = [re.sub(_INNER_CAPITAL, "\n", title).split("\n") for title in titles]
    lines = [[folded(line, 11, len(line)) for line in each] for each in parts]
    chart.xaxis.major_label_overrides = {i: "\n".join(each) for i, each in enumerate(lines)}
    chart.yaxis.visible = chart.xgrid.visible = chart.ygrid.visible = False


PARALLEL = Chart("parallel", "Every design at once", draw_parallel, coloured=True)


# Conditions such as "time < 700, origin = tpe, 1: > 50": a part of a column's title, and a value.
_FILTER = """
const n = source.get_length() ?? 0;
const titles = Object.entries(names);
const tests = [];
let wrong = "";
for (const each of box.value.split(",")) {
  if (!each.trim()) continue;
  const found = each.match(/^\\s*(.+?)\\s*(<=|>=|!=|=|<|>)\\s*(.+?)\\s*$/);
  const name = found?.[1].toLowerCase();
  const field = titles.find(([_, t]) => t.toLowerCase() === name)
    ?? titles.find(([_, t]) => name != null && t.toLowerCase().includes(name));
  if (field == null) { wrong = `; "${each.trim()}" names no column`; continue; }
  const values = source.data[field[0]];
  const text = found[3].toLowerCase(), number = Number(found[3]);
  const same = (v) => typeof v === "number" ? v === number : v.toLowerCase().includes(text);
  const holds = {
    "<": (v) => v < number, ">": (v) => v > number,
    "<=": (v) => v <= number, ">=": (v) => v >= number,
    "=": same, "!=": (v) => !same(v),
  }[found[2]];
  tests.push((i) => holds(values[i]));
}
const kept = [];
for (let i = 0; i < n; i++) if (tests.every((test) => test(i))) kept.push(i);
const brushed = new Set(source.selected.indices);
const shown = brushed.size ? kept.filter((i) => brushed.has(i)) : kept;
if (cb_obj !== source.selected) charts.indices = tests.length ? kept : null;
listed.indices = shown.length < n ? shown : null;
const how = brushed.size ? ", brushed" : "";
box.title = `${shown.length.toLocaleString()} of ${n.toLocaleString()} ${what}${how}${wrong}`;
"""

_LETTER, _SORT = 7.5, 26  # pixels: of a letter, and of a head's arrow and padding
_NARROWEST, _WIDEST = 76, 320


def draw_table(points: Points) -> tuple[str, UIElement] | None:
    """Draw a sortable table of all trials, with a text box for filter conditions."""
    box, n = points.box, len(points.rows)
    what = "trials" if n == points.n else f"trials that can be seen, of {points.n:,} in all"
    box.title = f"{n:,} of {n:,} {what}"
    box.placeholder = "such as: bottleneck = compute, trial < 100"
    box.sizing_mode, box.stylesheets = "stretch_width", [WIDGET]
    titles = {name: each.title for name, each in points.columns.items()}
    arguments = {
        "source": points.source,
        "names": titles,
        "box": box,
        "charts": points.kept,
        "listed": points.listed,
        "what": what,
    }
    apply = CustomJS(args=arguments, code=_FILTER)
    box.js_on_change("value", apply)
    points.source.selected.js_on_change("indices", apply)
    objectives = len(points.report.study.objectives)
    table = DataTable(
        source=points.source,
        view=CDSView(filter=points.listed),
        columns=[
            TableColumn(
                field=name,
                title=each.title,
                width=_column_width(points, name),
                formatter=NumberFormatter(format=each.format, text_align="right")
                if each.format
                else StringFormatter(),
            )
            for name, each in points.columns.items()
        ],
        height=420,
        sizing_mode="stretch_width",
        autosize_mode="none",
        reorderable=False,
        stylesheets=[WIDGET],
        index_position=None,
        frozen_columns=1 if objectives == 1 else None,  # two would leave a phone nothing else
    )
    claim = (
        "a click on a column sorts, conditions filter the charts too, and what is brushed in a "
        "chart is listed here"
    )
    if n < points.n:
        claim += "; a trial whose mark in each chart is hidden by others' is left out"
    return claim, column(box, table, sizing_mode="stretch_width")


def _column_width(points: Points, name: str) -> int:
    """Return the width of a table column in pixels, wide enough for its title and its texts."""
    column = points.columns[name]
    texts = [] if column.format else set(points.source.data[name])
    longest = max(map(len, texts), default=0)
    return int(
        min(max(_NARROWEST, _LETTER * len(column.title) + _SORT, _LETTER * longest), _WIDEST)
    )


def _caption_table(points: Points) -> str:
    return "All trials" if len(points.rows) == points.n else "The trials that can be seen"


TABLE = Chart("trials", _caption_table, draw_table)
