"""What wins where two things are not what they were thought to be."""

from collections import Counter

from bokeh.models import ColumnDataSource, FixedTicker, UIElement
from bokeh.plotting import figure

from dimsweep.sweeper.charts.chart import Chart
from dimsweep.sweeper.charts.frame import legend_outside, plot, small_hover, tip
from dimsweep.sweeper.charts.points import Points
from dimsweep.sweeper.ledger.record import Regions
from dimsweep.sweeper.report.colours import GREY, WAITING, series_colour
from dimsweep.sweeper.report.naming import beside
from dimsweep.sweeper.terminal import plural

_MOST = 6  # designs with a colour of their own, those that win at most places
_OTHERS, _OPEN = "another design", "not known: too many may win"
_ANSWER = "the answer"


def draw(points: Points) -> tuple[str, UIElement] | None:
    proof = points.report.study.proof
    if proof is None or proof.regions is None:
        return None
    regions = proof.regions
    won = Counter(winner for row in regions.winners for winner in row)
    shown = sorted(won.keys() - {-1}, key=lambda winner: (winner > 0, -won[winner]))[:_MOST]
    names = {winner: _name(regions, winner) for winner in won if winner >= 0}
    chart = plot(f"{regions.x}, times", f"{regions.y}, times", 120 + 44 * len(regions.ys))
    groups = {_name(regions, winner): [winner] for winner in shown}
    groups[_OTHERS] = [winner for winner in names if winner not in shown]
    groups[_OPEN] = [-1]
    for i, (name, winners) in enumerate(groups.items()):
        colour = {_OTHERS: WAITING, _OPEN: "white"}.get(name, series_colour(i))
        _squares(chart, regions, winners, name, colour)
    here = {"x": [regions.xs.index(1.0)], "y": [regions.ys.index(1.0)]}
    look = {"marker": "circle", "size": 9, "color": "black", "line_color": "white"}
    chart.scatter("x", "y", source=ColumnDataSource(here), legend_label="as assumed", **look)
    for axis, values in ((chart.xaxis[0], regions.xs), (chart.yaxis[0], regions.ys)):
        axis.ticker = FixedTicker(ticks=list(range(len(values))))
        axis.major_label_overrides = {i: f"{value:.3g}" for i, value in enumerate(values)}
    chart.grid.visible = False
    n, others = sum(won.values()), len(names) - (0 in names)
    claim = f"the answer wins at {won[0]} of {n} places, {plural(others, 'other design')} at "
    unknown = f", and at {won[-1]} nobody knows" if won[-1] else ""
    return f"{claim}{n - won[0] - won[-1]}, each proven{unknown}", legend_outside(chart)


def _name(regions: Regions, winner: int) -> str:
    return _ANSWER if not winner else beside(regions.designs[winner], regions.designs[0])


def _squares(chart: figure, regions: Regions, winners: list[int], name: str, colour: str) -> None:
    places = [
        (x, y, winner)
        for y, row in enumerate(regions.winners)
        for x, winner in enumerate(row)
        if winner in winners
    ]
    if not places:
        return
    source = ColumnDataSource(
        {
            "x": [x for x, _, _ in places],
            "y": [y for _, y, _ in places],
            "by": [name if w < 0 else _name(regions, w) for _, _, w in places],
            "at": [f"{regions.x} x{regions.xs[x]:.3g}" for x, _, _ in places],
            "and": [f"{regions.y} x{regions.ys[y]:.3g}" for _, y, _ in places],
        }
    )
    look: dict[str, object] = {"color": colour, "line_color": "white", "legend_label": name}
    if -1 in winners:
        look |= {"fill_alpha": 0, "hatch_pattern": "/", "hatch_color": GREY, "line_color": GREY}
    drawn = chart.rect("x", "y", 1, 1, source=source, **look)
    chart.add_tools(small_hover(drawn, tip("@by", "@at", "@and")))


CHART = Chart("what_wins", "What wins where", draw)
