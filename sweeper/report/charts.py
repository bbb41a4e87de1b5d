"""Charts as data, with one row of bars or marks for each compared item.

The HTML page draws them with Bokeh (:mod:`sweeper.charts.frame`), a picture with Matplotlib
(:mod:`sweeper.draw.canvas`); neither library is imported here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from dimsweep.sweeper.report import describe, words
from dimsweep.sweeper.report.colours import BLUE, GREEN, ORANGE, dimension_colour
from dimsweep.sweeper.report.summary import CellSummary, Floats

#: The axis of an objective in scenarios whose best values are very different.
RELATIVE_AXIS = "times as bad as the best of the scenario"
_UNEVEN = 5.0  # factor between the best values of scenarios that share no axis


def minimum_losses(cells: Sequence[CellSummary]) -> dict[int, float]:
    """Return, by cell number, the least loss of any cell in the cell's scenario; 1 instead of 0."""
    scenes = {c.cell.cell: tuple(c.study.scenario(c.cell.coordinates).items()) for c in cells}
    least = dict[object, float]()
    for cell in cells:
        own, scene = cell.objective.loss(cell.objective.value(cell.best)), scenes[cell.cell.cell]
        least[scene] = min(own, least.get(scene, own))
    return {number: least[scene] or 1.0 for number, scene in scenes.items()}


def needs_separate_scales(cells: Sequence[CellSummary]) -> bool:
    """Return whether the best values of the scenarios differ too much for one chart axis."""
    least = minimum_losses(cells).values()
    return max(least) > _UNEVEN * min(least)


class Bars(NamedTuple):
    """A bar in each row of a chart, with a text at its end; NaN draws no bar.

    Bars with a sequence of colours have no entry in the legend.
    """

    values: Floats
    texts: Sequence[str]
    colour: str | Sequence[str]
    label: str


class Marks(NamedTuple):
    """A mark in each row of a chart, across the row if ``is_limit``; NaN draws no mark.

    Marks with ``texts`` are points that show their text in a tooltip.
    """

    values: Floats
    colour: str
    label: str
    is_limit: bool = False
    texts: Sequence[str] = ()


class RegretMatrix(NamedTuple):
    """A chart of relative losses: a row for each of ``down``, a column for each of ``across``.

    It is NaN if nothing ran. ``titles`` are the titles of the columns and of the rows.
    """

    titles: tuple[str, str]
    across: Sequence[str]
    down: Sequence[str]
    regrets: Floats


@dataclass(frozen=True)
class RowChart:
    """A chart as data: bars and marks in one row for each compared item."""

    names: Sequence[str]
    axis: str
    bars: Sequence[Bars] = ()  # below one another in each row
    parts: Sequence[Bars] = ()  # end to end in each row
    marks: Sequence[Marks] = ()
    unit: str = ""  # of ``parts`` in tooltips
    start: float = 0.0  # of the axis
    room: float = 0.3  # share of the axis that is free beyond bars or points
    has_zero: bool = False  # whether a line is drawn at 0

    @property
    def furthest(self) -> Floats:
        """Value of the furthest mark of each row (R,); 0 in a row without marks."""
        known = [marks.values for marks in self.marks]
        return np.fmax.reduce([np.zeros(len(self.names)), *known])

    def shift(self, i: int) -> float:
        """Return how far below the middle of a row the ``i``-th series of bars is drawn."""
        return 0.4 * (i - (len(self.bars) - 1) / 2)


def chart_best_split(cell: CellSummary) -> RowChart:
    """Return a chart of the bandwidth per dimension, of the best split and of the equal split."""
    best = cell.split(cell.best)
    texts = [f"{words.gbps(b)} ({words.percent(b / best.sum())})" for b in best]
    colours = [dimension_colour(d) for d in range(len(best))]
    bars = [Bars(best, texts, colours, describe.best_name(cell))]
    if cell.equal is not None:
        equal = cell.split(cell.equal)
        bars.append(Bars(equal, [words.gbps(b) for b in equal], ORANGE, "equal split"))
    return RowChart(cell.dims, "bandwidth per NPU (GB/s)", bars, room=0.4)


def chart_values(
    names: Sequence[str],
    cells: Sequence[CellSummary | None],
    axis: tuple[float, str],
    row: Callable[[CellSummary], pd.Series],
    text: Callable[[CellSummary], str],
    label: str,
) -> RowChart:
    """Return a chart of one value per cell, with the cell's reference and its proven bound.

    ``row`` returns the row of results whose value is shown. A cell that is None leaves an empty
    row. ``axis`` is the factor of the values and the label. If the values of scenarios are very
    different, they are relative to the best of each scenario.
    """
    factor, title = axis
    found = [cell for cell in cells if cell is not None]
    objective, least = found[0].objective, minimum_losses(found)
    is_relative = needs_separate_scales(found)

    def scale(cell: CellSummary, value: float | None) -> float | None:
        if value is None or not is_relative:
            return None if value is None else factor * value
        return float(objective.loss(value)) / least[cell.cell.cell]

    def values(of: Callable[[CellSummary], float | None]) -> Floats:
        return np.array([None if cell is None else scale(cell, of(cell)) for cell in cells], float)

    compared = [cell.reference for cell in cells if cell is not None and cell.reference]
    texts = ["" if cell is None else text(cell) for cell in cells]
    marks = []
    if compared:
        other = values(lambda c: objective.value(c.reference.row) if c.reference else None)
        marks.append(Marks(other, ORANGE, compared[0].name.removeprefix("the ")))
    limits = values(lambda cell: cell.bound)
    if not np.isnan(limits).all():
        marks.append(Marks(limits, GREEN, "proven bound", is_limit=True))
    best = values(lambda cell: objective.value(row(cell)))
    axis_title = RELATIVE_AXIS if is_relative else title
    return RowChart(names, axis_title, [Bars(best, texts, BLUE, label)], marks=marks)
