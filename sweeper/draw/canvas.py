"""The frame of every picture: style, bars, a title that says the finding, PNG bytes.

Colours are those of charts.  Matplotlib is imported only when a picture is drawn, and without
pyplot: no global figures, no display.
"""

import io
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from sweeper.report.colours import BLUE as BLUE
from sweeper.report.colours import GREEN as GREEN
from sweeper.report.colours import GREY as GREY
from sweeper.report.colours import ORANGE as ORANGE
from sweeper.report.colours import dimension_colour as dimension_colour
from sweeper.report.colours import series_colour as series_colour
from sweeper.report.summary import Floats

_DPI = 150
WIDTH = 9.0  # inches: text of 10 points is easy to read when shown 900 pixels wide
_STYLE = {
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
    "text.parse_math": False,  # a name may hold dollar signs
}


class Bars(NamedTuple):
    """Bars of one colour, one for each row of a panel, with a text at the end of each."""

    values: Floats
    texts: Sequence[str]
    colour: str
    label: str


def draw_bars(ax: Any, rows: Sequence[str], groups: Sequence[Bars]) -> None:
    """Horizontal bars in named ``rows``, those of the groups below one another in each."""
    places = np.arange(len(rows))
    for i, bars in enumerate(groups):
        shift = 0.4 * (i - (len(groups) - 1) / 2)
        drawn = ax.barh(places + shift, bars.values, 0.38, color=bars.colour, label=bars.label)
        ax.bar_label(drawn, bars.texts, padding=4, fontsize=9)
    ax.set_yticks(places, rows)
    ax.invert_yaxis()
    ax.grid(visible=False, axis="y")


def draw_stack(ax: Any, rows: Sequence[str], parts: Sequence[Bars], ends: Sequence[str]) -> None:
    """Horizontal bars in named ``rows``, made of ``parts`` one after the other, with a text at the
    end of each; NaN is no bar."""
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
def frame(title: str, height: float) -> Iterator[Any]:
    """An empty figure, ``height`` inches high, below its title; the style holds until the end."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        figure.suptitle(textwrap.fill(title, 84), x=0.01, ha="left", weight="bold", fontsize=12)
        yield figure


def png(figure: Any) -> bytes:
    """The finished picture."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=_DPI)
    return buffer.getvalue()


def reduced(picture: bytes) -> bytes:
    """A PNG in few colours and two thirds of its size, for a page that is kept in git."""
    from PIL import Image

    drawn = Image.open(io.BytesIO(picture)).convert("RGB")
    smaller = drawn.resize((drawn.width * 2 // 3, drawn.height * 2 // 3), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    smaller.quantize(48).save(buffer, format="png", optimize=True)
    return buffer.getvalue()
