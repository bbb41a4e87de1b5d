"""Draw a design as a row of its dimensions.

A dimension's links are as wide as its bandwidth is large. The HTML page draws it as SVG in light or
dark colours, a picture with Matplotlib; both draw the same positions and lines.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from dimsweep.engine import DimsweepError, Topology
from dimsweep.engine.network import build_network
from dimsweep.sweeper.draw.layout import lay_out
from dimsweep.sweeper.report import describe, naming, words
from dimsweep.sweeper.report.colours import GREY, dimension_colour
from dimsweep.sweeper.report.report import Report
from dimsweep.sweeper.report.summary import CellSummary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Points = npt.NDArray[np.float64]  # (N, 2)

_MOST, _SIDE = 12, 4  # NPUs that are drawn of a dimension; a side of one that has two
_WIDTHS = (0.8, 5.0)  # of lines: of no bandwidth, and of the dimension that has most
_BOX = 90.0  # the side of the square that an SVG is drawn in
_RADIUS = 4.5


@dataclass(frozen=True)
class Part:
    """The drawing of one dimension of a design.

    ``npus`` (N, 2) and ``switches`` (M, 2) lie in the unit square, and ``links`` (L, 2, 2) go from
    one position to another; of a large dimension they are those of a smaller one, ``drawn`` NPUs of
    ``size``.  ``bandwidth`` is in GB/s per NPU, ``share`` its part of all dimensions' sum, and
    ``width`` the width of the links; ``axes`` the parallel axes of the plan in this dimension.
    """

    name: str
    size: int
    drawn: int
    bandwidth: float
    share: float
    width: float
    colour: str
    npus: Points
    switches: Points
    links: Points
    axes: str = ""

    @property
    def bandwidth_text(self) -> str:
        """Bandwidth and share, as text."""
        return f"{words.gbps(self.bandwidth)} GB/s ({words.percent(self.share)})"

    @property
    def note(self) -> str:
        """Text with the number of drawn NPUs, if not all are drawn."""
        return f"{self.drawn} of {self.size:,} NPUs drawn" if self.drawn < self.size else ""

    def svg(self) -> str:
        """Return the dimension as SVG, whose foreground and background are CSS variables."""
        edge = _RADIUS + 2
        free = _BOX - 2 * edge

        def to_page(place: Any) -> tuple[str, str]:
            return f"{edge + place[0] * free:.1f}", f"{edge + (1 - place[1]) * free:.1f}"

        ends = [(*to_page(start), *to_page(end)) for start, end in self.links]
        lines = [f'<path d="M{a} {b}L{c} {d}"/>' for a, b, c, d in ends]
        discs = [f'<circle cx="{x}" cy="{y}" r="{_RADIUS}"/>' for x, y in map(to_page, self.npus)]
        side = 2 * _RADIUS
        corners = [(float(x) - _RADIUS, float(y) - _RADIUS) for x, y in map(to_page, self.switches)]
        squares = [
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{side}" height="{side}"/>' for x, y in corners
        ]
        return (
            f'<svg viewBox="0 0 {_BOX:g} {_BOX:g}" aria-hidden="true">'
            f'<g stroke="{self.colour}" stroke-width="{self.width:.2f}" fill="none">'
            f"{''.join(lines)}</g>"
            f'<g fill="{self.colour}">{"".join(squares)}</g>'
            f'<g class="npus" stroke="{self.colour}">{"".join(discs)}</g></svg>'
        )

    def draw(self, ax: "Axes") -> None:
        """Draw the dimension on Matplotlib axes, with its name and bandwidth below."""
        from matplotlib.collections import LineCollection

        ax.add_collection(LineCollection(list(self.links), colors=self.colour, lw=self.width))
        x, y = self.switches[:, 0], self.switches[:, 1]
        ax.scatter(x, y, s=60, marker="s", color=self.colour, zorder=2)
        x, y = self.npus[:, 0], self.npus[:, 1]
        ax.scatter(x, y, s=36, color="white", edgecolors=self.colour, zorder=3)
        ax.set(xlim=(-0.15, 1.15), ylim=(-0.15, 1.15), xticks=[], yticks=[])
        ax.spines[:].set_visible(False)
        lies = f"\n{self.axes}" if self.axes else ""
        ax.set_xlabel(f"{self.name}\n{self.bandwidth_text}{lies}", size=9)
        if self.note:
            ax.set_title(self.note, size=7, color=GREY, loc="center")


@dataclass(frozen=True)
class Design:
    """The drawing of a design: its ``name`` (the best split), its dimensions and number of NPUs.

    The ``plan`` has the values of the grid's decisions and of the searched keys.
    """

    name: str
    parts: Sequence[Part]
    n_npus: int
    plan: Sequence[tuple[str, str]]

    @property
    def sizes(self) -> str:
        """Number of NPUs as the product of the dimensions' sizes, as text."""
        sizes = [f"{part.size:,}" for part in self.parts]
        product = f"{' x '.join(sizes)} = " if len(sizes) > 1 else ""
        return f"{product}{self.n_npus:,} NPUs"


def design_of_answer(report: Report) -> Design | None:
    """Return the drawing of the answer's design, in its first scenario.

    It is None if it cannot be drawn.
    """
    decisions, (cell, row) = report.decisions, report.chosen[0]
    if report.one_for_all is not None:
        return design_of(cell, row, report.one_for_all.title)
    name = describe.best_name(cell)
    if row.name != cell.best.name:  # of two objectives the trade-off that is advised
        name = f"{describe.noun(cell)} within 1% of the {name}"
    if len({_built(*each) for each in report.chosen}) > 1:
        name = f"{name} {decisions.first_scenario}"
    several = len(decisions.decisions) > 1
    return design_of(cell, row, name, decisions.decisions[decisions.ranking[0]] if several else {})


def _built(cell: CellSummary, row: pd.Series) -> tuple[Any, ...]:
    return (*cell.dims, *cell.split(row), naming.searched(cell, row))


def design_of(
    summary: CellSummary, row: pd.Series, name: str = "", decision: Mapping[str, str] | None = None
) -> Design | None:
    """Return the drawing of a row's design, called the best one unless it has another ``name``.

    Its plan begins with the values of a ``decision``.  None for a graph, or if a dimension is of no
    block that can be drawn.
    """
    split = summary.split(row)
    if summary.of_graph or not np.isfinite(split).all() or not split.sum():
        return None
    keys = [key for key in summary.parameters if key in row]
    values = {**(decision or {}), **{key: str(row[key]) for key in keys}}
    plan = list(zip(naming.short_keys(list(values)), values.values(), strict=True))
    try:
        parts = [
            replace(_part(d, name.split(": ", 1)[-1], float(split[d]), split), axes=axes)
            for d, (name, axes) in enumerate(zip(summary.dims, summary.axes_of(row), strict=True))
        ]
    except DimsweepError:
        return None
    return Design(name or describe.best_name(summary), parts, summary.cell.n_npus, plan)


def _part(d: int, label: str, bandwidth: float, split: Any) -> Part:
    size = Topology.build(label, bandwidth=[1e9], latency=[0]).n_npus
    most = _SIDE if "," in label else _MOST
    smaller = re.sub(r"\d+(?=[,)])", lambda number: str(min(int(number[0]), most)), label)
    network = build_network(Topology.build(smaller, bandwidth=[1e9], latency=[0]))
    places = lay_out(network).places
    spots = _in_square(np.array(list(places.values())))
    where = dict(zip(places, spots, strict=True))
    npus = [where[node] for node in where if isinstance(node, int)]
    switches = [where[node] for node in where if isinstance(node, str)]
    # One line for both directions, drawn from the same end in every process: sets have no order.
    directed = [(link.source, link.target) for link in network.links]
    pairs = {frozenset(pair): pair for pair in directed if len(set(pair)) == 2}
    ends = [[where[node] for node in pair] for pair in pairs.values()]
    narrow, wide = _WIDTHS
    return Part(
        name=label,
        size=size,
        drawn=network.n_npus,
        bandwidth=bandwidth,
        share=bandwidth / float(split.sum()),
        width=narrow + (wide - narrow) * float(np.sqrt(bandwidth / split.max())),
        colour=dimension_colour(d),
        npus=np.array(npus),
        switches=np.array(switches).reshape(-1, 2),
        links=np.array(ends).reshape(-1, 2, 2),
    )


def _in_square(places: Points) -> Points:
    """Scale and shift points so that they fill the unit square, centred."""
    low, extent = places.min(axis=0), np.ptp(places, axis=0)
    largest = float(extent.max()) or 1.0
    return np.asarray((places - low - extent / 2) / largest + 0.5)
