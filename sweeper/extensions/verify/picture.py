"""The picture of a published study: panels that show the rows of queries."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from omegaconf import OmegaConf
from pydantic import Field

from dimsweep.engine import DimsweepError, naming_place
from dimsweep.sweeper.config.options import read_options
from dimsweep.sweeper.draw.canvas import draw_bars, draw_stack, encoded, frame
from dimsweep.sweeper.part import Part
from dimsweep.sweeper.report.charts import Bars
from dimsweep.sweeper.report.colours import BLUE, GREEN, GREY, ORANGE, series_colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

_COLOURS = {
    "grey": GREY,
    "blue": BLUE,
    "green": GREEN,
    "orange": ORANGE,
    "purple": "#CC79A7",
    "black": "#000000",
}
_Colour = Literal["grey", "blue", "green", "orange", "purple", "black"]
_LETTERS, _MARK = 110, 6  # characters of a line below a picture, and of a mark
Rows = Sequence[Mapping[str, Any]]


class Panel(Part):
    """A panel of a picture, which plots the rows of an SQL query.

    ``bars`` are grouped in the row ``x``; ``stack`` joins the parts of a bar; ``dots`` are the ends
    of bars, joined to their marks; ``columns`` are vertical; ``lines`` join the points of a series.
    """

    kind: Literal["bars", "stack", "dots", "columns", "lines"]
    #: Columns: series, x, y; optionally text (at the end of a bar) and published (a mark).
    query: str
    title: str = ""
    x: str = ""
    y: str = ""
    colours: tuple[_Colour, ...] = ()  # of series, in the order of the rows
    dashed: str = ""  # part of the names of dashed series
    marks: str = "published"
    log: bool = False
    log_y: bool = False
    band: tuple[float, float] | None = None  # grey range behind dots
    low: float | None = None
    high: float | None = None


class Picture(Part):
    """The picture of a published study, made of panels."""

    title: str  # the finding
    height: float = Field(gt=0, le=40)  # inches
    beside: int = Field(1, ge=1, le=4)  # panels in a row
    panels: tuple[Panel, ...] = Field(min_length=1)


class _PanelRows(NamedTuple):
    """The rows that a panel's query returns."""

    panel: Panel
    rows: Rows

    @property
    def series(self) -> dict[str, Rows]:
        """Rows of each series, by its name."""
        names = dict.fromkeys(str(row["series"]) for row in self.rows)
        return {name: [row for row in self.rows if str(row["series"]) == name] for name in names}

    @property
    def places(self) -> list[Any]:
        """Distinct values of x, in the order of the rows."""
        return list(dict.fromkeys(row["x"] for row in self.rows))

    def find_colour(self, i: int) -> str:
        """Return the colour of a series by its number."""
        given = self.panel.colours
        return _COLOURS[given[i % len(given)]] if given else series_colour(i)

    def build_bars(self) -> list[Bars]:
        """Return the bars of each series, with NaN for a missing row."""
        found = []
        for i, (name, rows) in enumerate(self.series.items()):
            at = {row["x"]: row for row in rows}
            own = [at.get(place, {}) for place in self.places]
            values = np.array([_parse_number(row.get("y")) for row in own])
            found.append(
                Bars(values, [row.get("text") or "" for row in own], self.find_colour(i), name)
            )
        return found

    def marks(self, series: str) -> "NDArray[np.float64]":
        """Return the published values of a series at each x, NaN for missing ones."""
        of = {row["x"]: _parse_number(row.get("published")) for row in self.series[series]}
        return np.array([of.get(place, np.nan) for place in self.places])


def read_picture(file: Path) -> Picture:
    """Read a picture's description; raise :class:`DimsweepError` naming an invalid key."""
    with naming_place(file):
        return Picture.from_plain(OmegaConf.to_container(read_options(file).node))


def draw_picture(picture: Picture, rows: Sequence[Rows], kind: str) -> bytes:
    """Draw a picture with the ``rows`` of its panels' queries; return the file's bytes."""
    n = len(picture.panels)
    with frame(picture.title, picture.height) as figure:
        axes = list(figure.subplots(-(-n // picture.beside), picture.beside, squeeze=False).flat)
        for ax, panel, own in zip(axes, picture.panels, rows, strict=False):
            _check_columns(panel, own)
            _KINDS[panel.kind](ax, _PanelRows(panel, own))
            _label_axes(ax, panel)
        _draw_legend(figure, axes[:n])
        return encoded(figure, kind)


def _draw_legend(figure: "Figure", axes: "Sequence[Axes]") -> None:
    """Draw one legend below panels with equal series, or one in each panel."""
    legends = [ax.get_legend_handles_labels() for ax in axes]
    if all(names == legends[0][1] for _, names in legends):
        if len(legends[0][1]) > 1:
            ncols = max(_LETTERS // (max(map(len, legends[0][1])) + _MARK), 1)
            figure.legend(*legends[0], loc="outside lower center", ncols=min(ncols, 6))
        return
    for ax, (handles, names) in zip(axes, legends, strict=True):
        if len(names) > 1:
            ax.legend(handles, names, fontsize=8)


def _check_columns(panel: Panel, rows: Rows) -> None:
    columns = rows[0] if rows else {}
    if missing := [name for name in ("series", "x", "y") if name not in columns]:
        problem = f"its query lacks {', '.join(missing)}" if rows else "its query returns no rows"
        where = f"panel {panel.title or panel.y or panel.x!r}"
        raise DimsweepError(problem, where=where, code="missing")


def _label_axes(ax: "Axes", panel: Panel) -> None:
    ax.set(title=panel.title, xlabel=panel.x, ylabel=panel.y)
    if panel.low is not None or panel.high is not None:
        ax.set_ylim(panel.low, panel.high)


def _draw_bars(ax: "Axes", shown: _PanelRows) -> None:
    draw_bars(ax, list(map(str, shown.places)), shown.build_bars())
    ax.margins(x=0.15)


def _draw_stack(ax: "Axes", shown: _PanelRows) -> None:
    parts = shown.build_bars()
    ends = ["".join(texts) for texts in zip(*(bars.texts for bars in parts), strict=True)]
    draw_stack(ax, list(map(str, shown.places)), parts, ends)


def _draw_dots(ax: "Axes", shown: _PanelRows) -> None:
    groups, at = shown.build_bars(), np.arange(len(shown.places))
    for i, bars in enumerate(groups):
        shift = 0.66 * ((i + 0.5) / len(groups) - 0.5)
        ax.scatter(bars.values, at + shift, color=bars.colour, s=34, label=bars.label, zorder=3)
        marks = shown.marks(bars.label)
        if not np.isnan(marks).all():
            ax.hlines(at + shift, marks, bars.values, color=bars.colour, lw=2, alpha=0.4)
            label = shown.panel.marks if i == len(groups) - 1 else None
            ax.plot(marks, at + shift, "|", color="black", markersize=9, label=label)
    if shown.panel.band is not None:
        ax.axvspan(*shown.panel.band, color="#E6E8EB", zorder=0)
    ax.set_yticks(at, list(map(str, shown.places)))
    ax.invert_yaxis()


def _draw_columns(ax: "Axes", shown: _PanelRows) -> None:
    groups, at = shown.build_bars(), np.arange(len(shown.places))
    width, marked_before = 0.8 / len(groups), False
    for i, bars in enumerate(groups):
        places = at + width * (i - (len(groups) - 1) / 2)
        drawn = ax.bar(places, bars.values, 0.9 * width, color=bars.colour, label=bars.label)
        ax.bar_label(drawn, bars.texts, padding=5, fontsize=8)
        marks = shown.marks(bars.label)
        if not np.isnan(marks).all():
            label = None if marked_before else shown.panel.marks
            marked_before = True
            size = max(16 / len(groups), 6)
            ax.plot(places, marks, "_", color="black", markersize=size, label=label)
    names = list(map(str, shown.places))
    long = len(names) * max(map(len, names)) > 100
    slanted: dict[str, Any] = {"rotation": 60, "ha": "right", "fontsize": 6} if long else {}
    ax.set_xticks(at, names, **slanted)
    ax.grid(visible=False, axis="x")


def _draw_lines(ax: "Axes", shown: _PanelRows) -> None:
    dot = "" if any(row.get("published") is not None for row in shown.rows) else "o"
    for i, (name, rows) in enumerate(shown.series.items()):
        x, y = ([_parse_number(row[key]) for row in rows] for key in ("x", "y"))
        dashed = bool(shown.panel.dashed) and shown.panel.dashed in name
        look: dict[str, Any] = {"color": shown.find_colour(i), "markersize": 4}
        ax.plot(x, y, f"--{dot}" if dashed else f"-{dot}", label=name, **look)
        published = [_parse_number(row.get("published")) for row in rows]
        ax.plot(x, published, "s" if dashed else "D", fillstyle="none", **look)
    if shown.panel.log:
        ax.set_xscale("log")
        ax.set_xticks(shown.places, list(map(str, shown.places)))
        ax.minorticks_off()
    if shown.panel.log_y:
        ax.set_yscale("log")


def _parse_number(value: Any) -> float:
    try:
        return np.nan if value is None else float(value)
    except (TypeError, ValueError, OverflowError) as error:
        problem = f"a query's value {value!r} is not a number"
        raise DimsweepError(problem, where="panels", code="wrong-type") from error


_KINDS: dict[str, Callable[["Axes", _PanelRows], None]] = {
    "bars": _draw_bars,
    "stack": _draw_stack,
    "dots": _draw_dots,
    "columns": _draw_columns,
    "lines": _draw_lines,
}
