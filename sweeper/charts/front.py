"""The front of two objectives, and what is proven to be impossible."""

import numpy as np
from bokeh.models import UIElement
from bokeh.plotting import figure

from dimsweep.engine.bound import Frontier
from dimsweep.sweeper.charts.chart import Chart
from dimsweep.sweeper.charts.frame import legend_outside, plot
from dimsweep.sweeper.charts.points import Points
from dimsweep.sweeper.charts.ranges import scale, span, useful
from dimsweep.sweeper.charts.scatter import marks, trials
from dimsweep.sweeper.ledger.record import Proof
from dimsweep.sweeper.objective import COST, TIME
from dimsweep.sweeper.report import words
from dimsweep.sweeper.report.colours import BLUE, GREEN
from dimsweep.sweeper.report.proof import trade
from dimsweep.sweeper.report.summary import Floats

_LOG_RATIO = 5.0  # of an axis: a front bends where little is gained, which is near one end
_MOST = 12  # fronts; more would be a tangle


def draw(points: Points) -> tuple[str, UIElement] | None:
    cells = points.report.found
    if len(cells[0].objectives) == 1:
        return None
    x, y = cells[0].objectives
    (fx, x_title), (fy, y_title) = points.axis(x), points.axis(y)
    ends = useful(points.report, x), useful(points.report, y)
    chart = plot(
        x_title,
        y_title,
        420,
        x_range=span(ends[0]),
        y_range=span(ends[1]),
        x_axis_type=scale(ends[0], _LOG_RATIO),
        y_axis_type=scale(ends[1], _LOG_RATIO),
    )
    trials(chart, points, x.column, y.column)
    if told := trade(points.report.study):
        _draw_proof(chart, points.report.study.proof, fx, fy)
        marks(chart, points, x.column, y.column)
        return told, legend_outside(chart)
    for cell in cells[:_MOST]:
        chart.step(
            fx * cell.front[x.column].to_numpy(float),
            fy * cell.front[y.column].to_numpy(float),
            mode="after",
            line_width=2,
            color=BLUE,
            legend_label="no trial is better in both",
        )
        if cell.cell.front is not None:
            proven = _proven_front(cell.cell.front)
            chart.line(
                fx * proven[x.column],
                fy * proven[y.column],
                line_width=3,
                color=GREEN,
                legend_label="proven bound",
            )
    marks(chart, points, x.column, y.column)
    claim = words.trade_off(cells[0]) if len(cells) == 1 else f"{len(cells)} fronts"
    return claim, legend_outside(chart)


def _draw_proof(chart: figure, proof: Proof | None, fx: float, fy: float) -> None:
    """The steps that no network and plan of all is below."""
    front = () if proof is None else proof.front
    chart.step(
        fx * np.array([step.bound for step in front]),
        fy * np.array([step.cost for step in front]),
        mode="after",
        line_width=3,
        color=GREEN,
        legend_label="no design is below",
    )


def _proven_front(proven: Frontier) -> dict[str, Floats]:
    """The bound on the front as rows of a ledger are, close enough to each other for a curve."""
    cost = np.interp(np.arange(0, len(proven.cost), 0.1), range(len(proven.cost)), proven.cost)
    return {COST.column: cost, TIME.column: proven.least_time(cost)}


CHART = Chart("front", "What one objective costs in the other", draw, coloured=True)
