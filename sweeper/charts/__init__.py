"""The charts of a report, each in a file of its own and one line here, in reading order."""

from dimsweep.sweeper.charts import (
    best_split,
    cells,
    convergence,
    front,
    next_bandwidth,
    parallel,
    recheck,
    regret,
    split_map,
    table,
    timeline,
    what_if,
    what_wins,
)
from dimsweep.sweeper.charts.chart import Chart
from dimsweep.sweeper.report.report import Report

CHARTS: tuple[Chart, ...] = (
    regret.CHART,
    front.CHART,
    what_wins.CHART,
    cells.CHART,
    best_split.CHART,
    next_bandwidth.CHART,
    timeline.CHART,
    parallel.CHART,
    split_map.CHART,
    what_if.CHART,
    convergence.CHART,
    recheck.CHART,
    table.CHART,
)


def in_order(report: Report) -> list[Chart]:
    """The charts of a report, those first that its kind of question asks for: where a plan was
    searched all designs at once, before how their bandwidths are split."""
    if not report.study.parameters:
        return list(CHARTS)
    plan = (regret.CHART, front.CHART, what_wins.CHART, cells.CHART, parallel.CHART)
    return [*plan, *(chart for chart in CHARTS if chart not in plan)]
