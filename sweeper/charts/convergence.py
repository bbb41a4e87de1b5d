"""Whether the search converged: every trial, and the best so far."""

import numpy as np
from bokeh.models import Span, UIElement

from sweeper.charts.chart import Chart
from sweeper.charts.frame import BLUE, GREEN, ORANGE, legend_outside, plot
from sweeper.charts.points import Points
from sweeper.charts.scatter import marks, scale, span, trials, useful
from sweeper.report import words

_MOST = 24  # searches; more lines would be a tangle


def draw(points: Points) -> tuple[str, UIElement] | None:
    cells = points.report.found
    if max(len(cell.complete) for cell in cells) < 3:
        return None
    objective = cells[0].objective
    factor, title = points.axis(objective)
    ends = useful(points, objective)
    chart = plot("trial", title, y_range=span(ends), y_axis_type=scale(ends))
    trials(chart, points, "trial", objective.column)
    for cell in cells[:_MOST]:
        values = factor * cell.complete[objective.column].to_numpy(float)
        best = objective.sign * np.minimum.accumulate(objective.sign * values)
        turns = np.flatnonzero(np.diff(best, prepend=np.nan) != 0)
        turns = np.append(turns, len(best) - 1)
        number = cell.complete["trial"].to_numpy()
        chart.step(
            number[turns],
            best[turns],
            mode="after",
            line_width=2,
            color=BLUE,
            legend_label="best so far",
        )
    marks(chart, points, "trial", objective.column)
    if len(cells) == 1:
        for value, colour in ((_equal(points), ORANGE), (cells[0].bound, GREEN)):
            if value is not None:
                line = Span(
                    location=factor * value,
                    dimension="width",
                    line_color=colour,
                    line_dash="dashed",
                    line_width=2,
                )
                chart.add_layout(line)
        return words.convergence(cells[0]), legend_outside(chart)
    return f"{len(cells)} searches", legend_outside(chart)


def _equal(points: Points) -> float | None:
    (cell,) = points.report.found
    return None if cell.equal is None else cell.objective.of(cell.equal)


CHART = Chart("convergence", "How the search converged", draw, coloured=True)
