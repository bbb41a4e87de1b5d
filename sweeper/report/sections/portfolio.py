"""For each portfolio what its workloads lose, and which other networks would do."""

from dimsweep.sweeper.report.naming import narrow
from dimsweep.sweeper.report.portfolio import PortfolioSummary
from dimsweep.sweeper.report.report import Report
from dimsweep.sweeper.report.sheet import Section, Sheet
from dimsweep.sweeper.report.words import loss, percent


def tables(report: Report) -> list[Sheet]:
    return [sheet for one in report.portfolios for sheet in (workloads(one), networks(one))]


def workloads(portfolio: PortfolioSummary) -> Sheet:
    """A row for each workload at the best split, or on the best network: what it has there, and
    what it would alone."""
    here, texts = portfolio.losses[portfolio.best], []
    for i, name in enumerate(portfolio.names):
        own, objective = portfolio.together.own[i], portfolio.cells[i].objective
        values = [objective.show(float(objective.loss(v))) for v in (here[i], own)]
        share = percent(portfolio.together.weighing.share[i])
        texts.append((name, share, *values, loss(here[i] / own - 1), *portfolio.more(i)))
    title = f"One {portfolio.noun} for all{_where(portfolio)}: {portfolio.split}"
    columns = ("workload", "weight", "here", "alone", "loss", *portfolio.more_columns)
    return Sheet(title, columns, texts)


def networks(portfolio: PortfolioSummary) -> Sheet:
    """A row for each network, a column for each workload: how much it loses there."""
    texts = []
    for name, i in portfolio.made_for():
        measured = portfolio.show(float(portfolio.measured[i]))
        texts.append((name, *map(loss, portfolio.regrets[i]), measured))
    columns = ("network made for", *map(narrow, portfolio.names), portfolio.measure)
    return Sheet(f"What a workload loses on a network{_where(portfolio)}", columns, texts)


def _where(portfolio: PortfolioSummary) -> str:
    return f" ({portfolio.label})" if portfolio.label else ""


SECTION = Section(of_study=tables)
