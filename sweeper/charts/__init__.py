"""The charts of a report, each in a file of its own and one line here, in reading order."""

from sweeper.charts import (
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
    what_if.CHART,
    convergence.CHART,
    recheck.CHART,
    table.CHART,
)
