"""What each workload loses on a network made for another: the darker, the more is lost."""

from typing import Any

import numpy as np

from sweeper.draw.canvas import BLUE, Picture, label_cells, panels
from sweeper.report.portfolio import PortfolioSummary
from sweeper.report.report import Report
from sweeper.report.words import loss, narrow


def picture(report: Report) -> bytes | None:
    if not report.portfolios:
        return None

    def draw(ax: Any, portfolio: PortfolioSummary) -> None:
        networks = portfolio.made_for()
        regrets = np.maximum(portfolio.regrets[[i for _, i in networks]], 0.0)
        label_cells(ax, 100 * regrets, [[loss(r) for r in row] for row in regrets])
        ax.set_xticks(range(len(portfolio.names)), map(narrow, portfolio.names))
        ax.set_yticks(range(len(networks)), [name for name, _ in networks])
        for tick, (name, _) in zip(ax.get_yticklabels(), networks, strict=True):
            if name == "all of them":
                tick.set(weight="bold", color=BLUE)
        ax.set(xlabel="workload that runs on it", ylabel="network made for")

    claim = PortfolioSummary.headline if len(report.portfolios) == 1 else PortfolioSummary.finding
    overview = "What a workload loses on a network made for another"
    return panels(report.portfolios, 4, overview, claim, draw, name=lambda one: one.label)


PICTURE = Picture("regret.png", "What a shared network costs each workload", picture)
