"""How the best split divides the bandwidth, beside the equal split."""

from bokeh.models import UIElement

from sweeper.charts.chart import Chart
from sweeper.charts.frame import BLUE, ORANGE, bars, legend_above, rows
from sweeper.charts.points import Points
from sweeper.charts.scatter import scale
from sweeper.report import words


def draw(points: Points) -> tuple[str, UIElement] | None:
    (summary, *others) = points.report.found
    if others or not summary.split_varies:
        return None
    best = summary.split(summary.best)
    equal = None if summary.equal is None else summary.split(summary.equal)
    shown = best if equal is None else [*best, *equal]
    kind = scale((min(shown), max(shown)))
    unit = "bandwidth per NPU (GB/s)"
    if kind == "log":
        unit = "bandwidth per NPU (GB/s, logarithmic)"
    chart = rows(summary.dims, unit, x_axis_type=kind)
    texts = [f"{words.gbps(b)} ({words.percent(b / best.sum())})" for b in best]
    name = words.best_name(summary)
    bars(chart, best, texts, BLUE, name, shift=-0.2 if equal is not None else 0.0)
    if equal is not None:
        bars(chart, equal, [words.gbps(b) for b in equal], ORANGE, "equal split", shift=0.2)
    if kind == "linear":
        chart.x_range.start = 0.0
    chart.x_range.range_padding = 0.4
    return words.largest_share(summary), legend_above(chart)


CHART = Chart("best_split", "The best split", draw)
