"""The charts of a report, each in a file of its own and one line here, in reading order."""

from sweeper.charts import (
    best_split,
    cells,
    convergence,
    front,
    importance,
    next_bandwidth,
    parallel,
    recheck,
    regret,
    split_map,
    table,
    timeline,
)
from sweeper.charts.chart import Chart

CHARTS: tuple[Chart, ...] = (
    regret.CHART,
    front.CHART,
    cells.CHART,
    best_split.CHART,
    next_bandwidth.CHART,
    timeline.CHART,
    parallel.CHART,
    split_map.CHART,
    importance.CHART,
    convergence.CHART,
    recheck.CHART,
    table.CHART,
)
