"""What is lost where: a workload on a network made for another, a decision in a scenario that is
better served by another one.  The darker, the more is lost."""

import math
from collections.abc import Sequence

import numpy as np
from bokeh.layouts import column
from bokeh.models import ColumnDataSource, UIElement
from bokeh.plotting import figure
from bokeh.transform import linear_cmap

from sweeper.charts.chart import Chart
from sweeper.charts.frame import plot
from sweeper.charts.points import Points
from sweeper.report.decisions import Decisions
from sweeper.report.headline import headline
from sweeper.report.portfolio import PortfolioSummary
from sweeper.report.summary import Floats
from sweeper.report.words import loss

_MOST = 4  # portfolios
_ROWS, _COLUMNS = 30, 12  # decisions and scenarios; more are in the table


def draw(points: Points) -> tuple[str, UIElement] | None:
    portfolios, decisions = points.report.portfolios[:_MOST], points.report.decisions
    several = min(len(decisions.decisions), len(decisions.scenarios)) > 1
    made = [_of_portfolio(one) for one in portfolios] + [_of_decisions(decisions)] * several
    if not made:
        return None
    if several:
        claim = headline(decisions)
    else:
        one = len(portfolios) == 1
        claim = portfolios[0].headline() if one else f"{len(portfolios)} portfolios"
    return claim, column(*made, sizing_mode="stretch_width")


def _of_portfolio(portfolio: PortfolioSummary) -> figure:
    networks = portfolio.made_for()
    regrets = np.maximum(portfolio.regrets[[i for _, i in networks]], 0.0)
    title = f"workload that runs on it{f' ({portfolio.label})' if portfolio.label else ''}"
    return _table((title, "network made for"), portfolio.names, [n for n, _ in networks], regrets)


def _of_decisions(decisions: Decisions) -> figure:
    shown = decisions.ranking[:_ROWS]
    scenes = range(min(len(decisions.scenarios), _COLUMNS))
    some = f" (the first {_COLUMNS})" if len(decisions.scenarios) > _COLUMNS else ""
    return _table(
        (f"scenario{some}", "decision"),
        [decisions.scene(s) for s in scenes],
        [decisions.name(d) for d in shown],
        decisions.regrets[shown][:, : len(scenes)],
    )


def _table(
    titles: tuple[str, str], across: Sequence[str], down: Sequence[str], regrets: Floats
) -> figure:
    """A row for each of ``down`` and a column for each of ``across``; NaN where nothing ran."""
    x, y = titles
    names = list(dict.fromkeys(down))
    chart = plot(x, y, 110 + 44 * len(names), x_range=list(across), y_range=names[::-1])
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
    shade = linear_cmap("loss", "Oranges256", high=0.0, low=1.15 * 100 * largest or 1.0)
    chart.rect("across", "down", 1, 1, source=source, fill_color=shade, line_color=None)
    ink = ["white" if v > 75 * largest > 0 else "black" for v in source.data["loss"]]
    source.data["ink"] = ink
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


def _text(regret: float) -> str:
    return loss(regret) if math.isfinite(regret) else "does not run"


CHART = Chart("regret", "What one answer for all costs each scenario", draw)
