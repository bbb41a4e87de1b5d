"""Texts and tables on one network for several workloads.

They compare each workload's loss on it with the loss on the workload's own best network.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
import pandas as pd

from dimsweep.engine.bound import Weighing
from dimsweep.sweeper.config.roles import is_plan_key
from dimsweep.sweeper.ledger.record import WORKLOAD, PortfolioRecord, StudyRecord
from dimsweep.sweeper.ledger.rows import COMPLETE
from dimsweep.sweeper.questions.networks.findings import NetworksReport
from dimsweep.sweeper.questions.portfolio.portfolio import (
    SharedMeasure,
    find_common_designs,
    find_design_row,
)
from dimsweep.sweeper.report import naming, sentences, words
from dimsweep.sweeper.report.charts import RegretMatrix
from dimsweep.sweeper.report.report import Report
from dimsweep.sweeper.report.summary import CellSummary, Floats
from dimsweep.sweeper.table import Column, Table, tabulate

_NAMES = {
    "weighted_time": "weighted mean",
    "worst_regret": "worst loss",
    "cvar": "mean of the worst losses",
}


@dataclass(frozen=True)
class PortfolioSummary:
    """The bandwidth splits at which all workloads of a portfolio were simulated."""

    cells: Sequence[CellSummary]
    shared: SharedMeasure
    #: Lower bound of the measure over all splits.
    bound: float | None
    #: A row for each split.
    designs: pd.DataFrame
    #: Losses (P, N) of each split in each workload, in s or s USD.
    losses: Floats
    #: The minimised measure of each split (P,).
    measured: Floats
    #: For each workload the designs of its rows, its search's designs first.
    tried: Sequence[pd.DataFrame]
    noun: ClassVar[str] = "split"  # the shared thing
    extra_columns: ClassVar[tuple[str, ...]] = ()  # of the table of workloads

    @property
    def names(self) -> list[str]:
        """The names of the workloads in the configuration."""
        return [cell.cell.coordinates[WORKLOAD] for cell in self.cells]

    @property
    def title(self) -> str:
        return "one network for all"

    @property
    def weights(self) -> Mapping[str, float]:
        return dict(zip(self.names, self.shared.weighing.share.tolist(), strict=True))

    @property
    def best_index(self) -> int:
        """The index of the split with the best measure; of equal ones the first."""
        return self.shared.best_design(self.losses)

    @property
    def split(self) -> str:
        """The bandwidths of the best split, as text."""
        best = self.cells[0].split(self.designs.iloc[self.best_index])
        return f"{', '.join(map(words.gbps, best))} GB/s"

    @property
    def regrets(self) -> Floats:
        """Relative losses (P, N) at P splits, of N workloads, against each workload's best."""
        return np.asarray(self.losses / self.shared.own - 1)

    @property
    def gap(self) -> float | None:
        """Distance of the best measure from its bound: a difference of regrets, or a share."""
        if self.bound is None:
            return None
        best = float(self.measured[self.best_index])
        return best - self.bound if self.shared.weighing.uses_regrets else best / self.bound - 1

    def best_rows(self) -> list[pd.Series]:
        """Return each workload's row of results at the best split."""
        return self._best_rows

    @cached_property
    def _best_rows(self) -> list[pd.Series]:
        best = self.designs.iloc[self.best_index]
        places = np.array([find_design_row(rows, best).name for rows in self.tried])
        found = self.cells[0].trials.rows.take(places)
        return [found.iloc[i] for i in range(len(places))]

    def compared_networks(self) -> list[tuple[str, int]]:
        """Return the networks to compare, each with a name and the index of its split.

        They are each workload's own best, the best for all workloads, and equal bandwidths.
        """
        found = []
        for i, name in enumerate(self.names):
            found.append((f"{name} alone", int(self.losses[:, i].argmin())))
        found.append(("all of them", self.best_index))
        equal = self.cells[0].equal
        if equal is not None:
            columns = self.cells[0].design
            same = (self.designs[columns] == equal[columns]).all(axis=1).to_numpy()
            found += [("equal split", int(i)) for i in np.flatnonzero(same)[:1]]
        return found

    @property
    def label(self) -> str:
        """Name of the portfolio within its study; empty if it is the only one."""
        rest = {k: v for k, v in self.cells[0].cell.coordinates.items() if k != WORKLOAD}
        names = naming.short_keys(list(rest))
        return ", ".join(f"{n} {v}" for n, v in zip(names, rest.values(), strict=True))

    @property
    def measure(self) -> str:
        """Description of the minimised measure, as text."""
        return _NAMES[self.shared.weighing.measure.value]

    def show(self, value: float) -> str:
        """Format a value of the minimised measure."""
        if self.shared.weighing.uses_regrets:
            return f"{max(100 * value, 0.0):.3g}%"
        objective = self.shared.objective
        if objective.maximised:
            amount = words.usd(value) if objective.needs_prices else words.watts(value)
            return f"{amount} x s"
        return objective.show(value)

    def show_mean(self, value: float) -> str:
        """Format a value of :meth:`SharedMeasure.mean`, which is 1 plus the mean regret."""
        return self.show(value - self.shared.offset)

    def extra_cells(self, i: int) -> tuple[str, ...]:
        """Return further columns of the table of workloads, for workload ``i``."""
        return ()

    def describe_builds(self) -> list[str]:
        """Return a text on the plan of each workload.

        It is [] if the workloads have no separate plans.
        """
        return []

    def finding(self) -> str:
        """Return a text with the measure at the best split, and its proven lower bound."""
        return f"{self._found}{self._proven}"

    def headline(self) -> str:
        """Return a sentence on the result of one network for all workloads, without a full stop."""
        against = ""
        if self.shared.weighing.uses_regrets:
            measured = words.measured_in(self.shared.objective)
            against = sentences.AGAINST_OWN(measured=measured, noun=self.noun)
        found = sentences.ONE_NETWORK(
            npus=self.cells[0].cell.n_npus,
            n=len(self.names),
            network=self.split,
            found=self._found,
            against=against,
            proven=self._proven,
        )
        return sentences.join(found, self._gain)

    @property
    def _gain(self) -> str:
        objective, pairs = self.shared.objective, zip(self.cells, self.best_rows(), strict=True)
        of_baseline = [(c.reference, c.gain(objective, row)) for c, row in pairs]
        names = [each.name for each, _ in of_baseline if each and each.is_common]
        gains = [g for each, g in of_baseline if each and each.is_common and g is not None]
        if not gains:
            return ""
        return sentences.IT_IS(gained=words.format_gain(gains, objective, names[0]))

    @property
    def _found(self) -> str:
        value = self.show(float(self.measured[self.best_index]))
        return sentences.MEASURED(measure=self.measure, value=value)

    @property
    def _proven(self) -> str:
        if self.bound is None:
            return ""
        return sentences.PROVEN_LEAST(noun=self.noun, bound=self.show(self.bound))

    def regret_matrix(self) -> RegretMatrix:
        """Return the loss of each workload on each of the compared networks."""
        networks = self.compared_networks()
        regrets = np.maximum(self.regrets[[i for _, i in networks]], 0.0)
        title = f"workload that runs on it{f' ({self.label})' if self.label else ''}"
        titles = title, "network made for"
        return RegretMatrix(titles, self.names, [name for name, _ in networks], regrets)

    def tables(self) -> list[Table]:
        """Return tables of each workload's loss on the best and on the other compared networks."""
        where = f" ({self.label})" if self.label else ""
        title = f"One {self.noun} for all{where}: {self.split}"
        workloads = range(len(self.names))
        here, alone = self.losses[self.best_index], self.shared.own

        def show(i: int, value: float) -> str:
            objective = self.cells[i].objective
            return objective.show(float(objective.loss(value)))

        of_workloads = [
            Column("workload", lambda i: self.names[i]),
            Column("weight", lambda i: words.percent(float(self.shared.weighing.share[i])), rank=2),
            Column("here", lambda i: show(i, float(here[i]))),
            Column("alone", lambda i: show(i, float(alone[i])), rank=1),
            Column("loss", lambda i: words.loss(here[i] / alone[i] - 1)),
            *(
                Column(head, lambda i, place=place: self.extra_cells(i)[place], rank=3)
                for place, head in enumerate(self.extra_columns)
            ),
        ]
        of_networks = [
            Column("network made for", lambda network: network[0]),
            *(
                Column(
                    naming.narrow(name),
                    lambda network, i=i: words.loss(self.regrets[network[1], i]),
                    rank=1,
                )
                for i, name in enumerate(self.names)
            ),
            Column(self.measure, lambda network: self.show(float(self.measured[network[1]]))),
        ]
        lost = f"What a workload loses on a network{where}"
        return [
            *tabulate(title, workloads, of_workloads),
            *tabulate(lost, self.compared_networks(), of_networks),
        ]


class NetworkSummary(PortfolioSummary):
    """One network for the workloads of a portfolio; ``cells`` has each workload's best plan on it.

    ``designs`` are the networks that are best for a single workload, followed by the one for all.
    ``losses`` are infinite where no plan of a workload was simulated on a network.
    """

    noun = "network"
    extra_columns = ("plan here", "network alone")

    @property
    def title(self) -> str:
        return f"one network for all, with the plan of {self.names[0]}"

    @property
    def best_index(self) -> int:
        return len(self.designs) - 1

    @property
    def split(self) -> str:
        """The network for all workloads, as text."""
        own = self.designs.iloc[self.best_index].to_dict()
        # A product of dimensions has no generator, and what a generator makes has no dimensions.
        return naming.coordinates_of({k: text for k, text in own.items() if text != "none"})

    def best_rows(self) -> list[pd.Series]:
        return [cell.best for cell in self.cells]

    def compared_networks(self) -> list[tuple[str, int]]:
        return [
            *((f"{name} alone", i) for i, name in enumerate(self.names)),
            ("all", self.best_index),
        ]

    @property
    def label(self) -> str:
        return ""

    def extra_cells(self, i: int) -> tuple[str, ...]:
        return self._describe_plan(i), self._describe_own_network(i)

    def _describe_plan(self, i: int) -> str:
        """Describe the plan of workload ``i`` on the network for all."""
        own = self.cells[i].cell.coordinates
        return naming.coordinates_of({key: value for key, value in own.items() if is_plan_key(key)})

    def _describe_own_network(self, i: int) -> str:
        """Describe workload ``i``'s best network, compared with the network for all."""
        own, common = (self.designs.iloc[n].to_dict() for n in (i, self.best_index))
        return "the same" if own == common else naming.name_change(own, common)

    def describe_builds(self) -> list[str]:
        objective, found = self.shared.objective, []
        for i, cell in enumerate(self.cells):
            found.append(
                sentences.WORKLOAD_ON_NETWORK(
                    workload=self.names[i],
                    plan=self._describe_plan(i),
                    claim=objective.claim(objective.value(cell.best)),
                    loss=words.loss(float(self.regrets[self.best_index, i])),
                )
            )
        return found


def summarise_portfolios(
    summaries: Sequence[CellSummary], study: StudyRecord
) -> list[PortfolioSummary]:
    """Return the portfolios of a study whose searches have begun."""
    by_number = {summary.cell.cell: summary for summary in summaries}
    found = list[PortfolioSummary]()
    for entry in study.portfolios:
        cells = [by_number[number] for number in entry.cells]
        if entry.own is None:
            continue
        weighing = Weighing.build(entry.share, entry.measure, entry.level)
        shared = SharedMeasure(weighing, np.array(entry.own), cells[0].objective)
        if study.is_shared:
            found.append(_summarise_networks(by_number, entry, shared, study))
            continue
        rows = list(map(_rows, cells))
        designs, losses = find_common_designs(rows, cells[0].design, shared.objective)
        if len(designs):
            measured = shared.measured(losses)
            one = PortfolioSummary(cells, shared, entry.bound, designs, losses, measured, rows)
            found.append(one)
    return found


def _summarise_networks(
    cells: Mapping[int, CellSummary],
    entry: PortfolioRecord,
    shared: SharedMeasure,
    study: StudyRecord,
) -> NetworkSummary:
    """Compare one network for all workloads with the best network for each workload."""
    plans = [[cells.get(n) for n in numbers] for numbers in (*entry.alone, entry.cells)]
    objective = shared.objective
    losses = [
        [math.inf if c is None else objective.loss(objective.value(c.best)) for c in own]
        for own in plans
    ]
    named = [next(c for c in own if c is not None).cell.coordinates for own in plans]
    return NetworkSummary(
        cells=[cell for cell in plans[-1] if cell is not None],
        shared=shared,
        bound=entry.bound,
        designs=pd.DataFrame(map(study.decision, named)),
        losses=np.array(losses),
        measured=shared.measured(np.array(losses)),
        tried=(),
    )


def _rows(cell: CellSummary) -> pd.DataFrame:
    """Return the designs and values of a cell's complete trials, trials of its own search first."""
    columns = ["trial", *cell.design, cell.objective.column]
    own = pd.concat(list(cell.trials.complete(columns)))
    shared = cell.trials.rows.select([*columns, "state"], cell.shared)
    shared = shared[shared["state"] == COMPLETE]
    return pd.concat([each[columns].sort_values("trial") for each in (own, shared)])


class SplitPortfolioReport(Report):
    """The report of one bandwidth split for several workloads."""

    portfolios: Sequence[PortfolioSummary]

    @classmethod
    def asks(cls, study: StudyRecord) -> bool:
        return bool(study.portfolios)

    @classmethod
    def share(
        cls, summaries: list[CellSummary], study: StudyRecord
    ) -> tuple[list[CellSummary], list[PortfolioSummary]]:
        return _with_answers(summaries, summarise_portfolios(summaries, study))

    @property
    def search_claim(self) -> tuple[str, str] | None:
        return (self.portfolios[0].finding(), "") if len(self.portfolios) == 1 else None


class SharedNetworksReport(NetworksReport):
    """The report of one network for several workloads, each with a separate plan."""

    portfolios: Sequence[PortfolioSummary]

    @classmethod
    def asks(cls, study: StudyRecord) -> bool:
        return study.is_shared

    @classmethod
    def share(
        cls, summaries: list[CellSummary], study: StudyRecord
    ) -> tuple[list[CellSummary], list[PortfolioSummary]]:
        return _with_answers(summaries, summarise_portfolios(summaries, study))

    @property
    def found(self) -> list[CellSummary]:
        """The best plan of each workload on the network for all."""
        return list(self.portfolios[0].cells) if self.portfolios else super().found

    @property
    def ordered(self) -> list[CellSummary]:
        return self.found

    @property
    def ties(self) -> str:
        return ""

    def tables(self) -> list[Table]:
        return [*super().tables(), *Report.tables(self)]

    @property
    def show_mean(self) -> Callable[[float], str] | None:
        return self.portfolios[0].show_mean if self.portfolios else None


def _with_answers(
    summaries: list[CellSummary], portfolios: list[PortfolioSummary]
) -> tuple[list[CellSummary], list[PortfolioSummary]]:
    """Return cells and portfolios whose answers are the rows at the split for all workloads."""
    rows = {
        cell.cell.cell: row
        for one in portfolios
        for cell, row in zip(one.cells, one.best_rows(), strict=True)
    }
    summaries = [replace(s, for_all=rows.get(s.cell.cell)) for s in summaries]
    by_number = {s.cell.cell: s for s in summaries}
    return summaries, [
        replace(one, cells=[by_number[cell.cell.cell] for cell in one.cells]) for one in portfolios
    ]
