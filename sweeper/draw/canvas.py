"""The frame of every picture: style, one panel a cell, a title that says the finding, PNG bytes.

Colours are Okabe and Ito's, told apart by colour-blind readers.  Matplotlib is imported only when
a picture is drawn, and without pyplot: no global figures, no display.
"""

import io
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np

from sweeper.report.report import Report
from sweeper.report.summary import Floats
from sweeper.report.words import label

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#E69F00", "#009E73", "#8A8F98"
# The same point looks the same in every picture.
BEST = {"marker": "*", "s": 380, "facecolor": BLUE, "edgecolor": "white", "lw": 1.5, "zorder": 5}
EQUAL = {"marker": "D", "s": 90, "facecolor": ORANGE, "edgecolor": "white", "lw": 1.5, "zorder": 4}

_Shown = TypeVar("_Shown")  # what a panel shows: a cell, or a portfolio


@dataclass(frozen=True)
class Picture:
    """A picture of the report: its file name, its caption, and what draws it as a PNG.

    The picture is None where it would show nothing.
    """

    file: str
    caption: str
    draw: Callable[[Report], bytes | None]


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


def panels(
    summaries: Sequence[_Shown],
    limit: int,
    overview: str,
    claim: Callable[[_Shown], str],
    draw: Callable[[Any, _Shown], None],
    name: Callable[[_Shown], str] = label,  # type: ignore[assignment]
) -> bytes:
    """A PNG with a panel for each of the first ``limit`` cells, which all have complete points.

    The title of a single panel is its ``claim``; several have the ``overview`` above them and
    their claims each, after the cell's ``name``.
    """
    shown = summaries[:limit]
    n_columns = 1 if len(shown) == 1 else 2
    n_rows = -(-len(shown) // n_columns)
    some = f" (first {limit} of {len(summaries)} cells)" if len(summaries) > limit else ""
    title = (
        overview + some
        if len(shown) > 1
        else ": ".join(text for text in (name(shown[0]), claim(shown[0])) if text)
    )
    with frame(title, 5.2 if len(shown) == 1 else 3.3 * n_rows + 0.8) as figure:
        axes = list(figure.subplots(n_rows, n_columns, squeeze=False).flat)
        for ax, summary in zip(axes, shown, strict=False):
            draw(ax, summary)
            if len(shown) > 1:
                lines = (textwrap.fill(text, 44) for text in (name(summary), claim(summary)))
                ax.set_title("\n".join(lines), fontsize=9)
        for ax in axes[len(shown) :]:
            ax.set_axis_off()
        _shared_legend(figure, axes)
        return png(figure)


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


def label_cells(ax: Any, values: Any, texts: Sequence[Sequence[str]]) -> None:
    """A heat map of ``values`` (R, C) with its ``texts`` in it, the darker the more."""
    ax.imshow(values, cmap="Oranges", vmin=0, vmax=1.15 * values.max() or 1.0, aspect="auto")
    ax.grid(visible=False)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    for (row, column), value in np.ndenumerate(values):
        ink = "white" if value > 0.75 * values.max() > 0 else "black"
        ax.text(column, row, texts[row][column], ha="center", va="center", color=ink)


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


def _shared_legend(figure: Any, axes: Sequence[Any]) -> None:
    """One legend below all panels, since they all mean the same by a colour."""
    entries: dict[str, Any] = {}
    for ax in axes:
        for handle, name in zip(*ax.get_legend_handles_labels(), strict=True):
            entries.setdefault(name, handle)
    figure.legend(entries.values(), entries, loc="outside lower center", ncols=len(entries))
