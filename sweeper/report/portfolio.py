"""One network for several workloads: what each of them loses against a network of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from engine.bound import Weighing
from sweeper.draw.canvas import BLUE, label_cells, panels
from sweeper.ledger.rows import COMPLETE
from sweeper.report import words
from sweeper.report.sheets import Sheet
from sweeper.report.summary import CellSummary, Floats
from sweeper.report.words import gbps, percent, seconds, short_keys, usd
from sweeper.study.portfolio import WORKLOAD, Together

_PANELS = 4
_NAMES = {
    "weighted_time": "weighted mean",
    "worst_regret": "worst loss",
    "cvar": "mean of the worst losses",
}


@dataclass(frozen=True)
class PortfolioSummary:
    """The splits that all workloads of a portfolio were simulated at.

    ``designs`` has a row for each, with a row of ``losses`` (P, N): seconds, or seconds times USD,
    of each workload.  ``measured`` (P,) is what is minimised, and ``bound`` what no split beats.
    """

    cells: Sequence[CellSummary]
    together: Together
    bound: float | None
    designs: pd.DataFrame
    losses: Floats
    measured: Floats

    @property
    def names(self) -> list[str]:
        """The workloads, as the configuration calls them."""
        return [cell.cell["coordinates"][WORKLOAD] for cell in self.cells]

    @property
    def best(self) -> int:
        """The position of the best split, the earliest of equal ones."""
        return int(self.measured.argmin())

    @property
    def regrets(self) -> Floats:
        """(P, N) relative losses against each workload's own best."""
        return np.asarray(self.losses / self.together.own - 1)

    @property
    def gap(self) -> float | None:
        """How far the measure is above its bound: a difference of regrets, or a share of times."""
        if self.bound is None:
            return None
        best = float(self.measured[self.best])
        return best - self.bound if self.together.weighing.of_regrets else best / self.bound - 1

    def made_for(self) -> list[tuple[str, int]]:
        """Networks to compare, by name and position: each workload's own, all workloads', equal."""
        found = []
        for i, name in enumerate(self.names):
            found.append((f"{name} alone", int(self.losses[:, i].argmin())))
        found.append(("all of them", self.best))
        equal = self.cells[0].equal
        if equal is not None:
            columns = self.cells[0].design
            same = (self.designs[columns] == equal[columns]).all(axis=1).to_numpy()
            found += [("equal split", int(i)) for i in np.flatnonzero(same)[:1]]
        return found


def summarise_portfolios(
    summaries: Sequence[CellSummary], study: Mapping[str, Any]
) -> list[PortfolioSummary]:
    """The portfolios of a study that are searched already, or at least begun."""
    by_number = {summary.cell["cell"]: summary for summary in summaries}
    found = []
    for entry in study.get("portfolios", []):
        cells = [by_number[number] for number in entry["cells"]]
        if entry["own"] is None:
            continue
        weighing = Weighing.build(entry["share"], entry["measure"], entry["level"])
        together = Together(weighing, np.array(entry["own"]), cells[0].objective)
        designs, losses = _common(cells, together)
        if len(designs):
            measured = together.measured(losses)
            found.append(
                PortfolioSummary(cells, together, entry["bound"], designs, losses, measured)
            )
    return found


def _common(cells: Sequence[CellSummary], together: Together) -> tuple[pd.DataFrame, Floats]:
    """The designs that every cell has a complete row of, and the losses there."""
    columns, column = cells[0].design, cells[0].objective.column
    common: pd.DataFrame | None = None
    for i, cell in enumerate(cells):
        rows = pd.concat([cell.complete, cell.shared[cell.shared["state"] == COMPLETE]])
        values = rows.drop_duplicates(columns)[[*columns, column]].rename(columns={column: f"#{i}"})
        common = values if common is None else common.merge(values, on=columns)
    assert common is not None
    values = common[[f"#{i}" for i in range(len(cells))]].to_numpy(float)
    return common[columns], together.objective.loss(values)


def headline(portfolio: PortfolioSummary) -> str:
    """What one network for all comes to, in a sentence without a full stop."""
    n_npus = portfolio.cells[0].cell["n_npus"]
    start = f"One network of {n_npus:,} NPUs for {len(portfolio.names)} workloads"
    return f"{start}: {finding(portfolio)}"


def finding(portfolio: PortfolioSummary) -> str:
    """The measure at the best split, and its proven bound."""
    best = float(portfolio.measured[portfolio.best])
    return f"{_measure(portfolio)} {_said(portfolio, best)}{_proven(portfolio)}"


def title(summaries: Sequence[CellSummary], portfolios: Sequence[PortfolioSummary]) -> str:
    """The finding of a study, which is its portfolio's if it has one."""
    if len(portfolios) == 1:
        return headline(portfolios[0])
    return words.headline(summaries)


def sheets_of(portfolios: Sequence[PortfolioSummary]) -> list[Sheet]:
    """For each portfolio what its workloads lose, and which other networks would do."""
    return [sheet for one in portfolios for sheet in (workloads(one), networks(one))]


def workloads(portfolio: PortfolioSummary) -> Sheet:
    """A row for each workload at the best split: what it has there, and what it would alone."""
    here = portfolio.losses[portfolio.best]
    texts = []
    for i, name in enumerate(portfolio.names):
        own, objective = portfolio.together.own[i], portfolio.cells[i].objective
        values = [objective.loss(v) for v in (here[i], own)]
        share = percent(portfolio.together.weighing.share[i])
        loss = _loss(here[i] / own - 1)
        texts.append((name, share, *(objective.show(float(v)) for v in values), loss))
    split = " ".join(gbps(b) for b in _bandwidths(portfolio, portfolio.best))
    title = f"One split for all{_where(portfolio)}: {split} GB/s"
    return Sheet(title, ("workload", "weight", "here", "alone", "loss"), texts)


def networks(portfolio: PortfolioSummary) -> Sheet:
    """A row for each network, a column for each workload: how much it loses there."""
    texts = []
    for name, i in portfolio.made_for():
        measured = _said(portfolio, float(portfolio.measured[i]))
        texts.append((name, *(_loss(r) for r in portfolio.regrets[i]), measured))
    columns = ("network made for", *(_short(n) for n in portfolio.names), _measure(portfolio))
    return Sheet(f"What a workload loses on a network{_where(portfolio)}", columns, texts)


def regret_map(portfolios: Sequence[PortfolioSummary]) -> bytes:
    """The same as a picture: the darker, the more is lost."""
    shown = {id(one.cells[0]): one for one in portfolios}

    def draw(ax: Any, summary: CellSummary) -> None:
        portfolio = shown[id(summary)]
        networks = portfolio.made_for()
        regrets = np.maximum(100 * portfolio.regrets[[i for _, i in networks]], 0.0)
        texts = [[_loss(r / 100) for r in row] for row in regrets]
        label_cells(ax, regrets, texts)
        ax.set_xticks(range(len(portfolio.names)), [_short(name) for name in portfolio.names])
        ax.set_yticks(range(len(networks)), [name for name, _ in networks])
        for tick, (name, _) in zip(ax.get_yticklabels(), networks, strict=True):
            if name == "all of them":
                tick.set(weight="bold", color=BLUE)
        ax.set(xlabel="workload that runs on it", ylabel="network made for")

    cells = [one.cells[0] for one in portfolios]
    overview = "What a workload loses on a network made for another"
    claim = headline if len(portfolios) == 1 else finding
    claims = {id(one.cells[0]): claim(one) for one in portfolios}
    return panels(
        cells, _PANELS, overview, lambda s: claims[id(s)], draw, name=lambda s: _label(shown[id(s)])
    )


def _measure(portfolio: PortfolioSummary) -> str:
    return _NAMES[portfolio.together.weighing.measure.value]


def _said(portfolio: PortfolioSummary, value: float) -> str:
    """A value of the measure."""
    if portfolio.together.weighing.of_regrets:
        return f"{max(100 * value, 0.0):.3g}%"
    if portfolio.together.objective.maximised:
        return f"{usd(value)} x s"
    return seconds(value)


def _loss(regret: float) -> str:
    return f"{100 * regret:.0f}%" if regret >= 0.0995 else f"{max(100 * regret, 0.0):.2g}%"


def _proven(portfolio: PortfolioSummary) -> str:
    if portfolio.bound is None:
        return ""
    return f" (no split has less than {_said(portfolio, portfolio.bound)}: proven)"


def _bandwidths(portfolio: PortfolioSummary, i: int) -> Floats:
    return portfolio.cells[0].split(portfolio.designs.iloc[i])


def _label(portfolio: PortfolioSummary) -> str:
    """What tells a portfolio from the others of its study: nothing if it is the only one."""
    coordinates = {
        key: value
        for key, value in portfolio.cells[0].cell["coordinates"].items()
        if key != WORKLOAD
    }
    names = short_keys(list(coordinates))
    return ", ".join(f"{n} {v}" for n, v in zip(names, coordinates.values(), strict=True))


def _where(portfolio: PortfolioSummary) -> str:
    label = _label(portfolio)
    return f" ({label})" if label else ""


def _short(name: str) -> str:
    return name.replace("_", "\n")
