"""The interactive charts of a report's HTML page, in reading order."""

from dimsweep.sweeper.charts import bars, brushed, matrices, timeline
from dimsweep.sweeper.charts.chart import Chart
from dimsweep.sweeper.report.report import Report

CHARTS: tuple[Chart, ...] = (
    matrices.REGRET,
    brushed.FRONT,
    matrices.WHAT_WINS,
    bars.CELLS,
    bars.BEST_SPLIT,
    bars.NEXT_BANDWIDTH,
    timeline.CHART,
    brushed.PARALLEL,
    brushed.SPLIT_MAP,
    bars.WHAT_IF,
    brushed.CONVERGENCE,
    matrices.RECHECK,
    brushed.TABLE,
)


def order_charts(report: Report) -> list[Chart]:
    """Return the charts of a report in the order that suits its kind of question."""
    if not report.study.parameters:
        return list(CHARTS)
    plan = (matrices.REGRET, brushed.FRONT, matrices.WHAT_WINS, bars.CELLS, brushed.PARALLEL)
    return [*plan, *(chart for chart in CHARTS if chart not in plan)]
