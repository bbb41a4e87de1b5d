"""What competes with what: the decisions of a study in each of its scenarios, and their regrets.

A loss is compared with another one of the same scenario, never with one of another: the shortest
time of several models is none of a design's merits.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from dimsweep.sweeper.ledger.record import WORKLOAD, StudyRecord
from dimsweep.sweeper.objective import Objective
from dimsweep.sweeper.report import naming
from dimsweep.sweeper.report.portfolio import PortfolioSummary
from dimsweep.sweeper.report.summary import CellSummary, Floats

# What scenarios are that differ in one thing: the model, what may be spent, what things cost.
_NOUNS = {WORKLOAD: "workloads", "space": "budgets", "cost": "prices"}
SPENT = ("space", "cost")
LEVEL = 5e-4  # losses that differ by less are equal


@dataclass(frozen=True)
class Decisions:
    """The decisions (D) of a study in its scenarios (S), each as the values of its axes.

    ``cells`` has the summary of each pair that has complete trials, and ``losses`` (D, S) what the
    objective minimises there, NaN where nothing is complete: of the best design for that scenario,
    or, in a portfolio, of the one split for all.  ``share`` (S,) is how much a scenario counts, and
    ``is_weighted`` whether the study's roles say so; else the decision that loses least is the one
    whose worst regret is least.
    """

    objective: Objective
    decisions: tuple[Mapping[str, str], ...]
    scenarios: tuple[Mapping[str, str], ...]
    cells: Mapping[tuple[int, int], CellSummary]
    losses: Floats
    share: Floats
    is_weighted: bool = False

    @classmethod
    def of(
        cls,
        study: StudyRecord,
        found: Sequence[CellSummary],
        portfolios: Sequence[PortfolioSummary],
    ) -> Self:
        """The decisions and scenarios of the cells that have complete trials."""
        pairs = {
            cell.cell.cell: (
                tuple(study.decision(cell.cell.coordinates).items()),
                tuple(study.scenario(cell.cell.coordinates).items()),
            )
            for cell in found
        }
        decisions = list(dict.fromkeys(decision for decision, _ in pairs.values()))
        scenarios = list(dict.fromkeys(scenario for _, scenario in pairs.values()))
        losses = np.full((len(decisions), len(scenarios)), np.nan)
        weights = {
            name: weight
            for one in portfolios
            for name, weight in zip(one.names, one.together.weighing.share.tolist(), strict=True)
        }
        cells = {}
        rows = {decision: i for i, decision in enumerate(decisions)}
        columns = {scenario: i for i, scenario in enumerate(scenarios)}
        for cell in found:
            decision, scenario = pairs[cell.cell.cell]
            place = rows[decision], columns[scenario]
            loss = cell.objective.loss(cell.objective.of(cell.named))
            if not losses[place] <= loss:  # of several plans that a network may have the best
                cells[place], losses[place] = cell, loss
        by_axis = {WORKLOAD: weights, **study.weights} if weights else study.weights
        share = np.array([_weight(dict(each), by_axis) for each in scenarios])
        if not share.sum():  # nothing is complete of all that counts
            share = np.ones_like(share)
        return cls(
            objective=found[0].objective,
            decisions=tuple(map(dict, decisions)),
            scenarios=tuple(map(dict, scenarios)),
            cells=cells,
            losses=losses,
            share=share / share.sum(),
            is_weighted=bool(study.weights),
        )

    def name(self, decision: int) -> str:
        """What to call a decision in a sentence."""
        return naming.coordinates_of(self.decisions[decision])

    def beside(self, decision: int, other: int) -> str:
        """What to call a decision in a sentence that has named another one before."""
        return naming.beside(self.decisions[decision], self.decisions[other])

    def scene(self, scenario: int) -> str:
        """What to call a scenario in a sentence."""
        return naming.coordinates_of(self.scenarios[scenario])

    @property
    def first(self) -> str:
        """What is said of something that is told of the first scenario of the answer alone."""
        return f"with {self.scene(self.places[0])}, the first of {self.count}"

    @property
    def count(self) -> str:
        """How many scenarios there are, and of what."""
        # A key of the workload, such as its batch, is no other workload.
        varied = {a.split(".")[0] if a.split(".")[0] in SPENT else a for a in self.scenarios[0]}
        noun = _NOUNS.get(varied.pop(), "scenarios") if len(varied) == 1 else "scenarios"
        return f"{len(self.scenarios)} {noun}"

    def best(self, scenario: int) -> CellSummary:
        """The best decision's cell of a scenario."""
        return self.cells[self.order(scenario)[0], scenario]

    def order(self, scenario: int) -> list[int]:
        """The decisions that are complete in a scenario, from the best to the worst."""
        losses = self.losses[:, scenario]
        ranked = np.argsort(losses, kind="stable")
        return ranked[~np.isnan(losses[ranked])].tolist()

    def behind(self, scenario: int) -> tuple[int, float] | None:
        """The runner-up of a scenario and by what share it is worse; None without one.

        A distance of two designs, which share most of the model's error: how far the model itself
        may be off belongs beside it, once an interval of such distances is known.
        """
        order = self.order(scenario)
        if len(order) < 2:
            return None
        return order[1], float(self.regrets[order[1], scenario])

    @cached_property
    def regrets(self) -> Floats:
        """(D, S) by what share a decision is worse than the best of its scenario."""
        least = np.nanmin(self.losses, axis=0)
        return np.asarray(self.losses / np.where(least == 0, np.nan, least) - 1)

    @cached_property
    def _counted(self) -> Floats:
        """(D, S') the regrets in the scenarios that count, without end where a decision does not
        run."""
        counts = self.share > 0
        return np.where(np.isnan(self.losses), np.inf, self.regrets)[:, counts]

    @cached_property
    def worst(self) -> Floats:
        """(D,) the largest regret of a decision; without end where it does not run everywhere."""
        return self._counted.max(axis=1)

    @cached_property
    def mean(self) -> Floats:
        """(D,) the mean regret of a decision, each scenario counting by its share."""
        return np.asarray(self._counted @ self.share[self.share > 0])

    @cached_property
    def ranking(self) -> list[int]:
        """The decisions by what they lose over all scenarios: the worst regret, then the mean; of
        scenarios with weights the mean, then the worst."""
        runs = np.isfinite(self._counted).sum(axis=1)
        then, first = (self.worst, self.mean) if self.is_weighted else (self.mean, self.worst)
        return np.lexsort((then, first, -runs)).tolist()

    def worst_scene(self, decision: int) -> str:
        """The scenario in which a decision loses most, of those that count."""
        regrets = np.where(self.share > 0, self.regrets[decision], -np.inf)
        return self.scene(int(regrets.argmax()))

    def chosen(self) -> list[CellSummary]:
        """The cells of the answer: those of the decision that loses least over all scenarios."""
        return [self.cells[self.ranking[0], s] for s in self.places]

    @property
    def places(self) -> list[int]:
        """The scenarios in which the decision that loses least is complete."""
        return [s for s in range(len(self.scenarios)) if (self.ranking[0], s) in self.cells]


def _weight(scenario: Mapping[str, str], weights: Mapping[str, Mapping[str, float]]) -> float:
    """How much a scenario counts: the product of the weights of its values."""
    return math.prod(own.get(scenario.get(axis, ""), 1.0) for axis, own in weights.items())
