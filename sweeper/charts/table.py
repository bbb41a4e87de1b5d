"""All trials as a table: sorted by a click, filtered by conditions, narrowed by brushing."""

from bokeh.layouts import column
from bokeh.models import (
    CDSView,
    CustomJS,
    DataTable,
    NumberFormatter,
    StringFormatter,
    TableColumn,
    UIElement,
)

from dimsweep.sweeper.charts.chart import Chart
from dimsweep.sweeper.charts.frame import WIDGET
from dimsweep.sweeper.charts.points import Points

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


def draw(points: Points) -> tuple[str, UIElement] | None:
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
                width=_width(points, name),
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


def _width(points: Points, name: str) -> int:
    """Pixels, so that neither the title nor a text is cut off; a number is hardly wider."""
    column = points.columns[name]
    texts = [] if column.format else set(points.source.data[name])
    longest = max(map(len, texts), default=0)
    return int(
        min(max(_NARROWEST, _LETTER * len(column.title) + _SORT, _LETTER * longest), _WIDEST)
    )


def _caption(points: Points) -> str:
    return "All trials" if len(points.rows) == points.n else "The trials that can be seen"


CHART = Chart("trials", _caption, draw)
