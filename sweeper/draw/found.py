"""The picture of a study's findings, for pages and slides.

For one cell it shows the design and its bandwidths next to the equal split's; for several a bar
each; for two objectives also the front.  Time, cost and their certainty are written on it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dimsweep.sweeper.draw.canvas import WIDTH, draw_rows, encoded, frame, kind_of, reduced
from dimsweep.sweeper.draw.design import Design, design_of_answer
from dimsweep.sweeper.objective import COST
from dimsweep.sweeper.output import write_file
from dimsweep.sweeper.report import naming, words
from dimsweep.sweeper.report.charts import chart_best_split, chart_values
from dimsweep.sweeper.report.colours import BLUE, GREEN, GREY
from dimsweep.sweeper.report.report import Report
from dimsweep.sweeper.report.summary import CellSummary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST = 40  # cells
_DESIGN, _FRONT = 1.9, 3.2  # inches
_LETTERS = 36  # of a line of a cell's name
_LETTER, _LINE = 0.08, 0.17  # inches of a letter and of a line
_BAR, _REST = 0.34, 1.5  # inches: of a bar; of title, axis and foot


def write_picture(report: Report, file: str | Path) -> Path:
    """Draw a study's findings into a file, in the format of its ending; return its path.

    Raises :class:`DimsweepError` for an unknown ending, and if the file cannot be written.
    """
    kind = kind_of(file, str(file))
    drawn = draw_found(report, kind)
    return write_file(file, "the picture", reduced(drawn) if kind == "png" else drawn)


def draw_found(report: Report, kind: str = "png") -> bytes:
    """Return a picture of a study's findings, as ``kind`` ``png``, ``svg`` or ``pdf``."""
    cells, design = report.found, design_of_answer(report)
    shown = cells[:_MOST]
    panels: list[tuple[float, Any]] = []
    if design is not None:
        panels.append((_DESIGN, lambda figure: _draw_design(figure, design)))
    if len(cells) > 1:
        names = [naming.folded(name, _LETTERS) for name in naming.labels(shown)]
        most = max(name.count("\n") + 1 for name in names)
        height = max(_BAR, _LINE * (most + 0.5)) * max(len(shown), 3) + 0.6
        panels.append((height, lambda figure: _draw_cells(figure.subplots(), shown)))
    elif cells[0].split_varies:
        height = _BAR * (1 + (cells[0].equal is not None)) * len(cells[0].dims) + 0.6
        panels.append((height, lambda figure: _draw_split(figure.subplots(), cells[0])))
    if len(cells[0].objectives) > 1:
        panels.append((_FRONT, lambda figure: _draw_fronts(figure.subplots(), shown)))
    heights = [height for height, _ in panels] or [0.5]
    with frame(report.headline, sum(heights) + _REST) as figure:
        parts = figure.subfigures(len(heights), height_ratios=heights, squeeze=False)[:, 0]
        for part, (_, draw) in zip(parts, panels, strict=False):
            draw(part)
        figure.supxlabel(_foot(report, shown), x=0.01, ha="left", size=8, color=GREY)
        return encoded(figure, kind)


def _foot(report: Report, shown: Sequence[CellSummary]) -> str:
    """Return the text below the picture: best design, number of omitted cells, and study."""
    study = report.study
    found = [_worth(report.found[0], long=True)] if len(report.found) == 1 else []
    if len(shown) < len(report.found):
        found.append(f"the first {len(shown)} of {len(report.found):,} cells")
    wrote = [f"dimsweep {each.version}" for each in study.provenance[-1:]]
    model = [f"model {study.model}"] if study.model is not None else []
    return "; ".join([*found, ", ".join([f"study {study.name}", *wrote, *model])])


def _worth(cell: CellSummary, *, long: bool = False) -> str:
    """Return time, error of such times, and cost of the design that the answer names, as text."""
    own = cell.objective.show(cell.objective.value(cell.named))
    texts = list(dict.fromkeys([own, words.seconds(cell.named["time_s"])]))
    if cell.priced and cell.objective is not COST:
        cost = words.usd(cell.named[COST.column])
        texts.append(f"{words.cost_of(cell.npu_price)} {cost}" if long else cost)
    evidence = cell.evidence_of(cell.named)
    if evidence.band is not None:
        texts.append(f"expect {evidence.expected(cell.named['time_s'])}")
    if long and (gap := cell.gap_at_cost(cell.named)) is not None:
        texts.append(f"within {words.fine_percent(gap)} of the proven bound")
    return ", ".join(texts)


def _draw_design(figure: "Figure", design: Design) -> None:
    for ax, part in zip(
        figure.subplots(1, len(design.parts), squeeze=False)[0], design.parts, strict=True
    ):
        part.draw(ax)
        ax.set_aspect("equal")
    plan = "".join(f", {key} {value}" for key, value in design.plan)
    text = naming.folded(f"{design.name}: {design.sizes}{plan}", 110)
    figure.suptitle(text, size=9, color=GREY)


def _draw_split(ax: "Axes", cell: CellSummary) -> None:
    draw_rows(ax, chart_best_split(cell), cell.dims)
    ax.margins(x=0.15)
    if cell.equal is not None:
        ax.legend([ax.containers[1]], ["equal split"], loc="lower right")


def _draw_cells(ax: "Axes", cells: Sequence[CellSummary]) -> None:
    objective = cells[0].objective
    axis = words.axis(objective, min(objective.value(cell.named) for cell in cells))
    label = "best" if cells[0].for_all is None else "one network for all"
    names = [naming.folded(name, _LETTERS) for name in naming.labels(cells)]
    chart = chart_values(names, cells, axis, lambda cell: cell.named, _worth, label)
    draw_rows(ax, chart, names)
    if ax.collections:
        ax.figure.legend(loc="outside upper right", ncols=2)
    # The names and the texts take what they need, and the bars the rest.
    lines = [line for name in names for line in name.split("\n")]
    wide = WIDTH - _LETTER * (max(map(len, lines)) + 4)
    room = _LETTER * (max(map(len, chart.bars[0].texts)) + 2) / wide
    ends = [chart.bars[0].values, *(each.values for each in chart.marks if not each.is_limit)]
    ax.set_xlim(0, float(np.nanmax(ends)) / max(1 - room, 0.2))


def _draw_fronts(ax: "Axes", cells: Sequence[CellSummary]) -> None:
    (fx, x_title), (fy, y_title) = (
        words.axis(each, min(each.value(cell.best) for cell in cells))
        for each in cells[0].objectives
    )
    x, y = cells[0].objectives
    for i, cell in enumerate(cells):
        values = [f * cell.front[o.column].to_numpy(float) for f, o in ((fx, x), (fy, y))]
        one = len(cells) == 1
        label = "no trial is better in both" if one else naming.label(cell)
        colour = BLUE if one else None
        ax.step(*values, where="post", color=colour, label=label if i < 8 else None)
        if one and cell.cell.front is not None:
            proven = cell.cell.front
            within = (proven.cost >= cell.front[COST.column].min()) & (
                proven.cost <= cell.front[COST.column].max()
            )
            cost = proven.cost[within]
            time = proven.minimum_time(cost)
            first, second = (cost, time) if x is COST else (time, cost)
            ax.plot(fx * first, fy * second, color=GREEN, lw=1, label="proven bound")
    ax.set(xlabel=x_title, ylabel=y_title)
    spans = [o.value(cell.front.iloc[i]) for o in (x, y) for cell in cells for i in (0, -1)]
    if min(spans) > 0:
        ax.set(xscale="log", yscale="log")
    ax.legend(loc="upper right")
