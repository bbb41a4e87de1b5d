"""The best designs by phases and message by message."""

from bokeh.models import ColumnDataSource, UIElement

from dimsweep.sweeper.charts.chart import Chart
from dimsweep.sweeper.charts.frame import legend_outside, plot, small_hover, tip
from dimsweep.sweeper.charts.points import Points
from dimsweep.sweeper.report import naming
from dimsweep.sweeper.report.colours import GREY, series_colour
from dimsweep.sweeper.report.sections.messages import Comparison, agreement

_MOST = 8  # cells, told apart by colour


def draw(points: Points) -> tuple[str, UIElement] | None:
    cells = [s for s in points.report.found if Comparison.of(s).complete]
    if not cells:
        return None
    first = Comparison.of(cells[0])
    factor, title = points.axis(first.measure)
    chart = plot(f"{title}, by phases", f"{title}, by {first.fidelity}s")
    ends, names = list[float](), naming.labels(cells)
    for i, cell in enumerate(cells[:_MOST]):
        comparison = Comparison.of(cell)
        pairs = [(r.phases, r.messages) for r in comparison.complete]
        x, y = ([factor * comparison.measure.of(pair[i]) for pair in pairs] for i in (0, 1))
        ranks = [str(recheck.rank) for recheck in comparison.complete]
        source = ColumnDataSource({"x": x, "y": y, "rank": ranks})
        name = names[i] if len(cells) > 1 else "one design, by its rank"
        drawn = chart.scatter(
            "x", "y", source=source, size=9, color=series_colour(i), legend_label=name
        )
        chart.text("x", "y", "rank", source=source, x_offset=7, text_color=GREY)
        shown = tip(
            "rank @rank", "by phases @x{0,0.[000]}", f"by {first.fidelity}s @y{{0,0.[000]}}"
        )
        chart.add_tools(small_hover(drawn, shown))
        ends += x
    same = [min(ends), max(ends)]
    chart.line(same, same, color=GREY, legend_label="the same both ways")
    claim = agreement(first) if len(cells) == 1 else f"{len(cells)} cells"
    return claim, legend_outside(chart)


CHART = Chart("recheck", "Whether the ranking holds when every message is simulated", draw)
