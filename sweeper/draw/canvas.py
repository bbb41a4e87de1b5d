"""The style that all Matplotlib pictures share: bars, a title with the finding, and file formats.

Colours are those of charts.  Matplotlib is imported only when a picture is drawn, and without
pyplot: no global figures, no display.
"""

import io
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.report.charts import Bars, RowChart
from dimsweep.sweeper.report.colours import GREY
from dimsweep.sweeper.report.words import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DPI = 150
# The kinds of pictures, and what keeps the time of drawing out of them.
_KINDS: dict[str, dict[str, Any]] = {
    "png": {},
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
}
WIDTH = 9.0  # inches: text of 10 points is easy to read when shown 900 pixels wide
_STYLE: dict[Any, object] = {
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E6E8EB",
    "legend.frameon": False,
    "svg.hashsalt": "dimsweep",  # names of parts, which would be random
    "svg.fonttype": "none",  # texts stay texts
    "text.parse_math": False,  # a name may hold dollar signs
}


def draw_bars(ax: "Axes", rows: Sequence[str], groups: Sequence[Bars]) -> None:
    """Draw horizontal bars in named ``rows``; the ``groups`` are below one another in each row."""
    places = np.arange(len(rows))
    for i, bars in enumerate(groups):
        shift = 0.4 * (i - (len(groups) - 1) / 2)
        drawn = ax.barh(places + shift, bars.values, 0.38, color=bars.colour, label=bars.label)
        ax.bar_label(drawn, bars.texts, padding=4, fontsize=9)
    ax.set_yticks(places, rows)
    ax.invert_yaxis()
    ax.grid(visible=False, axis="y")


def draw_rows(ax: "Axes", chart: RowChart, names: Sequence[str]) -> None:
    """Draw the bars and marks of a chart in rows with these ``names``; limits are left out."""
    nothing = [""] * len(names)
    draw_bars(ax, names, [bars._replace(texts=nothing) for bars in chart.bars])
    marks = [each for each in chart.marks if not each.is_limit]
    shown = replace(chart, marks=marks)
    for i, bars in enumerate(chart.bars):
        ends = np.fmax(np.nan_to_num(bars.values), shown.furthest)
        for place, (end, text) in enumerate(zip(ends, bars.texts, strict=True)):
            apart = 8 if marks else 4  # points: half a mark
            at: dict[str, Any] = {"xytext": (apart, 0), "textcoords": "offset points"}
            ax.annotate(text, (end, place + chart.shift(i)), va="center", size=9, **at)
    for each in marks:
        places = np.arange(len(names))
        ax.scatter(each.values, places, 28, each.colour, marker="d", label=each.label, zorder=3)
    ax.set_xlabel(chart.axis)


def draw_stack(ax: "Axes", rows: Sequence[str], parts: Sequence[Bars], ends: Sequence[str]) -> None:
    """Draw stacked bars of ``parts`` in named ``rows``, with texts at their ``ends``.

    A value of NaN draws no bar.
    """
    places, reached = np.arange(len(rows)), np.zeros(len(rows))
    for bars in parts:
        values = np.nan_to_num(bars.values)
        ax.barh(places, values, 0.7, left=reached, color=bars.colour, label=bars.label)
        reached += values
    for place, end, text in zip(places, reached, ends, strict=True):
        ax.annotate(text, (end, place), (4, 0), textcoords="offset points", va="center", size=9)
    ax.set_yticks(places, rows)
    ax.invert_yaxis()
    ax.grid(visible=False, axis="y")


@contextmanager
def frame(title: str, height: float) -> "Iterator[Figure]":
    """Return a context with an empty, titled figure, ``height`` inches high, and its style."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        figure.suptitle(textwrap.fill(title, 84), x=0.01, ha="left", weight="bold", fontsize=12)
        yield figure


def kind_of(file: str | PurePath, where: str) -> str:
    """Return the format of a picture from its file's ending: ``png``, ``svg`` or ``pdf``.

    Raises :class:`DimsweepError`, at ``where``, for another ending.
    """
    kind = PurePath(file).suffix.removeprefix(".").lower()
    if kind not in _KINDS:
        raise DimsweepError(
            f"{str(file)!r} does not end in the name of a kind of picture",
            where=where,
            code="unknown-name",
            hint=f"let the name end in {', '.join(f'.{each}' for each in _KINDS)}",
        )
    return kind


def encoded(figure: "Figure", kind: str) -> bytes:
    """Encode a figure as ``png``, ``svg`` or ``pdf``; equal pictures have equal bytes."""
    for ax in figure.get_axes():
        for axis in (ax.xaxis, ax.yaxis):
            _write_numbers(axis)
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=_DPI, metadata=_KINDS[kind])
    return buffer.getvalue()


def _write_numbers(axis: Any) -> None:
    """Format the numbers of an axis with separators, unless it has another format."""
    from matplotlib.ticker import LogFormatter, ScalarFormatter

    class Log(LogFormatter):
        def __call__(self, value: float, place: Any = None) -> str:
            return number(value) if super().__call__(value, place) else ""

    if isinstance(axis.get_major_formatter(), ScalarFormatter):
        axis.set_major_formatter(lambda value, _: number(value))
    elif isinstance(axis.get_major_formatter(), LogFormatter):
        axis.set_major_formatter(Log())
        axis.set_minor_formatter(Log(labelOnlyBase=False, minor_thresholds=(1, 0.5)))


def reduced(picture: bytes) -> bytes:
    """Return a PNG with 256 colours and two thirds of its width and height.

    It is for pages that are kept in git.
    """
    from PIL import Image

    drawn = Image.open(io.BytesIO(picture)).convert("RGB")
    smaller = drawn.resize((drawn.width * 2 // 3, drawn.height * 2 // 3), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    smaller.quantize(256, Image.Quantize.MAXCOVERAGE, kmeans=1).save(
        buffer, format="png", optimize=True
    )
    return buffer.getvalue()
