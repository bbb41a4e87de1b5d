"""The look of every chart: its figure, its colours, its bars, and rows with names.

Colours of lines, axes and backgrounds that depend on the reader's light or dark scheme are CSS
variables of the page (``--bk-...``), which Bokeh reads; the others are Okabe and Ito's, told apart
by colour-blind readers on either ground.
"""

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, FixedTicker, HoverTool
from bokeh.plotting import figure

from sweeper.report.summary import Floats

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#E69F00", "#009E73", "#8A8F98"
PALETTE = (BLUE, ORANGE, GREEN, "#CC79A7", "#56B4E9", "#D55E00", "#B8A900", "#7A5195")
# Tables and inputs are HTML of their own, which no variable of Bokeh's reaches.
WIDGET = """.bk-input, .slick-cell-checkboxsel, .slick-header-column, .slick-row, .slick-viewport {
  background-color: var(--paper) !important; color: var(--ink) !important;
  border-color: var(--line) !important; }
.slick-row.odd { background-color: var(--raised) !important; }
.slick-cell.selected { background-color: var(--marked) !important; }"""
_LETTERS = 24  # of a row's name in one line
ROW = 40  # pixels


def plot(x: str, y: str, height: int = 360, **options: Any) -> figure:
    """An empty figure as wide as its page, with tools to brush, zoom and save; ``x`` and ``y`` are
    the labels of its axes."""
    made = figure(
        height=height,
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
    for axis in made.axis:
        axis.axis_label_text_font_style = "normal"
    return made


def legend_above(chart: figure) -> figure:
    """The same chart, its legend above the frame, where it hides no point."""
    for legend in chart.legend:
        chart.add_layout(legend, "above")
        legend.orientation, legend.ncols = "horizontal", "auto"
        legend.border_line_alpha = legend.background_fill_alpha = 0.0
        legend.label_text_color = GREY
        legend.padding, legend.margin, legend.label_text_font_size = 0, 0, "12px"
        legend.click_policy = "mute" if len(legend.items) > 1 else "none"
    return chart


def rows(names: Sequence[str], x: str, **options: Any) -> figure:
    """A figure with a row for each name, the first on top, at y = 0, 1, ..."""
    low, high = -0.7, len(names) - 0.3
    made = plot(x, "", 80 + ROW * max(len(names), 2), y_range=(high, low), **options)
    made.yaxis.ticker = FixedTicker(ticks=list(range(len(names))))
    made.yaxis.major_label_overrides = {i: folded(name) for i, name in enumerate(names)}
    made.ygrid.visible = False
    return made


def bars(
    chart: figure,
    values: Floats,
    texts: Sequence[str],
    colour: str,
    name: str,
    *,
    shift: float = 0.0,
    beyond: Floats | None = None,
) -> None:
    """Horizontal bars, one in each row, with a text at the end of each, or ``beyond`` a mark that
    lies further; ``shift`` is how far below the middle of the row they lie."""
    places = np.arange(len(values)) + shift
    x = np.nan_to_num(values)
    end = x if beyond is None else np.fmax(x, beyond)
    source = ColumnDataSource({"y": places, "x": x, "end": end, "text": list(texts)})
    drawn = chart.hbar(
        y="y", right="x", height=0.34, source=source, color=colour, legend_label=name
    )
    chart.text(
        "end",
        "y",
        "text",
        source=source,
        x_offset=9,
        text_baseline="middle",
        text_font_size="12px",
        text_color=GREY,
    )
    chart.add_tools(HoverTool(renderers=[drawn], tooltips=[(name, "@text")]))


def stacked(chart: figure, parts: Sequence[tuple[str, str, Floats]], unit: str) -> None:
    """Horizontal bars made of ``parts`` (name, colour and a value for each row), one after another;
    NaN is no part."""
    left = np.zeros(len(parts[0][2]))
    for name, colour, given in parts:
        values = np.nan_to_num(given)
        source = ColumnDataSource(
            {"y": np.arange(len(values)), "left": left, "right": left + values, "value": values}
        )
        tooltips = [(name, f"@value{{0.[0000]}} {unit}")]
        blocks(chart, source, colour, tooltips, legend_label=name)
        left = left + values


def blocks(
    chart: figure,
    source: ColumnDataSource,
    colour: str,
    tooltips: Sequence[tuple[str, str]],
    **options: Any,
) -> None:
    """Horizontal blocks from ``left`` to ``right`` in the rows ``y`` of ``source``."""
    ends = {"y": "y", "left": "left", "right": "right"}
    drawn = chart.hbar(**ends, height=0.7, source=source, color=colour, line_width=0, **options)
    chart.add_tools(HoverTool(renderers=[drawn], tooltips=list(tooltips)))


def folded(name: str) -> str:
    """A row's name in two lines at most."""
    lines = textwrap.wrap(name, _LETTERS, max_lines=2, placeholder="\N{HORIZONTAL ELLIPSIS}")
    return "\n".join(lines)
