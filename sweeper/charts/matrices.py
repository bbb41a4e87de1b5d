"""Charts with two kinds of items: regrets by scenario, winners by assumption, and rechecks."""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from bokeh.layouts import column
from bokeh.models import ColumnDataSource, FixedTicker, Range1d, Span, UIElement
from bokeh.plotting import figure
from bokeh.transform import linear_cmap

from dimsweep.sweeper.charts.chart import Chart
from dimsweep.sweeper.charts.frame import (
    format_tip,
    legend_outside,
    make_room,
    make_row_figure,
    plot,
    small_hover,
    write_beside,
)
from dimsweep.sweeper.charts.points import Points
from dimsweep.sweeper.ledger.record import Regions
from dimsweep.sweeper.report import naming, sentences
from dimsweep.sweeper.report.charts import RegretMatrix
from dimsweep.sweeper.report.colours import BLUE, GREY, WAITING, series_colour
from dimsweep.sweeper.report.decisions import BASELINE, Decisions, Factors, factors
from dimsweep.sweeper.report.naming import folded, name_change
from dimsweep.sweeper.report.recheck import Comparison, agreement
from dimsweep.sweeper.report.words import loss, ratios
from dimsweep.sweeper.terminal import format_count

_MOST_PORTFOLIOS = 4  # portfolios
_ROWS, _COLUMNS = 30, 12  # of decisions and scenarios; more are in the table
_FACTORS = 3  # axes whose factors are drawn
_WIDE, _LETTERS = 62, 11  # of a column: its pixels on a narrow page, and letters of its name
_LETTER, _BESIDE = 5.5, 30  # pixels: of a letter of a name, of an axis's label and its ticks
_LINE, _ROW = 14, 30  # pixels: of a line of a name, of a row of factors


def draw_regret(points: Points) -> tuple[str, UIElement] | None:
    """Draw the loss of each decision in each scenario, and the factors between decisions."""
    portfolios, decisions = points.report.portfolios[:_MOST_PORTFOLIOS], points.report.decisions
    made, claims = [_draw_matrix(one.regret_matrix()) for one in portfolios], []
    shown = [each for each in factors(decisions)[:_FACTORS] if len(each.ranges) > 1]
    if shown and shown[0].reference == BASELINE:
        shown = shown[:1]  # the others are in the table
    for each in shown:
        made.append(_of_factors(each))
        claims.append(each.claim)
    n = len(decisions.decisions)
    # Of two decisions a factor says it all.
    if n > 1 and len(decisions.scenarios) > 1 and not (n == 2 and shown):
        made.append(_draw_matrix(_of_decisions(decisions)))
        claims.append("by how much each decision is worse than the best one of each scenario")
    elif portfolios:
        one = len(portfolios) == 1
        claims.append(portfolios[0].headline() if one else f"{len(portfolios)} portfolios")
    return ("; ".join(claims), column(*made, sizing_mode="stretch_width")) if made else None


def _of_factors(own: Factors) -> figure:
    """Draw, for each scenario, a bar from the smallest to the largest factor."""
    shown = own.ranges[:_ROWS]
    more = f" (the first {_ROWS} scenarios)" if len(own.ranges) > _ROWS else ""
    title = f"{own.subject} against {own.reference}{more}"
    chart = make_row_figure([scene for scene, *_ in shown], title, _ROW)
    low, high = (np.array([each[k] for each in shown]) for k in (1, 2))
    y = np.arange(len(shown), dtype=float)
    chart.add_layout(Span(location=1, dimension="height", line_color=GREY, line_dash="dashed"))
    chart.segment(low, y, high, y, color=BLUE, line_width=5)
    chart.scatter(np.append(low, high), np.append(y, y), size=9, color=BLUE)
    texts = [ratios([least, most]) for _, least, most, _ in shown]
    source = ColumnDataSource({"x": high, "y": y, "text": texts})
    write_beside(chart, source, "x")
    ends = [min(1.0, float(low.min())), max(1.0, float(high.max()))]
    margin = 0.05 * (ends[1] - ends[0]) or 0.05
    chart.x_range = Range1d(ends[0] - margin, ends[1] + margin)
    for end, text in zip(high.tolist(), texts, strict=True):
        make_room(chart, end, [text])
    make_room(chart, ends[1], [])
    return chart


def _of_decisions(decisions: Decisions) -> RegretMatrix:
    """Return the regrets of decisions in scenarios; the longer list is down."""
    n_d, n_s = len(decisions.decisions), len(decisions.scenarios)
    most_d, most_s = (_COLUMNS, _ROWS) if n_s > n_d else (_ROWS, _COLUMNS)
    shown, scenes = decisions.ranking[:most_d], range(min(n_s, most_s))
    d_title = f"decision{f' (the best {most_d})' if n_d > most_d else ''}"
    s_title = f"scenario{f' (the first {most_s})' if n_s > most_s else ''}"
    names, places = [decisions.name(d) for d in shown], [decisions.scene(s) for s in scenes]
    regrets = decisions.regrets[shown][:, : len(scenes)]
    if n_s > n_d:
        return RegretMatrix((d_title, s_title), names, places, regrets.T)
    return RegretMatrix((s_title, d_title), places, names, regrets)


def _draw_matrix(matrix: RegretMatrix) -> figure:
    (x, y), regrets = matrix.titles, matrix.regrets
    across = [folded(name, _LETTERS, len(name)) for name in matrix.across]
    down = [folded(name, most=len(name)) for name in matrix.down]
    names = list(dict.fromkeys(down))
    lines = [max(text.count("\n") + 1 for text in texts) for texts in (across, names)]
    height = 90 + _LINE * (lines[0] + 1) + max(44, _LINE * (lines[1] + 1)) * len(names)
    chart = plot(x, y, height, x_range=across, y_range=names[::-1])
    # Its section scrolls on a narrow page, and no name overlaps its neighbour.
    pixels = [int(_LETTER * _longest(texts)) + 10 for texts in (across, names)]
    chart.min_width = _BESIDE + pixels[1] + max(_WIDE, pixels[0]) * len(across)
    places = [(w, n) for n in range(len(down)) for w in range(len(across))]
    largest = float(np.nanmax(regrets))
    source = ColumnDataSource(
        {
            "across": [across[w] for w, _ in places],
            "down": [down[n] for _, n in places],
            "loss": [100 * regrets[n, w] for w, n in places],
            "text": [_text(float(regrets[n, w])) for w, n in places],
        }
    )
    ends = {"high": 0.0, "low": 1.15 * 100 * largest or 1.0, "nan_color": "#00000000"}
    shade = linear_cmap("loss", "Oranges256", **ends)
    chart.rect("across", "down", 1, 1, source=source, fill_color=shade, line_color=None)
    source.data["ink"] = [_ink(value / 100, largest) for value in source.data["loss"]]
    chart.text(
        "across",
        "down",
        "text",
        source=source,
        text_align="center",
        text_baseline="middle",
        text_color="ink",
        text_font_size="13px",
    )
    chart.xgrid.visible = chart.ygrid.visible = False
    return chart


def _longest(texts: Sequence[str]) -> int:
    return max(len(line) for text in texts for line in text.split("\n"))


def _text(regret: float) -> str:
    return loss(regret) if math.isfinite(regret) else "does not\nrun"


def _ink(regret: float, largest: float) -> str:
    """Return a text colour that is readable on the shade of a regret, or on the page."""
    if not math.isfinite(regret):
        return GREY
    return "white" if regret > 0.75 * largest > 0 else "black"


REGRET = Chart("regret", "What one answer for all costs each scenario", draw_regret)


_MOST_WINNERS = 6  # designs with a colour of their own, those that win at most places
_OTHERS, _OPEN = "another design", "not known: too many may win"
_ANSWER = "the answer"


def draw_what_wins(points: Points) -> tuple[str, UIElement] | None:
    """Draw the best design for each pair of values of two changed assumptions."""
    proof = points.report.study.proof
    if proof is None or proof.regions is None:
        return None
    regions = proof.regions
    won = Counter(winner for row in regions.winners for winner in row)
    shown = sorted(won.keys() - {-1}, key=lambda winner: (winner > 0, -won[winner]))[:_MOST_WINNERS]
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
    claim = sentences.ANSWER_WINS(
        won=won[0],
        places=n,
        others=format_count(others, "other design"),
        other=n - won[0] - won[-1],
        unknown=sentences.AND_UNKNOWN(n=won[-1]) if won[-1] else "",
    )
    return claim, legend_outside(chart)


def _name(regions: Regions, winner: int) -> str:
    return _ANSWER if not winner else name_change(regions.designs[winner], regions.designs[0])


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
    chart.add_tools(small_hover(drawn, format_tip("@by", "@at", "@and")))


WHAT_WINS = Chart("what_wins", "What wins where", draw_what_wins)


_MOST_RECHECKED = 8  # cells with different colours


def draw_recheck(points: Points) -> tuple[str, UIElement] | None:
    """Draw each rechecked design's time at the higher fidelity over its time at ``phase``."""
    cells = [s for s in points.report.found if Comparison.from_cell(s).complete]
    if not cells:
        return None
    first = Comparison.from_cell(cells[0])
    factor, title = points.axis(first.measure)
    chart = plot(f"{title}, by phases", f"{title}, by {first.fidelity}s")
    ends, names = list[float](), naming.labels(cells)
    for i, cell in enumerate(cells[:_MOST_RECHECKED]):
        comparison = Comparison.from_cell(cell)
        pairs = [(r.phases, r.messages) for r in comparison.complete]
        x, y = ([factor * comparison.measure.value(pair[i]) for pair in pairs] for i in (0, 1))
        ranks = [str(recheck.rank) for recheck in comparison.complete]
        source = ColumnDataSource({"x": x, "y": y, "rank": ranks})
        name = names[i] if len(cells) > 1 else "one design, by its rank"
        drawn = chart.scatter(
            "x", "y", source=source, size=9, color=series_colour(i), legend_label=name
        )
        chart.text("x", "y", "rank", source=source, x_offset=7, text_color=GREY)
        shown = format_tip(
            "rank @rank", "by phases @x{0,0.[000]}", f"by {first.fidelity}s @y{{0,0.[000]}}"
        )
        chart.add_tools(small_hover(drawn, shown))
        ends += x
    same = [min(ends), max(ends)]
    chart.line(same, same, color=GREY, legend_label="the same both ways")
    claim = agreement(first) if len(cells) == 1 else f"{len(cells)} cells"
    return claim, legend_outside(chart)


RECHECK = Chart(
    "recheck", "Whether the ranking holds when every message is simulated", draw_recheck
)
