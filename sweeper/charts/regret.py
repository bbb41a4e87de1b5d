"""What each workload loses on a network made for another: the darker, the more is lost."""

import numpy as np
from bokeh.layouts import column
from bokeh.models import ColumnDataSource, UIElement
from bokeh.plotting import figure
from bokeh.transform import linear_cmap

from sweeper.charts.chart import Chart
from sweeper.charts.frame import plot
from sweeper.charts.points import Points
from sweeper.report.portfolio import PortfolioSummary
from sweeper.report.words import loss

_MOST = 4  # portfolios


def draw(points: Points) -> tuple[str, UIElement] | None:
    portfolios = points.report.portfolios[:_MOST]
    if not portfolios:
        return None
    made = [_table(portfolio) for portfolio in portfolios]
    claim = portfolios[0].headline() if len(portfolios) == 1 else f"{len(portfolios)} portfolios"
    return claim, column(*made, sizing_mode="stretch_width")


def _table(portfolio: PortfolioSummary) -> figure:
    networks = portfolio.made_for()
    regrets = np.maximum(portfolio.regrets[[i for _, i in networks]], 0.0)
    names = list(dict.fromkeys(name for name, _ in networks))
    title = f"workload that runs on it{f' ({portfolio.label})' if portfolio.label else ''}"
    chart = plot(
        title,
        "network made for",
        110 + 44 * len(names),
        x_range=portfolio.names,
        y_range=names[::-1],
    )
    places = [(w, n) for n in range(len(networks)) for w in range(len(portfolio.names))]
    source = ColumnDataSource(
        {
            "workload": [portfolio.names[w] for w, _ in places],
            "network": [networks[n][0] for _, n in places],
            "loss": [100 * regrets[n, w] for w, n in places],
            "text": [loss(regrets[n, w]) for w, n in places],
        }
    )
    shade = linear_cmap("loss", "Oranges256", high=0.0, low=1.15 * 100 * regrets.max() or 1.0)
    chart.rect("workload", "network", 1, 1, source=source, fill_color=shade, line_color=None)
    ink = ["white" if v > 75 * regrets.max() > 0 else "black" for v in source.data["loss"]]
    source.data["ink"] = ink
    chart.text(
        "workload",
        "network",
        "text",
        source=source,
        text_align="center",
        text_baseline="middle",
        text_color="ink",
        text_font_size="13px",
    )
    chart.xgrid.visible = chart.ygrid.visible = False
    return chart


CHART = Chart("regret", "What a shared network costs each workload", draw)
