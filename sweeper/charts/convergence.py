"""Whether the search converged: every trial, and the best so far."""

import numpy as np
from bokeh.models import Span, UIElement

from dimsweep.sweeper.charts.chart import Chart
from dimsweep.sweeper.charts.frame import legend_outside, plot
from dimsweep.sweeper.charts.points import Points
from dimsweep.sweeper.charts.ranges import scale, span, useful
from dimsweep.sweeper.charts.scatter import marks, trials
from dimsweep.sweeper.report import words
from dimsweep.sweeper.report.colours import BLUE, GREEN, ORANGE

_MOST = 24  # searches; more lines would be a tangle


def draw(points: Points) -> tuple[str, UIElement] | None:
    cells = points.report.found
    if max(cell.trials.n_complete for cell in cells) < 3:
        return None
    objective = cells[0].objective
    factor, title = points.axis(objective)
    ends = useful(points.report, objective)
    chart = plot("trial", title, y_range=span(ends), y_axis_type=scale(ends))
    trials(chart, points, "trial", objective.column)
    for cell in cells[:_MOST]:
        steps = cell.trials.steps
        best = factor * steps[objective.column].to_numpy(float)
        chart.step(
            np.append(steps["trial"].to_numpy(), cell.trials.last),
            np.append(best, best[-1]),
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
