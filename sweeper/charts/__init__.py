"""The charts of a report, each in a file of its own and one line here, in reading order."""

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


def in_order(report: Report) -> list[Chart]:
    """The charts of a report, those first that its kind of question asks for: where a plan was
    searched all designs at once, before how their bandwidths are split.
    """
    if not report.study.parameters:
        return list(CHARTS)
    plan = (matrices.REGRET, brushed.FRONT, matrices.WHAT_WINS, bars.CELLS, brushed.PARALLEL)
    return [*plan, *(chart for chart in CHARTS if chart not in plan)]
