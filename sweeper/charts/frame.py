"""The style that all charts share: figure, colours, bars, and rows with names.

Colours of lines, axes and backgrounds that depend on the reader's light or dark scheme are CSS
variables of the page (``--bk-...``), which Bokeh reads; the others are those of
:mod:`sweeper.report.colours`, which colour-blind readers can distinguish on either ground.
"""

from collections.abc import Sequence
from html import escape
from itertools import pairwise
from typing import Any

import numpy as np
from bokeh.core.property.vectorization import Value, value
from bokeh.models import (
    AdaptiveTicker,
    CategoricalAxis,
    ColumnDataSource,
    CustomJS,
    CustomJSTickFormatter,
    FixedTicker,
    GlyphRenderer,
    HoverTool,
    LegendItem,
    Span,
)
from bokeh.plotting import figure

from dimsweep.sweeper.report.charts import Bars, Marks, RowChart
from dimsweep.sweeper.report.colours import GREY
from dimsweep.sweeper.report.naming import fold_distinctly, folded
from dimsweep.sweeper.report.summary import Floats

# Tables and inputs are HTML of their own, which no variable of Bokeh's reaches.
WIDGET = """.bk-input, .slick-cell-checkboxsel, .bk-cell-select, .slick-header-column, .slick-row,
.slick-viewport {
  background-color: var(--paper) !important; color: var(--ink) !important;
  border-color: var(--line) !important; }
.slick-row.odd { background-color: var(--raised) !important; }
select.bk-input { background: var(--paper) no-repeat !important;
  background-image: linear-gradient(45deg, transparent 50%, var(--ink) 50%),
    linear-gradient(-45deg, transparent 50%, var(--ink) 50%) !important;
  background-position: right 13px center, right 8px center !important;
  background-size: 5px 5px !important; }
.slick-cell.selected { background-color: var(--marked) !important; }"""
# What words.number does, where only the browser knows the ticks.
NUMBER = """
const large = Math.abs(tick) >= 1e5;
const [size, prefix] = [[1e12, " T"], [1e9, " G"], [1e6, " M"], [1e3, " k"], [1, ""]]
  .find(([size]) => size == 1 || large && Math.abs(tick) >= size);
return (tick / size).toLocaleString("en-US", {maximumSignificantDigits: 6}) + prefix;
"""
ROW, _LINE = 40, 14  # pixels of a row, and of a line of its name
_PHONE = 340  # pixels of its page
_TICKS = 4  # numbers along a chart that may be as narrow as a phone
_TITLE = 30  # letters of a line of an axis's label
_KEY, _ITEM = 28, 24  # pixels: of the colour in a legend, and of the height of an item
_LETTER, _LETTERS = 6, 46  # of a name in a legend: pixels of a letter, letters of a line
_MOST = 3  # lines of a legend above a chart
_TIP = (
    "font: 11px/1.35 system-ui, sans-serif; max-width: 15rem; white-space: normal; "
    "color: var(--ink); background: var(--paper)"
)


def plot(x: str, y: str, height: int = 360, **options: Any) -> figure:
    """Return an empty figure as wide as the page, with tools to brush, zoom and save.

    ``x`` and ``y`` are the labels of its axes.
    """
    x = folded(x, _TITLE, len(x))
    made = figure(
        height=height + _LINE * x.count("\n"),
        sizing_mode="stretch_width",
        x_axis_label=x,
        y_axis_label=y,
        tools="box_select,box_zoom,pan,wheel_zoom,reset,save",
        active_drag="box_select",
        active_scroll=None,  # the page itself scrolls
        toolbar_location="above",
        **options,
    )
    made.toolbar.logo = None
    made.min_border_right = 16  # of the last tick's label
    for axis in made.xaxis:
        if isinstance(axis.ticker, AdaptiveTicker):
            axis.ticker.desired_num_ticks = _TICKS
    for axis in made.axis:
        axis.axis_label_text_font_style = "normal"
        if not isinstance(axis, CategoricalAxis):
            axis.formatter = CustomJSTickFormatter(code=NUMBER)
    return made


def format_tip(*lines: str) -> str:
    """Return a tooltip with the given lines, the first in bold; ``@names`` in them are columns."""
    first, *rest = map(escape, lines)
    others = "".join(f"<div>{line}</div>" for line in rest)
    return f'<div style="{_TIP}"><div style="font-weight: 650">{first}</div>{others}</div>'


def small_hover(drawn: GlyphRenderer, tooltips: str | list[tuple[str, str]]) -> HoverTool:
    """Return a tool that shows the tooltip of one item at a time, next to the item."""
    return HoverTool(renderers=[drawn], tooltips=tooltips, limit=1, attachment="horizontal")


def legend_outside(chart: figure) -> figure:
    """Move the legend of a chart outside of its frame, and return the chart.

    A long legend is below the chart, so that a phone shows the chart first.
    """
    for legend in chart.legend:
        rows = _fold(legend.items)
        legend.orientation, legend.ncols = "horizontal", _columns(legend.items)
        if isinstance(legend.ncols, int) and chart.height:
            tall = [max(rows[i : i + legend.ncols]) for i in range(0, len(rows), legend.ncols)]
            chart.height += _LINE * (sum(tall) - len(tall)) + _ITEM * (len(tall) - 1)
            chart.add_layout(legend, "above" if sum(tall) <= _MOST else "below")
        else:
            chart.add_layout(legend, "above")
        legend.border_line_alpha = legend.background_fill_alpha = 0.0
        legend.label_text_color = GREY
        legend.padding, legend.margin, legend.label_text_font_size = 0, 0, "12px"
        legend.click_policy = "mute" if len(legend.items) > 1 else "none"
    return chart


def _fold(items: Sequence[LegendItem]) -> list[int]:
    """Break long names of a legend into lines; return each name's number of lines."""
    lines = []
    for item in items:
        if isinstance(item.label, Value):
            item.label = value(folded(item.label.value, _LETTERS, len(item.label.value)))
        lines.append(item.label.value.count("\n") + 1 if isinstance(item.label, Value) else 1)
    return lines


def _columns(items: Sequence[LegendItem]) -> int | str:
    """Return the number of legend columns that fit on a phone."""
    if not all(isinstance(item.label, Value) for item in items):
        return "auto"
    widths = [_KEY + _LETTER * max(map(len, item.label.value.split("\n"))) for item in items]
    return len(items) if sum(widths) <= _PHONE else max(_PHONE // max(widths), 1)


def make_row_figure(names: Sequence[str], x: str, row: int = ROW, **options: Any) -> figure:
    """Return a figure with a row, about ``row`` pixels high, for each name.

    The first one is on top; rows are at y = 0, 1, ....
    """
    low, high = -0.7, len(names) - 0.3
    texts = fold_distinctly(names)
    lines = [text.count("\n") + 1 for text in texts]
    between = max((sum(pair) / 2 for pair in pairwise(lines)), default=1.0)
    row = max(row, int(_LINE * between) + 16)
    made = plot(x, "", 80 + row * max(len(names), 2), y_range=(high, low), **options)
    made.yaxis.ticker = FixedTicker(ticks=list(range(len(names))))
    made.yaxis.major_label_overrides = dict(enumerate(texts))
    made.ygrid.visible = False
    return made


def draw_rows(chart: RowChart, row: int = ROW) -> figure:
    """Draw a chart of rows, each about ``row`` pixels high."""
    made = make_row_figure(chart.names, chart.axis, row)
    if chart.parts:
        _draw_parts(made, chart.parts, chart.unit)
    for i, bars in enumerate(chart.bars):
        _draw_bars(made, bars, chart.shift(i), chart.furthest)
    if chart.has_zero and not chart.bars:
        made.add_layout(Span(location=0, dimension="height", line_color=GREY))
    for marks in chart.marks:
        if marks.texts:
            _draw_points(made, marks)
            continue
        y = np.arange(len(chart.names), dtype=float)
        source = ColumnDataSource({"x": marks.values, "y": y})
        look: dict[str, Any] = {"marker": "diamond", "size": 12, "line_width": 1}
        if marks.is_limit:
            look = {"marker": "dash", "size": 24, "line_width": 3, "angle": np.pi / 2}
        made.scatter("x", "y", source=source, color=marks.colour, legend_label=marks.label, **look)
    if chart.bars or chart.parts:
        made.x_range.start = chart.start
    if not chart.parts:
        made.x_range.range_padding = chart.room
    if chart.has_zero and chart.bars:
        made.add_layout(Span(location=0, dimension="height", line_color=GREY))
    return legend_outside(made)


def _draw_points(made: figure, marks: Marks) -> None:
    """Draw a point with a tooltip for each mark whose value is known."""
    known = np.flatnonzero(~np.isnan(marks.values)).tolist()
    texts = [marks.texts[i] for i in known]
    source = ColumnDataSource({"y": known, "x": marks.values[known].tolist(), "text": texts})
    look: dict[str, Any] = {"size": 10, "color": marks.colour, "legend_label": marks.label}
    drawn = made.scatter("x", "y", source=source, **look)
    made.add_tools(HoverTool(renderers=[drawn], tooltips=[(marks.label, "@text")]))


def _draw_bars(made: figure, bars: Bars, shift: float, furthest: Floats) -> None:
    """Draw a bar in each row, with a text at its end or beyond the ``furthest`` mark.

    ``shift`` is the distance of the bars below the middle of the row.
    """
    x = np.nan_to_num(bars.values)
    end = np.fmax(x, furthest)
    one = isinstance(bars.colour, str)
    colours = [bars.colour] * len(x) if one else list(bars.colour)
    y, texts = np.arange(len(x)) + shift, list(bars.texts)
    source = ColumnDataSource({"y": y, "x": x, "end": end, "text": texts, "colour": colours})
    legend = {"legend_label": bars.label} if one else {}
    drawn = made.hbar(y="y", right="x", height=0.34, source=source, color="colour", **legend)
    write_beside(made, source, "end")
    made.add_tools(small_hover(drawn, format_tip(bars.label, "@text")))
    make_room(made, float(np.nanmax(end, initial=0.0)), texts)


def write_beside(chart: figure, source: ColumnDataSource, x: str) -> None:
    """Write texts of the column ``text`` of ``source`` to the right of ``x``, in rows ``y``."""
    look = {"text_baseline": "middle", "text_font_size": "12px", "text_color": GREY}
    chart.text(x, "y", "text", source=source, x_offset=9, **look)


# A range that ends where a text of so many pixels still has room beyond the last bar; it is set
# when the chart has been laid out, not while it is.
_ROOM = """
const width = cb_obj.inner_width;
const low = range.start;
const most = Math.max(...ends.map(([end, text]) =>
  low + (end - low) * width / Math.max(width - text, width / 4)));
if (most > low) setTimeout(() => { range._initial_end = most; range.end = most; });
"""


def make_room(chart: figure, end: float, texts: Sequence[str]) -> None:
    """Keep space to the right for ``texts`` of bars or points that end at ``end``.

    The space suffices at any width of the chart.
    """
    pixels = 7 * max(map(len, texts), default=0) + 16
    ends = next((each for each in chart.tags if isinstance(each, list)), None)
    if ends is not None:
        ends.append([end, pixels])
        return
    chart.tags = [ends := [[end, pixels]]]
    chart.js_on_change(
        "inner_width", CustomJS(args={"range": chart.x_range, "ends": ends}, code=_ROOM)
    )


def _draw_parts(made: figure, parts: Sequence[Bars], unit: str) -> None:
    """Draw horizontal stacked bars made of ``parts``, with values in ``unit``."""
    left = np.zeros(len(parts[0].values))
    for part in parts:
        values = np.nan_to_num(part.values)
        y = np.arange(len(values))
        source = ColumnDataSource({"y": y, "left": left, "right": left + values, "value": values})
        shown = format_tip(part.label, f"@value{{0.[00]}} {unit}")
        draw_blocks(made, source, str(part.colour), shown, legend_label=part.label)
        left = left + values


def draw_blocks(
    chart: figure,
    source: ColumnDataSource,
    colour: str,
    tooltips: str | Sequence[tuple[str, str]],
    **options: Any,
) -> None:
    """Draw rectangles from ``left`` to ``right`` in the rows ``y`` of ``source``."""
    ends = {"y": "y", "left": "left", "right": "right"}
    look = {"height": 0.7, "color": colour, "line_width": 0} | options
    drawn = chart.hbar(**ends, source=source, **look)
    shown = tooltips if isinstance(tooltips, str) else list(tooltips)
    chart.add_tools(small_hover(drawn, shown))
