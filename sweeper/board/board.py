"""The board's page: a table of the studies, and those that are chosen in it, compared."""

from html import escape
from itertools import cycle
from typing import Any

import numpy as np
from bokeh.document import Document
from bokeh.layouts import column
from bokeh.models import (
    AllIndices,
    CDSView,
    ColumnDataSource,
    DataTable,
    Div,
    HoverTool,
    HTMLTemplateFormatter,
    TableColumn,
)

from sweeper.board.standings import Standing, Standings, compared, line
from sweeper.charts.frame import GREY, PALETTE, ROW, WIDGET, folded, legend_above, plot, rows
from sweeper.draw.show.page import STYLE
from sweeper.ledger.place import Place
from sweeper.report import words

_AXIS = "times as bad as the best"
EVERY = 2000  # milliseconds between two looks
_COLUMNS = {
    "study": 220,
    "state": 80,
    "trials": 70,
    "of": 70,
    "failed": 60,
    "best": 110,
    "gap": 120,
    "rate": 80,
    "actors": 110,
}
_TITLES = {"of": "of at most", "gap": "gap to the bound", "rate": "trials/s"}
_LINK = '<a href="/report/<%- value %>" target="_blank">open</a>'
TEMPLATE = f"""
{{% block preamble %}}
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>{STYLE}</style>
{{% endblock %}}
"""


class Board:
    """One reader's view of the studies in ``folder``, which follows them while they run."""

    def __init__(self, folder: Place) -> None:
        self._folder, self._standings = folder, Standings(folder)
        self._shown: list[Standing] = []
        self.table = ColumnDataSource({name: [] for name in _COLUMNS})
        self.lines = ColumnDataSource({"x": [], "y": [], "name": [], "colour": []})
        self.bests = ColumnDataSource({"y": [], "value": [], "text": [], "colour": []})
        self.view = CDSView()
        self.heading, self.told = Div(), Div(sizing_mode="stretch_width")
        self.search = plot("trial", "best so far", 340)
        self.bars = rows([], _AXIS)
        self.table.selected.on_change("indices", lambda attr, old, new: self.compare())

    def show(self, document: Document) -> None:
        """Put the board on a page, and keep it up to date."""
        drawn = self.search.multi_line(
            "x", "y", source=self.lines, color="colour", line_width=2.5, legend_field="name"
        )
        self.search.add_tools(HoverTool(renderers=[drawn], tooltips=[("", "@name")]))
        legend_above(self.search)
        self.bars.hbar(y="y", right="value", height=0.6, source=self.bests, color="colour")
        self.bars.text(
            "value",
            "y",
            "text",
            source=self.bests,
            x_offset=8,
            text_font_size="12px",
            text_baseline="middle",
            text_color=GREY,
        )
        document.add_root(
            column(
                self.heading,
                self._make_table(),
                self.told,
                self.search,
                self.bars,
                sizing_mode="stretch_width",
            )
        )
        document.title, document.template = "dimsweep board", TEMPLATE
        document.add_periodic_callback(self.look, EVERY)
        self.look()

    def _make_table(self) -> DataTable:
        columns = [
            TableColumn(field=name, title=_TITLES.get(name, name), width=width)
            for name, width in _COLUMNS.items()
        ]
        link = HTMLTemplateFormatter(template=_LINK)
        columns.append(TableColumn(field="study", title="report", width=60, formatter=link))
        return DataTable(
            source=self.table,
            view=self.view,
            columns=columns,
            selectable="checkbox",
            height=260,
            sizing_mode="stretch_width",
            index_position=None,
            reorderable=False,
            stylesheets=[WIDGET],
        )

    def look(self) -> None:
        """Look at all studies, and show what has changed."""
        self._shown = self._standings.look()
        lines = [line(each, self._folder) for each in self._shown]
        running = sum(each["state"] == "running" for each in lines)
        place = escape(str(self._folder))
        self.heading.text = f"<h1>{len(lines)} studies in {place}, {running} of them running</h1>"
        data = {name: [each[name] for each in lines] for name in _COLUMNS}
        if data != self.table.data:
            chosen = {self.table.data["study"][i] for i in self.table.selected.indices}
            self.table.data = data
            self.view.filter = AllIndices()  # a table looks again when its view changes
            self.table.selected.indices = [
                i for i, name in enumerate(data["study"]) if name in chosen
            ]
            self.compare()

    def compare(self) -> None:
        """Show the chosen studies beside one another: all of them if none is chosen and they are
        few, by the objective of the first."""
        chosen = [self._shown[i] for i in self.table.selected.indices] or self._shown[:1]
        known = [each for each in chosen if each.bests()]
        alike = [each for each in known if each.objective == known[0].objective]
        self.told.text = _told(known, alike)
        colours = [colour for colour, _ in zip(cycle(PALETTE), alike, strict=False)]
        self._draw_searches(alike, colours)
        self._draw_bests(alike, colours)

    def _draw_searches(self, alike: list[Standing], colours: list[str]) -> None:
        data: dict[str, list[Any]] = {"x": [], "y": [], "name": [], "colour": []}
        for standing, colour in zip(alike, colours, strict=True):
            objective = standing.objective
            assert objective is not None
            best = objective.of(alike[0].bests()[0])
            factor, self.search.yaxis.axis_label = words.axis(objective, best)
            for _, own in standing.searched.groupby("cell"):
                losses = objective.sign * own[objective.column].to_numpy(float)
                so_far = objective.sign * np.minimum.accumulate(losses) * factor
                turns = np.flatnonzero(np.diff(so_far, prepend=np.nan) != 0)
                turns = np.append(turns, len(so_far) - 1)
                data["x"].append(np.repeat(own["trial"].to_numpy()[turns], 2)[1:])
                data["y"].append(np.repeat(so_far[turns], 2)[:-1])
                data["name"].append(standing.name)
                data["colour"].append(colour)
        self.lines.data = data

    def _draw_bests(self, alike: list[Standing], colours: list[str]) -> None:
        """A bar for each study in each scenario, against the best of the same scenario."""
        self.bars.visible = len(alike) > 1
        found = compared(alike)
        several = len({each.scenario for each in found}) > 1
        names = [f"{each.scenario}: {each.name}" if several else each.name for each in found]
        self.bests.data = {
            "y": list(range(len(found))),
            "value": [each.over_best for each in found],
            "text": [each.text for each in found],
            "colour": [colours[each.study] for each in found],
        }
        axis = "times as bad as the best of the same scenario" if several else _AXIS
        self.bars.xaxis.axis_label = axis
        self.bars.height = ROW * max(len(found), 2) + 80
        self.bars.y_range.update(start=len(found) - 0.3, end=-0.7)
        self.bars.x_range.start = 0.0
        self.bars.yaxis.ticker = list(range(len(found)))
        self.bars.yaxis.major_label_overrides = dict(enumerate(map(folded, names)))


def _told(known: list[Standing], alike: list[Standing]) -> str:
    if not known:
        return "<p>None of the chosen studies has a complete trial yet.</p>"
    names = escape(", ".join(each.name for each in alike))
    others = [escape(each.name) for each in known if each not in alike]
    rest = f" Other objectives: {', '.join(others)}." if others else ""
    return f"<p>Chosen: {names}.{rest} Tick studies in the table to compare them.</p>"
