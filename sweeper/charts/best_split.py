"""How the best split divides the bandwidth, beside the equal split."""

from bokeh.models import UIElement

from dimsweep.sweeper.charts.chart import Chart
from dimsweep.sweeper.charts.frame import bars, legend_outside, rows
from dimsweep.sweeper.charts.points import Points
from dimsweep.sweeper.report import words
from dimsweep.sweeper.report.colours import ORANGE, dimension_colour


def draw(points: Points) -> tuple[str, UIElement] | None:
    (summary, *others) = points.report.found
    if others or not summary.split_varies:
        return None
    best = summary.split(summary.best)
    equal = None if summary.equal is None else summary.split(summary.equal)
    chart = rows(summary.dims, "bandwidth per NPU (GB/s)")
    texts = [f"{words.gbps(b)} ({words.percent(b / best.sum())})" for b in best]
    name = words.best_name(summary)
    colours = [dimension_colour(d) for d in range(len(best))]
    bars(chart, best, texts, colours, name, shift=-0.2 if equal is not None else 0.0)
    if equal is not None:
        bars(chart, equal, [words.gbps(b) for b in equal], ORANGE, "equal split", shift=0.2)
    chart.x_range.start = 0.0  # a bar is as long as what it stands for
    chart.x_range.range_padding = 0.4
    return words.largest_share(summary), legend_outside(chart)


CHART = Chart("best_split", "The best split", draw)
