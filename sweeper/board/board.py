"""The web page of the board, with a table and a comparison of studies, and its server."""

import socket
from functools import partial
from html import escape
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from bokeh.application import Application
from bokeh.application.handlers import FunctionHandler
from bokeh.document import Document
from bokeh.layouts import column
from bokeh.models import (
    AllIndices,
    CDSView,
    ColumnDataSource,
    DataTable,
    Div,
    HTMLTemplateFormatter,
    TableColumn,
)
from bokeh.server.server import Server
from tornado.httputil import HTTPServerRequest
from tornado.routing import Matcher, Rule
from tornado.web import RequestHandler

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.board.standings import Standing, Standings, compared, line
from dimsweep.sweeper.charts.frame import (
    ROW,
    WIDGET,
    format_tip,
    legend_outside,
    make_row_figure,
    plot,
    small_hover,
    write_beside,
)
from dimsweep.sweeper.draw.page import STYLE, render
from dimsweep.sweeper.ledger.place import Place
from dimsweep.sweeper.questions.findings import read_report
from dimsweep.sweeper.report import words
from dimsweep.sweeper.report.colours import series_colour
from dimsweep.sweeper.report.naming import cell_label, folded
from dimsweep.sweeper.terminal import format_count

_AXIS = "times as bad as the best"
EVERY = 2000  # milliseconds between two looks
# The columns of the table, what each sorts by if that is another one, and how wide each is.
_COLUMNS = {
    "study": ("study", 220),
    "state": ("state", 80),
    "progress": ("done", 150),
    "eta": ("left", 80),
    "objective": ("objective", 100),
    "best": ("loss", 130),
    "gap": ("gap", 110),
    "failed": ("failed", 200),
    "rate": ("rate", 70),
    "actors": ("actors", 110),
}
_TITLES = {
    "progress": "trials",
    "eta": "time left",
    "best": "best so far",
    "gap": "gap to the bound",
    "rate": "trials/s",
}
_LINK = '<a href="/report/<%- value %>" target="_blank">open</a>'
_PROGRESS = (
    '<div style="background: linear-gradient(90deg, var(--marked) <%- 100 * done %>%, '
    'transparent 0)">'
    "<%- progress %></div>"
)
_FAILED = (
    '<span title="<%- why %>">'
    '<%- failed ? failed.toLocaleString("en-US") + " x " + why : "" %></span>'
)
_SHOWN = {"progress": _PROGRESS, "failed": _FAILED}
_CAUSES = 3  # listed causes of failures of a study
_LINES = 12  # of cells that have a colour of their own
TEMPLATE = f"""
{{% block preamble %}}
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>{STYLE}
body {{ max-width: none; margin: 1rem; padding: 0; }}
</style>
{{% endblock %}}
"""


class Board:
    """The board as one browser sees it: the studies in ``folder``, followed while they run."""

    def __init__(self, folder: Place) -> None:
        self._folder, self._standings = folder, Standings(folder)
        self._shown: list[Standing] = []
        self.table = ColumnDataSource()
        self.lines = ColumnDataSource({name: [] for name in ("x", "y", "name", "cell", "colour")})
        self.bests = ColumnDataSource({"y": [], "value": [], "text": [], "colour": []})
        self.view = CDSView()
        self.heading, self.notice = Div(), Div(sizing_mode="stretch_width")
        self.search = plot("trial", "best so far", 340)
        self.bars = make_row_figure([], _AXIS)
        self.table.selected.on_change("indices", lambda attr, old, new: self.compare())

    def show(self, document: Document) -> None:
        """Add the board to a page (a Bokeh document), and keep it up to date."""
        drawn = self.search.multi_line(
            "x", "y", source=self.lines, color="colour", line_width=2.5, legend_field="name"
        )
        self.search.add_tools(small_hover(drawn, format_tip("@name", "@cell")))
        legend_outside(self.search)
        self.bars.hbar(y="y", right="value", height=0.6, source=self.bests, color="colour")
        write_beside(self.bars, self.bests, "value")
        document.add_root(
            column(
                self.heading,
                self._make_table(),
                self.notice,
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
            TableColumn(
                field=field,
                title=_TITLES.get(name, name),
                width=width,
                formatter=HTMLTemplateFormatter(template=_SHOWN.get(name, f"<%- {name} %>")),
            )
            for name, (field, width) in _COLUMNS.items()
        ]
        link = HTMLTemplateFormatter(template=_LINK)
        columns.insert(1, TableColumn(field="study", title="report", width=60, formatter=link))
        return DataTable(
            source=self.table,
            view=self.view,
            columns=columns,
            selectable="checkbox",
            height=260,
            sizing_mode="stretch_width",
            autosize_mode="none",  # on a phone it scrolls
            index_position=None,
            reorderable=False,
            stylesheets=[WIDGET],
        )

    def look(self) -> None:
        """Read the current state of all studies, and update the page."""
        found = [(line(each, self._folder), each) for each in self._standings.look()]
        found.sort(key=lambda pair: pair[0]["state"] != "running")  # stable: by name
        self._shown, lines = [each for _, each in found], [row for row, _ in found]
        running = sum(each["state"] == "running" for each in lines)
        place = escape(str(self._folder))
        studies = format_count(len(lines), "study")
        self.heading.text = f"<h1>{studies} in {place}, {running} of them running</h1>"
        data = {name: [each[name] for each in lines] for name in lines[0]} if lines else {}
        if data != self.table.data:
            names = self.table.data.get("study", [])
            chosen = {names[i] for i in self.table.selected.indices}
            self.table.data = data
            self.view.filter = AllIndices()  # a table looks again when its view changes
            self.table.selected.indices = [
                i for i, name in enumerate(data.get("study", [])) if name in chosen
            ]
            self.compare()

    def compare(self) -> None:
        """Show the chosen studies next to one another, by the objective of the first of them."""
        chosen = [self._shown[i] for i in self.table.selected.indices] or self._shown[:1]
        known = [each for each in chosen if each.bests()]
        alike = [each for each in known if each.objective == known[0].objective]
        self.notice.text = _describe_choice(chosen, known, alike)
        colours = [series_colour(i) for i in range(len(alike))]
        self._draw_searches(alike, colours)
        self._draw_bests(alike, colours)

    def _draw_searches(self, alike: list[Standing], colours: list[str]) -> None:
        data: dict[str, list[Any]] = {name: [] for name in ("x", "y", "name", "cell", "colour")}
        for standing, colour in zip(alike, colours, strict=True):
            objective = standing.objective
            assert objective is not None
            _, best = alike[0].bests()[0]
            factor, self.search.yaxis.axis_label = words.axis(objective, best)
            assert standing.study is not None
            names = {each.cell: cell_label(each) for each in standing.study.cells}
            alone = len(alike) == 1 and 1 < len(names) <= _LINES
            for i, (cell, own) in enumerate(sorted(standing.searches.items())):
                values = np.append(own.values, own.values[-1]) * factor
                data["x"].append(np.repeat(np.append(own.numbers, own.last), 2)[1:])
                data["y"].append(np.repeat(values, 2)[:-1])
                name = names[cell]
                data["name"].append(name if alone else standing.name)
                data["cell"].append(name)
                data["colour"].append(series_colour(i) if alone else colour)
        self.lines.data = data

    def _draw_bests(self, alike: list[Standing], colours: list[str]) -> None:
        """Draw a bar for each study in each scenario, relative to the scenario's best study."""
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


def _describe_choice(chosen: list[Standing], known: list[Standing], alike: list[Standing]) -> str:
    failures = "".join(map(_failures, chosen))
    if not known:
        return f"<p>None of the chosen studies has a complete trial yet.</p>{failures}"
    names = escape(", ".join(each.name for each in alike))
    others = [escape(each.name) for each in known if each not in alike]
    rest = f" Other objectives: {', '.join(others)}." if others else ""
    return (
        f"<p>Chosen: {names}.{rest} Tick studies in the table to compare them; a click on a "
        f"column's head sorts by it.</p>{failures}"
    )


def _failures(standing: Standing) -> str:
    """Return the most frequent causes of a study's failures, as text."""
    causes = standing.causes
    if not causes:
        return ""
    items = [f"<li>{times:,} x {escape(text)}</li>" for text, times in causes[:_CAUSES]]
    if rest := causes[_CAUSES:]:
        times = sum(times for _, times in rest)
        items.append(f"<li>{times:,} of {format_count(len(rest), 'other cause')}</li>")
    return f"<p>Failed in {escape(standing.name)}:</p><ul>{''.join(items)}</ul>"


LOOPBACK = "127.0.0.1"
_HOSTS = (LOOPBACK, "localhost", "::1")  # under which this machine is asked by its own user


def make_server(folder: Place, port: int) -> Server:
    """Start and return a web server of the board of ``folder``, on a local port (0: any).

    Raises :class:`DimsweepError` if the port is in use.
    """
    port = port or _free_port()
    origins = [f"{host}:{port}" for host in (LOOPBACK, "localhost")]  # no other site may listen in
    reports = (r"/report/(\w[\w.+-]*)", _ReportPage, {"folder": folder})
    application = Application(FunctionHandler(partial(_show, folder)))
    try:
        server = Server(
            {"/": application},
            address=LOOPBACK,
            port=port,
            allow_websocket_origin=origins,
            extra_patterns=[reports],
        )
    except OSError as error:
        raise DimsweepError(
            f"port {port} is in use: {error.strerror or error}",
            where="--port",
            hint="another board may be running; choose another with --port",
            code="inaccessible",
        ) from error
    server._tornado.default_router.rules.insert(0, Rule(_Elsewhere(), _Refusal))
    server.start()
    return server


class _Elsewhere(Matcher):
    """Matches requests whose Host header names another host.

    A page whose name was bound to this machine's address after it was loaded is the same site to
    its browser, and could read everything.
    """

    def match(self, request: HTTPServerRequest) -> dict[str, Any] | None:
        try:
            asked = urlsplit(f"//{request.host}").hostname
        except ValueError:  # such as half an IPv6 address
            asked = None
        return None if asked in _HOSTS else {}


class _Refusal(RequestHandler):
    """Handler that rejects requests to another host."""

    def prepare(self) -> None:
        self.set_status(403)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(f"the board answers to {', '.join(_HOSTS)} only, not to another host's name")


class _ReportPage(RequestHandler):
    """Handler that returns the report of a study, finished or not."""

    def initialize(self, folder: Place) -> None:
        self._folder = folder

    def get(self, name: str) -> None:
        try:
            self.write(render(read_report(self._folder / name)))
        except DimsweepError as error:
            self.set_status(404)
            self.set_header("Content-Type", "text/plain; charset=utf-8")
            self.write(str(error))


def _free_port() -> int:
    with socket.socket() as asked:
        asked.bind((LOOPBACK, 0))
        return int(asked.getsockname()[1])


def _show(folder: Place, document: Document) -> None:
    Board(folder).show(document)
